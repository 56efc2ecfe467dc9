//! A tenant with a whole machine, as the API would authorise one, and what a worker sends for them. No route takes a
//! wish from a person yet, so the intent is signed with the API's own functions.

use base::Actor;
use fleet::Fleet;
use fleet::intent::{Authorised, sign};
use model::digest::Sha256;
use model::id::{AllocationId, NodeId, ProjectId, derive_op};
use model::intent::Wish;
use model::node_api::TaskRequest;
use model::task::{Task, deprovision_user, provision_user};
use model::value::{Name, SshKey, Uid};

/// A well-formed public key of nobody.
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

#[derive(Clone, Debug)]
pub struct Tenant {
    pub node: NodeId,
    allocation: AllocationId,
    username: Name,
    uid: Uid,
    key: SshKey,
}

impl Tenant {
    pub fn new(node: NodeId, name: &str, uid: u32) -> anyhow::Result<Self> {
        Ok(Self {
            node,
            allocation: AllocationId::new(),
            username: name.parse()?,
            uid: uid.try_into()?,
            key: KEY.parse()?,
        })
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

    /// The wish, signed and stored; the same one again is the same intent.
    pub async fn intent(&self, fleet: &Fleet) -> anyhow::Result<Sha256> {
        let actor = Actor::system("torture");
        let mut change = fleet
            .app
            .db
            .change(&actor, "allocation.create", self.allocation)
            .await?;
        let authorised = Authorised {
            allocation: self.allocation,
            project: ProjectId::new(),
            generation: 1,
            wish: Wish::Machine {
                node_id: self.node,
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
    pub fn request(&self, intent: Sha256, task: &Task) -> TaskRequest {
        let spec = task.task_type().spec();
        TaskRequest {
            op_id: derive_op(self.allocation, spec.name, 1),
            intent_sha256: intent,
            node_id: self.node,
            task_type: spec.name.to_owned(),
            type_version: spec.version,
            params: task.params(),
        }
    }
}
