//! A worker with a certificate of its own, and what it sends: the door through which a wish becomes a task.

use base::auth::Role;
use dev::town::Town;
use fleet::certificate::issue_role;
use model::digest::Sha256;
use model::id::{NodeId, derive_op};
use model::intent::Wish;
use model::node_api::TaskRequest;
use model::task::Task;
use rcgen::KeyPair;
use wire::http::Client;

use crate::puppet::{csr, node_door};
use crate::tenant::Tenant;

/// A process of ours in this role.
pub(crate) async fn process(town: &Town, role: Role) -> Client {
    let fleet = town.fleet().await;
    let key = KeyPair::generate().expect("a key");
    let actor = base::Actor::system("abuse");
    let opened = fleet
        .app
        .db
        .change(&actor, "certificate.role", fleet.app.installation)
        .await;
    let mut change = opened.expect("a change");
    let issued = issue_role(&fleet, &mut change, role, "one", &csr(&key, None)).await;
    change.commit().await.expect("commits");
    let chain = issued.expect("a role certificate").pem;
    node_door(&town.platform.node_url, &chain, &key, &fleet.ca.bundle_pem())
}

/// What an honest worker sends for this task of this tenant.
pub(crate) fn request(tenant: &Tenant, node_id: NodeId, intent_sha256: Sha256, task: &Task) -> TaskRequest {
    let spec = task.task_type().spec();
    TaskRequest {
        op_id: derive_op(tenant.allocation, spec.name, 1),
        intent_sha256,
        node_id,
        task_type: spec.name.to_owned(),
        type_version: spec.version,
        params: task.params(),
    }
}

/// What the API would write down of this tenant's wish.
pub(super) fn wish(tenant: &Tenant, node_id: NodeId) -> Vec<u8> {
    let Task::ProvisionUser(params) = tenant.provision() else {
        unreachable!("it provisions");
    };
    Wish::Machine {
        node_id,
        username: params.username,
        uid: params.uid,
        ssh_public_keys: params.ssh_public_keys,
        gpu_access: params.gpu_access,
    }
    .to_bytes()
}
