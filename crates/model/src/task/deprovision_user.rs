//! `allocation.deprovision_user`: take a tenant's account away with everything of its uid, and prove the absence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Phase;
use super::{ParamsError, Spec};
use crate::id::AllocationId;
use crate::proof::ResetProof;
use crate::trust::Purpose;
use crate::value::{Name, Uid};

pub const SPEC: Spec = Spec {
    name: "allocation.deprovision_user",
    version: 1,
    summary: "kill, remove and prove absent everything of a tenant's account",
    purpose: Purpose::Allocation,
    max_runtime_s: 3_600,
    running_per_node: 4,
    changes_host: true,
    destroys_data: true,
};

/// In their order; the executor's table has the same.
#[rustfmt::skip]
pub const PHASES: &[Phase] = &[
    Phase::new("guard", 120),
    Phase::new("lock", 180),
    Phase::new("schedules", 60),
    Phase::new("processes", 120),
    Phase::new("ipc", 60),
    Phase::new("device_reset", 2_700),
    Phase::new("files", 300),
    Phase::new("account", 180),
    Phase::new("prove_absent", 180),
];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    pub allocation_id: AllocationId,
    pub username: Name,
    pub uid: Uid,
    pub remove_home: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Output {
    pub processes_killed: u32,
    pub absent: Absent,
    /// One per GPU of the host; empty on a host without GPUs.
    pub reset_proofs: Vec<ResetProof>,
}

/// All true, or the task failed. Each was looked for after the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Absent {
    pub user: bool,
    pub home: bool,
    pub keys: bool,
    pub cron: bool,
    pub at: bool,
    pub linger: bool,
    pub processes: bool,
    pub files: bool,
    pub ipc: bool,
}

impl Absent {
    /// What is still there, by name.
    pub fn left(&self) -> Vec<&'static str> {
        [
            (self.user, "user"),
            (self.home, "home"),
            (self.keys, "keys"),
            (self.cron, "cron"),
            (self.at, "at"),
            (self.linger, "linger"),
            (self.processes, "processes"),
            (self.files, "files"),
            (self.ipc, "ipc"),
        ]
        .into_iter()
        .filter_map(|(absent, what)| (!absent).then_some(what))
        .collect()
    }
}

pub fn check(_: &Params) -> Result<(), ParamsError> {
    Ok(())
}

pub fn subjects(params: &Params) -> Vec<String> {
    vec![format!("user/{}", params.username)]
}

pub fn allocation(params: &Params) -> Option<AllocationId> {
    Some(params.allocation_id)
}
