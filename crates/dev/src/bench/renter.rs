//! Tasks of a slice as the control plane would sign them, each pair for an allocation of its own on the same slot.

use anyhow::Context;
use base::Clock;
use fleet::Fleet;
use host::pretend::Profile;
use model::digest::Sha256;
use model::envelope::TaskPayload;
use model::id::{AllocationId, NodeId, derive_op, derive_task};
use model::socket::FromAgent;
use model::task::Task;
use model::trust::Purpose;

use super::stand::Stand;
use crate::slice;

pub(super) struct Renter {
    fleet: Fleet,
    node: NodeId,
    /// Counted from far above what the platform itself has asked for.
    seq: u64,
}

impl Renter {
    pub(super) async fn new(stand: &Stand, node: NodeId) -> anyhow::Result<Self> {
        let fleet = Fleet::open(stand.platform.apps[0].clone(), Default::default()).await?;
        let seq = 1_000_000;
        Ok(Self { fleet, node, seq })
    }

    /// One that brings a VM and one that takes it away.
    pub(super) fn tasks(&mut self) -> anyhow::Result<(FromAgent, FromAgent)> {
        let allocation = AllocationId::new();
        let params = slice::wish(allocation, vec![slice::slot(Profile::H100x8)?])?;
        let release = slice::release(&params);
        Ok((
            self.offer(allocation, &Task::VmProvision(params))?,
            self.offer(allocation, &release)?,
        ))
    }

    fn offer(&mut self, allocation: AllocationId, task: &Task) -> anyhow::Result<FromAgent> {
        self.seq += 1;
        let (spec, now) = (task.task_type().spec(), Clock::real().now());
        let op_id = derive_op(allocation, spec.name, 1);
        let payload = TaskPayload {
            v: 1,
            aud: self.fleet.app.installation,
            task_id: derive_task(op_id, 0),
            op_id,
            intent_sha256: Some(Sha256::of(b"an intent")),
            node_id: self.node,
            node_epoch: 1,
            seq: self.seq,
            task_type: spec.name.to_owned(),
            type_version: spec.version,
            issued_at: now,
            start_by: now.plus_s(600),
            max_runtime_s: spec.max_runtime_s,
            actor_ref: "system:bench".to_owned(),
            correlation_id: op_id.uuid(),
            params: task.params(),
        };
        let keyring = self.fleet.keyring();
        let key = keyring.task_key(Purpose::Slice).context("no key for slices")?;
        Ok(FromAgent::Offer {
            task_id: payload.task_id,
            fence: self.seq,
            envelope: payload.sign(key),
            server_time: now,
        })
    }
}
