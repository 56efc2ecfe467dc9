//! `diag.health_probe`: look at the host and say how it is. Changes nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ParamsError, Spec};
use crate::id::AllocationId;
use crate::trust::Purpose;

pub const SPEC: Spec = Spec {
    name: "diag.health_probe",
    version: 1,
    summary: "look at the host and report its health; changes nothing",
    purpose: Purpose::Diag,
    max_runtime_s: 60,
    running_per_node: 1,
    changes_host: false,
    destroys_data: false,
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Output {
    pub kernel_version: String,
    pub free_memory_mib: u64,
    pub kvm_present: bool,
    /// Loaded VFIO modules, by name.
    pub vfio_modules: Vec<String>,
    pub gpus: Vec<Gpu>,
    pub fabric_links: Vec<FabricLink>,
    pub root_free_bytes: u64,
    pub state_writable: bool,
    pub journal_used_pct: u32,
    /// Host clock minus the control plane's, as of the offer.
    pub clock_skew_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    pub pci_address: String,
    pub model: String,
    /// The bound driver, if any.
    pub driver: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FabricLink {
    pub name: String,
    pub up: bool,
}

pub fn check(_: &Params) -> Result<(), ParamsError> {
    Ok(())
}

pub fn subjects(_: &Params) -> Vec<String> {
    Vec::new()
}

pub fn allocation(_: &Params) -> Option<AllocationId> {
    None
}
