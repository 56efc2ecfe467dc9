//! `slice.vm_power`: switch a VM off, on, or off and on. It is asked politely first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slot;
use super::vm_provision::{graceful, graceful_timeout_seconds};
use super::{ParamsError, Spec};
use crate::id::AllocationId;
use crate::trust::Purpose;
use crate::value::Name;

pub const SPEC: Spec = Spec {
    name: "slice.vm_power",
    version: 1,
    summary: "switch a virtual machine on, off, or off and on",
    purpose: Purpose::Slice,
    max_runtime_s: 10_800,
    running_per_node: slot::MAX_SLOTS as u32,
    changes_host: true,
    destroys_data: false,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    pub allocation_id: AllocationId,
    pub vm_name: Name,
    pub action: Action,
    #[serde(default = "graceful_timeout_seconds")]
    pub graceful_timeout_seconds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Reboot,
    Stop,
    Start,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Output {
    pub power: Power,
    /// Did it have to be switched off?
    pub hard: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Power {
    Running,
    Off,
}

pub fn check(params: &Params) -> Result<(), ParamsError> {
    graceful(params.graceful_timeout_seconds)
}

pub fn subjects(params: &Params) -> Vec<String> {
    vec![slot::vm_subject(&params.vm_name)]
}

pub fn allocation(params: &Params) -> Option<AllocationId> {
    Some(params.allocation_id)
}
