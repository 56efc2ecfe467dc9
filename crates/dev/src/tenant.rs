//! A tenant with a whole machine, as the API would authorise one, and what a worker sends for them. No route takes a
//! wish from a person yet, so whoever puts load on the platform signs with the API's own functions.

use base::Actor;
use fleet::Fleet;
use fleet::intent::{Authorised, sign};
use model::digest::Sha256;
use model::id::{AllocationId, NodeId, OpId, ProjectId, derive_op};
use model::intent::Wish;
use model::node_api::TaskRequest;
use model::task::{Task, deprovision_user, provision_user};
use model::value::{Name, SshKey, Uid};

mod in_town;

/// A well-formed public key of nobody.
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

#[derive(Clone, Debug)]
pub struct Tenant {
    pub allocation: AllocationId,
    project: ProjectId,
    username: Name,
    uid: Uid,
    key: SshKey,
}

impl Tenant {
    /// Names and numbers come from whoever plays the tenant; a bad one is a mistake of theirs.
    pub fn new(name: &str, uid: u32) -> Self {
        Self {
            allocation: AllocationId::new(),
            project: ProjectId::new(),
            username: name.parse().expect("a plain name"),
            uid: uid.try_into().expect("a tenant's uid"),
            key: KEY.parse().expect("a well-formed key"),
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

    /// The wish for this node, signed and stored; the same one again is the same intent.
    pub async fn sign(&self, fleet: &Fleet, node_id: NodeId) -> anyhow::Result<Sha256> {
        let actor = Actor::system("tenant");
        let mut change = fleet
            .app
            .db
            .change(&actor, "allocation.create", self.allocation)
            .await?;
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
        let signed = sign(fleet, &mut change, &authorised).await;
        let (_, intent) = signed.map_err(|error| anyhow::anyhow!("no intent: {}", error.code))?;
        change.commit().await?;
        Ok(intent)
    }

    /// What a worker sends; the same request again is the same operation.
    pub fn request(&self, node_id: NodeId, intent: Sha256, task: &Task) -> TaskRequest {
        let spec = task.task_type().spec();
        TaskRequest {
            op_id: self.op(task),
            intent_sha256: intent,
            node_id,
            task_type: spec.name.to_owned(),
            type_version: spec.version,
            params: task.params(),
        }
    }

    fn op(&self, task: &Task) -> OpId {
        derive_op(self.allocation, task.task_type().as_str(), 1)
    }
}
