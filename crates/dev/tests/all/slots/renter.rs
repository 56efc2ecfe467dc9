//! Somebody who rents slots, as the API would authorise them.

use base::Actor;
use base::http::ApiError;
use dev::slice;
use fleet::Fleet;
use fleet::intent::{Authorised, sign};
use fleet::slot::lease;
use fleet::task::{Ask, Cover, enqueue};
use model::catalogue::CatalogueImage;
use model::id::{AllocationId, NodeId, ProjectId, TaskId, derive_op};
use model::intent::Wish;
use model::signal::Code;
use model::task::slot::Slot;
use model::task::{Task, vm_provision};

/// Of the host that is played.
pub(super) const GPU: &str = "H100";

#[derive(Clone)]
pub(super) struct Renter {
    pub(super) allocation: AllocationId,
    project: ProjectId,
    fleet: Fleet,
}

fn code(error: ApiError) -> Code {
    error.code
}

impl Renter {
    pub(super) fn new(fleet: &Fleet) -> Self {
        Self {
            allocation: AllocationId::new(),
            project: ProjectId::new(),
            fleet: fleet.clone(),
        }
    }

    pub(super) async fn change(&self, action: &'static str) -> base::Change {
        let actor = Actor::system("renter");
        let change = self.fleet.app.db.change(&actor, action, self.allocation).await;
        change.expect("a change")
    }

    pub(super) async fn reserves(&self, count: u32) -> Result<Vec<Slot>, Code> {
        let mut change = self.change("allocation.create").await;
        let wanted = lease::Wanted {
            count,
            gpu_model: GPU,
            ..lease::Wanted::default()
        };
        let slots = lease::reserve(&mut change, self.allocation, &wanted)
            .await
            .map_err(code)?;
        change.commit().await.expect("commits");
        Ok(slots.iter().map(|row| row.as_signed().expect("well-formed")).collect())
    }

    pub(super) async fn gives_back(&self) -> usize {
        let mut change = self.change("allocation.cancel").await;
        let slots = lease::unreserve(&mut change, self.allocation)
            .await
            .expect("gives back");
        change.commit().await.expect("commits");
        slots.len()
    }

    /// As when an operator forces the release.
    pub(super) async fn is_put_out(&self) {
        let mut change = self.change("allocation.force_release").await;
        lease::abandon(&mut change, self.allocation, "forced")
            .await
            .expect("put out");
        change.commit().await.expect("commits");
    }

    pub(super) fn params(&self, slots: &[Slot]) -> vm_provision::Params {
        slice::wish(self.allocation, slots.to_vec()).expect("a wish")
    }

    /// Intent and task in one change.
    async fn asks(&self, node: NodeId, wish: &vm_provision::Params, task: Task) -> Result<TaskId, Code> {
        let mut change = self.change("allocation.step").await;
        let authorised = Authorised {
            allocation: self.allocation,
            project: self.project,
            generation: 1,
            wish: Wish::Slice {
                node_id: node,
                params: Box::new(wish.clone()),
            },
        };
        let (_, sha256) = sign(&self.fleet, &mut change, &authorised).await.map_err(code)?;
        let op = derive_op(self.allocation, task.task_type().as_str(), 1);
        let cover = Cover::Intent { sha256, op };
        let id = enqueue(&self.fleet, &mut change, &Ask { node, task, cover })
            .await
            .map_err(code)?;
        change.commit().await.expect("commits");
        Ok(id)
    }

    pub(super) async fn provisions(&self, node: NodeId, slots: &[Slot]) -> Result<TaskId, Code> {
        let params = self.params(slots);
        self.asks(node, &params, Task::VmProvision(params.clone())).await
    }

    /// Of an image that operators have listed.
    pub(super) async fn provisions_of(
        &self,
        node: NodeId,
        slots: &[Slot],
        image: &CatalogueImage,
    ) -> Result<TaskId, Code> {
        let params = vm_provision::Params {
            image_path: image.name.clone(),
            image_sha256: image.sha256,
            image_size_bytes: image.size_bytes,
            image_format: image.format,
            image_trusted: false,
            ..self.params(slots)
        };
        self.asks(node, &params, Task::VmProvision(params.clone())).await
    }

    pub(super) async fn releases(&self, node: NodeId, slots: &[Slot]) -> Result<TaskId, Code> {
        let wish = self.params(slots);
        let task = slice::release(&wish);
        self.asks(node, &wish, task).await
    }
}
