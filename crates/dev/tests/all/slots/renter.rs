//! Somebody who rents slots, as the API would authorise them.

use base::Actor;
use base::http::ApiError;
use fleet::Fleet;
use fleet::intent::{Authorised, sign};
use fleet::slot::lease;
use fleet::task::{Ask, Cover, enqueue};
use model::catalogue::CatalogueImage;
use model::digest::Sha256;
use model::id::{AllocationId, NodeId, ProjectId, TaskId, derive_op};
use model::intent::Wish;
use model::signal::Code;
use model::task::slot::Slot;
use model::task::vm_provision::{DriverStrategy, ImageFormat};
use model::task::{Task, vm_provision, vm_release};
use model::value::Nonce;

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

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

    async fn change(&self, action: &'static str) -> base::Change {
        let actor = Actor::system("renter");
        let change = self.fleet.app.db.change(&actor, action, self.allocation).await;
        change.expect("a change")
    }

    pub(super) async fn reserves(&self, count: u32) -> Result<Vec<Slot>, Code> {
        let mut change = self.change("allocation.create").await;
        let wanted = lease::Wanted {
            count,
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

    pub(super) fn params(&self, slots: &[Slot]) -> vm_provision::Params {
        vm_provision::Params {
            allocation_id: self.allocation,
            vm_name: "ada-vm".parse().expect("a name"),
            default_username: "ada".parse().expect("a name"),
            image_path: "debian-12.qcow2".parse().expect("a file name"),
            image_sha256: Sha256::of(b"an image"),
            image_size_bytes: 1 << 20,
            image_format: ImageFormat::Qcow2,
            image_url: None,
            image_trusted: true,
            driver_strategy: DriverStrategy::Preinstalled,
            ssh_public_keys: vec![KEY.parse().expect("a key")],
            ovs_bridge: "br-slices".parse().expect("a name"),
            graceful_timeout_seconds: 30,
            readiness_timeout_seconds: 60,
            slots: slots.to_vec(),
        }
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
        let task = Task::VmRelease(vm_release::Params {
            allocation_id: self.allocation,
            vm_name: wish.vm_name.clone(),
            slots: slots.to_vec(),
            graceful_timeout_seconds: 30,
            wipe: true,
            release_nonce: Nonce::from_bytes([7; 32]),
        });
        self.asks(node, &wish, task).await
    }
}
