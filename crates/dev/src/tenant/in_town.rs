//! A tenant of a test's town: asks as the API would, and takes no for a failed test.

use base::Actor;
use fleet::Fleet;
use fleet::task::{Ask, Cover, enqueue};
use model::digest::Sha256;
use model::id::{NodeId, TaskId};
use model::task::Task;

use super::Tenant;
use crate::town::Town;

impl Tenant {
    pub async fn intent(&self, town: &Town, node: NodeId) -> Sha256 {
        self.sign(&town.fleet().await, node).await.expect("the API signs")
    }

    /// A task of this intent; the same operation again finds the same task while it is open.
    pub async fn ask(&self, town: &Town, node: NodeId, intent: Sha256, task: Task) -> TaskId {
        self.ask_by(&town.fleet().await, node, intent, task).await
    }

    async fn ask_by(&self, fleet: &Fleet, node: NodeId, intent: Sha256, task: Task) -> TaskId {
        let op = self.op(&task);
        let mut change = fleet
            .app
            .db
            .change(&Actor::system("tenant"), "allocation.step", self.allocation)
            .await
            .expect("a change");
        let cover = Cover::Intent { sha256: intent, op };
        let id = enqueue(fleet, &mut change, &Ask { node, task, cover })
            .await
            .expect("the intent covers it");
        change.commit().await.expect("commits");
        id
    }

    /// Intent and account in one breath.
    pub async fn moves_in(&self, town: &Town, node: NodeId) -> TaskId {
        self.moves_in_by(&town.fleet().await, node).await
    }

    /// The same by whoever holds the API's insides.
    pub async fn moves_in_by(&self, fleet: &Fleet, node: NodeId) -> TaskId {
        let intent = self.sign(fleet, node).await.expect("the API signs");
        self.ask_by(fleet, node, intent, self.provision()).await
    }

    pub async fn moves_out(&self, town: &Town, node: NodeId) -> TaskId {
        let intent = self.intent(town, node).await;
        self.ask(town, node, intent, self.deprovision()).await
    }
}
