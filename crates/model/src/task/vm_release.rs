//! `slice.vm_release`: take the VM away, reset its devices, wipe its disks, bring back the proofs. Forward only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Phase;
use super::slot::{self, Slot};
use super::vm_provision::{graceful, graceful_timeout_seconds};
use super::{ParamsError, Spec};
use crate::id::AllocationId;
use crate::proof::{ResetProof, WipeProof};
use crate::trust::Purpose;
use crate::value::{Name, Nonce};

pub const SPEC: Spec = Spec {
    name: "slice.vm_release",
    version: 1,
    summary: "take a virtual machine away, reset its devices and wipe its disks, with proofs",
    purpose: Purpose::Slice,
    max_runtime_s: 86_400,
    running_per_node: slot::MAX_SLOTS as u32,
    changes_host: true,
    destroys_data: true,
};

/// In their order; the executor's table has the same.
#[rustfmt::skip]
pub const PHASES: &[Phase] = &[
    Phase::new("domain_shutdown", 1_020),
    Phase::new("domain_destroy", 300),
    Phase::new("domain_undefine", 120),
    Phase::new("device_reset_rebind", 3_600),
    Phase::new("cloud_init_remove", 120),
    Phase::new("dhcp_remove", 120),
    Phase::new("nvme_wipe", 43_200),
    Phase::new("wipe_verify", 28_800),
    Phase::new("telemetry_unregister", 60),
    Phase::new("lease_release", 60),
];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    pub allocation_id: AllocationId,
    pub vm_name: Name,
    #[schemars(length(min = 1, max = 16))]
    pub slots: Vec<Slot>,
    #[serde(default = "graceful_timeout_seconds")]
    pub graceful_timeout_seconds: u32,
    /// Must be true: there is no release without a wipe.
    pub wipe: bool,
    /// What the wipe's markers are made of.
    pub release_nonce: Nonce,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Did it have to be switched off?
    pub hard_stopped: bool,
    pub absent: Absent,
    pub reset_proofs: Vec<ResetProof>,
    pub wipe_proofs: Vec<WipeProof>,
    pub leases_released: u32,
}

/// All true, or the task failed. Each was looked for after the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Absent {
    pub domain: bool,
    pub cloud_init_dir: bool,
    pub dhcp: bool,
    pub telemetry: bool,
}

impl Absent {
    /// What is still there, by name.
    pub fn left(&self) -> Vec<&'static str> {
        let all = [
            (self.domain, "domain"),
            (self.cloud_init_dir, "cloud_init_dir"),
            (self.dhcp, "dhcp"),
            (self.telemetry, "telemetry"),
        ];
        let left = all.into_iter().filter(|(absent, _)| !absent);
        left.map(|(_, what)| what).collect()
    }
}

pub fn check(params: &Params) -> Result<(), ParamsError> {
    slot::check(&params.slots)?;
    graceful(params.graceful_timeout_seconds)?;
    if !params.wipe {
        return Err(ParamsError("wipe: must be true".to_owned()));
    }
    Ok(())
}

pub fn subjects(params: &Params) -> Vec<String> {
    slot::subjects(&params.vm_name, &params.slots)
}

pub fn allocation(params: &Params) -> Option<AllocationId> {
    Some(params.allocation_id)
}
