//! Slots from discovery to proof, over the real routes: a played node says whatever the test wants, or a real agent and
//! executor work on a pretended host.

use dev::api::Refused;
use dev::slots::of_node;
use dev::town::Town;
use host::pretend::{Pretend, Profile};
use model::api::SlotView;
use model::id::{NodeId, SlotId};
use model::node_api::OfferedTask;
use model::outcome::ResultPayload;
use model::signal::Code;
use model::state::{NodeMode, SlotState};
use model::task::topology_discover::Output;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::to_raw_value;

use crate::EXE;
use crate::puppet::Puppet;

mod devices;
mod drains;
mod held;
mod images;
mod landing;
mod leases;
mod looks;
mod renter;
mod telemetry;
mod walk;
mod way_out;

/// Nobody is stale because a test takes its time.
async fn town() -> Town {
    Town::tuned(EXE, |config| {
        config.wait_hold_s = 2;
        config.heartbeat_stale_s = 600;
        config.probe_every_s = 3600;
    })
    .await
}

/// What an honest executor would find on such a host.
pub(crate) fn found(node: NodeId) -> Output {
    let policy = executor::SlicePolicy {
        cidr: Some("10.77.0.0/16".parse().expect("a network")),
        bridges: vec!["br-slices".parse().expect("a name")],
    };
    let host = Pretend::in_memory(Profile::H100x8).host();
    executor::discover(&host, node, &policy).expect("a discovery")
}

impl Puppet {
    /// A played node in slice mode, ready.
    async fn of_slices(town: &Town, name: &str) -> Self {
        let enrolment = town.add_node_for(name, NodeMode::Slice).await;
        let puppet = Self::with_token(&enrolment.token).await;
        let opened = puppet.post("session", &puppet.session_request()).await;
        assert!(opened.status.is_success(), "{opened:?}");
        let first = puppet.claim().await;
        puppet.ends(town, &first, |_| {}).await;
        puppet
    }

    /// Ends a task, honestly but for what the test changes.
    async fn ends(&self, town: &Town, task: &OfferedTask, change: impl FnOnce(&mut ResultPayload)) {
        let mut result = self.result(task, town.db.clock().now());
        change(&mut result);
        let landed = self
            .land(task.task_id, task.fence, result.sign(&self.keys.result))
            .await;
        assert!(landed.status.is_success(), "{landed:?}");
    }

    /// Answers the discovery that is asked for.
    async fn finds(&self, town: &Town, output: &Output) {
        let task = self.claim().await;
        self.ends(town, &task, |result| {
            result.output = Some(to_raw_value(output).expect("JSON"))
        })
        .await;
    }

    pub(crate) async fn discovers(&self, town: &Town, output: &Output) -> Vec<SlotView> {
        let path = format!("/v1/nodes/{}/discover", self.id());
        let _: serde_json::Value = town
            .api()
            .post(&path, &json!({}))
            .await
            .expect("a discovery is asked for");
        self.finds(town, output).await;
        slots(town, self.id()).await
    }

    /// Eight slots in service.
    async fn in_service(&self, town: &Town) -> Vec<SlotView> {
        for slot in self.discovers(town, &found(self.id())).await {
            approve(town, slot.id).await.expect("nothing stands in its way");
        }
        slots(town, self.id()).await
    }
}

async fn slots(town: &Town, node: NodeId) -> Vec<SlotView> {
    of_node(&town.api(), node).await.expect("its slots")
}

async fn slot(town: &Town, id: SlotId) -> SlotView {
    town.api()
        .get(&format!("/v1/slots/{id}"))
        .await
        .expect("the slot is there")
}

async fn verb<T: DeserializeOwned>(town: &Town, path: &str) -> Result<T, Code> {
    let answer = town.api().post(path, &json!({})).await;
    answer.map_err(|error| code(&error))
}

async fn reasoned(town: &Town, path: &str) -> Result<serde_json::Value, Code> {
    let answer = town.api().post(path, &json!({ "reason": "a test" })).await;
    answer.map_err(|error| code(&error))
}

fn code(error: &anyhow::Error) -> Code {
    let refused: Option<&Refused> = error.downcast_ref();
    refused.and_then(Refused::code).unwrap_or_else(|| panic!("{error}"))
}

async fn approve(town: &Town, id: SlotId) -> Result<SlotView, Code> {
    verb(town, &format!("/v1/slots/{id}/approve")).await
}

fn states(slots: &[SlotView]) -> Vec<SlotState> {
    slots.iter().map(|slot| slot.state).collect()
}
