//! The other half of the load: renters of slices, each of whom gets a slot of whatever node has one, has a VM made there
//! and gives it back, by the same road and as stubbornly as tenants do.

use std::sync::Arc;

use anyhow::Context;
use base::Actor;
use fleet::intent::{Authorised, sign};
use fleet::slot::lease;
use model::digest::Sha256;
use model::id::{AllocationId, NodeId, ProjectId, derive_op};
use model::intent::Wish;
use model::node_api::TaskRequest;
use model::task::slot::Slot as Rented;
use model::task::{Task, vm_provision};

use super::load::{AGAIN_AFTER, Book, Slot};
use super::stage::Stage;
use super::witness::{SLICE_IN, SLICE_OUT, Witness, vm_name};
use crate::killer::Kills;
use crate::slice;

/// Of the host that is pretended.
const GPU: &str = "H100";

pub(super) struct Renter {
    pub(super) stage: Arc<Stage>,
    pub(super) book: Arc<Book>,
    pub(super) kills: Arc<Kills>,
    pub(super) clock_jumps: bool,
}

impl Renter {
    /// Until there were tenants and renters enough.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        loop {
            while !self.kills.keep_step(self.book.begun(), self.book.wanted()) {
                tokio::time::sleep(AGAIN_AFTER).await;
            }
            let Some(number) = self.book.next_renter() else {
                return Ok(());
            };
            self.rents(number).await?;
        }
    }

    async fn rents(&self, number: u64) -> anyhow::Result<()> {
        let allocation = AllocationId::new();
        let (node, slots) = loop {
            match self.reserve(allocation).await {
                Ok(reserved) => break reserved,
                Err(error) => self.at(0).again("slot", &format!("{error:#}")).await,
            }
        };
        let mut wish = slice::wish(allocation, slots)?;
        wish.vm_name = vm_name(number).parse()?;
        let project = ProjectId::new();
        let intent = loop {
            match self.sign(project, node, &wish).await {
                Ok(intent) => break intent,
                Err(error) => self.at(0).again("intent", &format!("{error:#}")).await,
            }
        };
        let nodes = &self.stage.nodes;
        let at = nodes.iter().position(|(id, _)| *id == node).context("a node of ours")?;
        let steps = [
            (Task::VmProvision(wish.clone()), SLICE_IN),
            (slice::release(&wish), SLICE_OUT),
        ];
        for (task, verbs) in steps {
            let keys = verbs.map(|verb| Witness::key(&nodes[at].1.name, wish.vm_name.as_str(), verb));
            let request = request(allocation, node, intent, &task);
            self.at(at).ask(request, &keys).await?;
            self.book.slice_task_ended();
        }
        Ok(())
    }

    /// Whoever asks on this node.
    fn at(&self, node: usize) -> Slot {
        Slot {
            stage: self.stage.clone(),
            book: self.book.clone(),
            kills: self.kills.clone(),
            node,
            slot: 0,
            clock_jumps: self.clock_jumps,
        }
    }

    async fn reserve(&self, allocation: AllocationId) -> anyhow::Result<(NodeId, Vec<Rented>)> {
        let db = &self.stage.fleet.app.db;
        let mut change = db
            .change(&Actor::system("renter"), "allocation.create", allocation)
            .await?;
        let wanted = lease::Wanted {
            count: 1,
            gpu_model: GPU,
            ..lease::Wanted::default()
        };
        let reserved = lease::reserve(&mut change, allocation, &wanted).await;
        let rows = reserved.map_err(|error| anyhow::anyhow!("no slot: {}", error.code))?;
        change.commit().await?;
        let slots = rows.iter().map(|row| row.as_signed());
        let slots: Result<_, _> = slots.collect();
        let node = rows.first().context("a slot")?.node_id;
        let slots = slots.map_err(|error| anyhow::anyhow!("a slot that cannot be signed: {}", error.code))?;
        Ok((node.into(), slots))
    }

    async fn sign(&self, project: ProjectId, node: NodeId, wish: &vm_provision::Params) -> anyhow::Result<Sha256> {
        let fleet = &self.stage.fleet;
        let allocation = wish.allocation_id;
        let actor = Actor::system("renter");
        let mut change = fleet.app.db.change(&actor, "allocation.step", allocation).await?;
        let authorised = Authorised {
            allocation,
            project,
            generation: 1,
            wish: Wish::Slice {
                node_id: node,
                params: Box::new(wish.clone()),
            },
        };
        let signed = sign(fleet, &mut change, &authorised).await;
        let (_, intent) = signed.map_err(|error| anyhow::anyhow!("no intent: {}", error.code))?;
        change.commit().await?;
        Ok(intent)
    }
}

/// What a worker sends; the same request again is the same operation.
fn request(allocation: AllocationId, node_id: NodeId, intent: Sha256, task: &Task) -> TaskRequest {
    let spec = task.task_type().spec();
    TaskRequest {
        op_id: derive_op(allocation, spec.name, 1),
        intent_sha256: intent,
        node_id,
        task_type: spec.name.to_owned(),
        type_version: spec.version,
        params: task.params(),
    }
}
