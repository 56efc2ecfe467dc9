//! `allocation.provision_user`: give a tenant an account on a whole machine. No sudo, no docker group.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Phase;
use super::{ParamsError, Spec};
use crate::id::AllocationId;
use crate::trust::Purpose;
use crate::value::{Name, SshKey, Uid};

pub const SPEC: Spec = Spec {
    name: "allocation.provision_user",
    version: 1,
    summary: "create a tenant's account and install their SSH keys",
    purpose: Purpose::Allocation,
    max_runtime_s: 300,
    running_per_node: 4,
    changes_host: true,
    destroys_data: false,
};

/// In their order; the executor's table has the same.
#[rustfmt::skip]
pub const PHASES: &[Phase] = &[
    Phase::new("look", 120),
    Phase::new("account", 180),
    Phase::new("home", 180),
    Phase::new("authorized_keys", 60),
    Phase::new("verify", 120),
];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    pub allocation_id: AllocationId,
    pub username: Name,
    pub uid: Uid,
    #[schemars(length(min = 1, max = 32))]
    pub ssh_public_keys: Vec<SshKey>,
    /// Membership in `video` and `render`.
    pub gpu_access: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Output {
    pub home: String,
    pub keys_installed: u32,
    pub verified: Verified,
}

/// Looked at after the work, not remembered from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verified {
    pub user: bool,
    pub home: bool,
    pub keys: bool,
}

pub fn check(params: &Params) -> Result<(), ParamsError> {
    match params.ssh_public_keys.len() {
        1..=32 => Ok(()),
        n => Err(ParamsError(format!("ssh_public_keys: 1 to 32 keys, not {n}"))),
    }
}

pub fn subjects(params: &Params) -> Vec<String> {
    vec![format!("user/{}", params.username)]
}

pub fn allocation(params: &Params) -> Option<AllocationId> {
    Some(params.allocation_id)
}
