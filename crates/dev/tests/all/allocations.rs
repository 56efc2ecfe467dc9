//! What tenants rent, with real agents and executors on pretended hosts: the way there, the way back, and everything that
//! comes between.

mod again;
mod alarms;
mod apart;
pub(crate) mod events;
mod every_state;
mod late_phases;
mod late_repair;
mod limits;
pub(crate) mod machines;
mod matrix;
mod once;
mod out_of_sale;
mod own_audit;
mod project_ends;
mod promises;
mod races;
mod standstill;
mod strangers;
mod switched;
mod tenants;
mod undo_kills;
mod used_time;
mod uses;
mod walk;
mod ways_back;
mod worker_kills;
mod wrong_clocks;

use std::path::Path;

use base::testing::eventually;
use dev::api::Api;
use dev::simnode::{NodeDir, SimNode};
use dev::slots::approve_all;
use dev::town::Town;
use host::pretend::{Pretend, Profile, State};
use model::api::{AllocationCreate, AllocationView, SlotView, TransitionView};
use model::id::{AllocationId, NodeId};
use model::state::{AllocationState, NodeMode, SlotState};
use serde_json::json;

use crate::EXE;

/// A town with a host of eight slots, something to rent, and a project of the administrator's.
pub(crate) struct Market {
    pub(crate) town: Town,
    pub(crate) node: NodeId,
    sim: SimNode,
}

impl Market {
    pub(crate) async fn open() -> Self {
        // A host that is unplugged stays ready for as long as a test may take.
        let town = Town::tuned(EXE, |config| {
            config.wait_hold_s = 2;
            config.heartbeat_stale_s = 600;
            config.self_probe_every_s = 1;
        });
        let town = town.await;
        let (node, sim) = town.node_for("a", Profile::H100x8, NodeMode::Slice).await;
        approve_all(&town.api(), node).await.expect("slots");
        town.lists_demo_image().await;
        dev::demo::ensure(&town.api()).await.expect("something to rent");
        Self { town, node, sim }
    }

    pub(crate) fn api(&self) -> Api {
        self.town.api()
    }

    pub(crate) fn wish() -> AllocationCreate {
        AllocationCreate {
            project: None,
            sku: dev::demo::SKU.to_owned(),
            name: None,
            image: None,
            ssh_public_keys: Vec::new(),
            ttl_s: None,
        }
    }

    pub(crate) async fn rents(&self, key: &str) -> AllocationView {
        let made = self.api().post_as(key, "/v1/allocations", &Self::wish()).await;
        made.expect("accepted")
    }

    pub(crate) async fn shows(&self, id: AllocationId) -> AllocationView {
        let path = format!("/v1/allocations/{id}");
        self.api().get(&path).await.expect("it is there")
    }

    pub(crate) async fn verb(&self, id: AllocationId, verb: &str) -> AllocationView {
        let path = format!("/v1/allocations/{id}/{verb}");
        self.api().post(&path, &json!({})).await.expect("accepted")
    }

    pub(crate) async fn until(&self, id: AllocationId, state: AllocationState) -> AllocationView {
        eventually(&format!("the allocation is {state}"), async || {
            let seen = self.shows(id).await;
            if seen.state == state {
                Ok(seen)
            } else {
                Err(format!("{} {:?} {:?}", seen.state, seen.code, seen.detail))
            }
        })
        .await
    }

    pub(crate) async fn moves(&self, id: AllocationId) -> Vec<AllocationState> {
        let path = format!("/v1/allocations/{id}/transitions");
        let page: model::api::Page<TransitionView> = self.api().get(&path).await.expect("a history");
        let moves = page.items.into_iter().filter(|one| one.switch.is_none());
        moves.map(|one| one.to).collect()
    }

    /// Whoever hears of a move can ask for that version: each event names the one that its move has made.
    pub(crate) async fn tells_its_versions(&self, id: AllocationId) {
        let told: Vec<(String, i64, Option<i64>)> = sqlx::query_as(
            "select t.to_state, t.version, o.subject_version from allocation_transition t
             join outbox o on o.subject_id = $2 and o.data ->> 'to' = t.to_state
             where t.allocation_id = $1 order by t.version",
        )
        .bind(id.uuid())
        .bind(id.to_string())
        .fetch_all(self.town.platform.apps[0].db.read())
        .await
        .expect("a history");
        assert!(told.len() > 2, "{told:?}");
        for (state, version, said) in told {
            assert_eq!(Some(version), said, "{state}");
        }
        let first: Option<i64> = sqlx::query_scalar(
            "select subject_version from outbox where kind = 'provisioning.requested' and subject_id = $1",
        )
        .bind(id.to_string())
        .fetch_one(self.town.platform.apps[0].db.read())
        .await
        .expect("it was asked for");
        assert_eq!(first, Some(1));
    }

    pub(crate) async fn slots(&self) -> Vec<SlotView> {
        dev::slots::of_node(&self.api(), self.node).await.expect("slots")
    }

    pub(crate) async fn free(&self) -> usize {
        let slots = self.slots().await;
        slots.iter().filter(|slot| slot.state == SlotState::Free).count()
    }

    /// What the pretended host remembers, as it lies on its disk.
    pub(crate) fn host(&self) -> String {
        std::fs::read_to_string(self.sim.dir.host().join("state.json")).expect("the pretended host's memory")
    }

    /// The host falls silent, as if somebody had pulled the plug.
    pub(crate) async fn unplug(self) -> Self {
        let Self { town, node, mut sim } = self;
        let stopped = tokio::task::spawn_blocking(move || {
            sim.stop();
            sim
        });
        let sim = stopped.await.expect("stops");
        Self { town, node, sim }
    }

    /// Stops the host, changes it behind everybody's back, and starts it again.
    pub(crate) async fn meddle(self, host: &str, change: impl FnOnce(&mut State)) -> Self {
        let Self { town, node, .. } = self.unplug().await;
        let dir = NodeDir::new(town.dir().join(host)).expect("its directory");
        let pretended = Pretend::in_directory(Profile::H100x8, &dir.host()).expect("its host");
        pretended.meddle(change);
        pretended.reboot().expect("written down");
        drop(pretended);
        let sim = SimNode::start(Path::new(EXE), host, dir, Profile::H100x8);
        Self { town, node, sim }
    }

    pub(crate) async fn close(self) {
        let mut sim = self.sim;
        tokio::task::spawn_blocking(move || sim.stop()).await.expect("stops");
        self.town.end().await;
    }
}
