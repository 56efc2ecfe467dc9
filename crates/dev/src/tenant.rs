//! A tenant with a whole machine, as the API would authorise one. No route asks for user tasks yet, so whoever puts
//! load on a town signs with the API's own functions.

use base::Actor;
use fleet::Fleet;
use fleet::intent::{Authorised, sign};
use fleet::task::{Ask, Cover, enqueue};
use model::digest::Sha256;
use model::id::{AllocationId, NodeId, ProjectId, TaskId, derive_op};
use model::intent::Wish;
use model::task::{Task, deprovision_user, provision_user};
use model::value::{Name, SshKey, Uid};

use crate::town::Town;

pub struct Tenant {
    pub allocation: AllocationId,
    project: ProjectId,
    username: Name,
    uid: Uid,
    key: SshKey,
}

impl Tenant {
    pub fn new(name: &str, uid: u32) -> Self {
        let blob = [&11u32.to_be_bytes()[..], b"ssh-ed25519", &32u32.to_be_bytes(), &[7; 32]].concat();
        let key = format!("ssh-ed25519 {}", data_encoding::BASE64.encode(&blob));
        Self {
            allocation: AllocationId::new(),
            project: ProjectId::new(),
            username: name.parse().expect("a plain name"),
            uid: uid.try_into().expect("a tenant's uid"),
            key: key.parse().expect("a well-formed key"),
        }
    }

    pub fn provision(&self) -> Task {
        Task::ProvisionUser(provision_user::Params {
            allocation_id: self.allocation,
            username: self.username.clone(),
            uid: self.uid,
            ssh_public_keys: vec![self.key.clone()],
            gpu_access: false,
        })
    }

    pub fn deprovision(&self) -> Task {
        Task::DeprovisionUser(deprovision_user::Params {
            allocation_id: self.allocation,
            username: self.username.clone(),
            uid: self.uid,
            remove_home: true,
        })
    }

    /// The wish for this node, signed and stored.
    pub async fn intent(&self, town: &Town, node_id: NodeId) -> Sha256 {
        self.intent_by(&town.fleet().await, node_id).await
    }

    async fn intent_by(&self, fleet: &Fleet, node_id: NodeId) -> Sha256 {
        let mut change = fleet
            .app
            .db
            .change(&Actor::system("tenant"), "allocation.create", self.allocation)
            .await
            .expect("a change");
        let authorised = Authorised {
            allocation: self.allocation,
            project: self.project,
            generation: 1,
            wish: Wish::Machine {
                node_id,
                username: self.username.clone(),
                uid: self.uid,
                ssh_public_keys: vec![self.key.clone()],
                gpu_access: false,
            },
        };
        let (_, intent) = sign(fleet, &mut change, &authorised).await.expect("the API signs");
        change.commit().await.expect("commits");
        intent
    }

    /// A task of this intent; the same operation again finds the same task while it is open.
    pub async fn ask(&self, town: &Town, node: NodeId, intent: Sha256, task: Task) -> TaskId {
        self.ask_by(&town.fleet().await, node, intent, task).await
    }

    async fn ask_by(&self, fleet: &Fleet, node: NodeId, intent: Sha256, task: Task) -> TaskId {
        let op = derive_op(self.allocation, task.task_type().as_str(), 1);
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
        let intent = self.intent(town, node).await;
        self.ask(town, node, intent, self.provision()).await
    }

    /// The same by whoever holds the API's insides.
    pub async fn moves_in_by(&self, fleet: &Fleet, node: NodeId) -> TaskId {
        let intent = self.intent_by(fleet, node).await;
        self.ask_by(fleet, node, intent, self.provision()).await
    }

    pub async fn moves_out(&self, town: &Town, node: NodeId) -> TaskId {
        let intent = self.intent(town, node).await;
        self.ask(town, node, intent, self.deprovision()).await
    }
}
