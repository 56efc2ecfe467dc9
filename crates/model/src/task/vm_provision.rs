//! `slice.vm_provision`: make a VM out of slots, with its image on the first one's disk and the tenant's keys inside.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Phase;
use super::slot::{self, Slot};
use super::{ParamsError, Spec};
use crate::digest::Sha256;
use crate::id::AllocationId;
use crate::trust::Purpose;
use crate::value::{FileName, Name, SshKey};

pub const SPEC: Spec = Spec {
    name: "slice.vm_provision",
    version: 1,
    summary: "make a virtual machine of slots: image, first-boot configuration, network, devices",
    purpose: Purpose::Slice,
    max_runtime_s: 10_800,
    running_per_node: slot::MAX_SLOTS as u32,
    changes_host: true,
    destroys_data: true,
};

/// In their order; the executor's table has the same.
#[rustfmt::skip]
pub const PHASES: &[Phase] = &[
    Phase::new("lease_acquire", 60),
    Phase::new("host_dependencies", 60),
    Phase::new("host_passthrough_check", 120),
    Phase::new("vfio_bind_check", 1_200),
    Phase::new("image_stat_download", 7_200),
    Phase::new("image_digest_verify", 1_800),
    Phase::new("cloud_init_dir", 60),
    Phase::new("terminal_key", 60),
    Phase::new("guest_telemetry_register", 60),
    Phase::new("cloud_init_seed_files", 60),
    Phase::new("cloud_localds", 120),
    Phase::new("runtime_validate", 120),
    Phase::new("dhcp_reservation", 120),
    Phase::new("image_write_convert", 7_200).undone_within(72_000), // a wipe, and its proof
    Phase::new("virt_install", 5_400).undone_within(3_600), // the memory of a large guest; back, a reset of each of its functions
    Phase::new("readiness", 1_200),
    Phase::new("performance_probe", 300),
];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    pub allocation_id: AllocationId,
    pub vm_name: Name,
    pub default_username: Name,
    /// The name of a file in one of the node's image directories; never a path.
    pub image_path: FileName,
    pub image_sha256: Sha256,
    pub image_size_bytes: u64,
    pub image_format: ImageFormat,
    /// Where the agent may fetch it, if the node allows that host.
    #[serde(default)]
    pub image_url: Option<String>,
    /// May it be a file of the node's own that no catalogue lists? Its digest is checked either way.
    #[serde(default)]
    pub image_trusted: bool,
    pub driver_strategy: DriverStrategy,
    #[schemars(length(min = 1, max = 32))]
    pub ssh_public_keys: Vec<SshKey>,
    pub ovs_bridge: Name,
    #[serde(default = "graceful_timeout_seconds")]
    pub graceful_timeout_seconds: u32,
    #[serde(default = "readiness_timeout_seconds")]
    pub readiness_timeout_seconds: u32,
    #[schemars(length(min = 1, max = 16))]
    pub slots: Vec<Slot>,
}

pub(super) const fn graceful_timeout_seconds() -> u32 {
    120
}

const fn readiness_timeout_seconds() -> u32 {
    900
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageFormat {
    Raw,
    Qcow2,
}

impl ImageFormat {
    pub const fn as_str(self) -> &'static str {
        match self {
            ImageFormat::Raw => "raw",
            ImageFormat::Qcow2 => "qcow2",
        }
    }
}

/// Who puts the GPU's driver into the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DriverStrategy {
    CloudInit,
    Preinstalled,
    None,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Output {
    pub vm_name: Name,
    pub default_user: Name,
    pub private_ip: Ipv4Addr,
    pub ssh_port: u16,
    pub slot_count: u32,
    pub readiness: Readiness,
    pub performance: Performance,
    /// `<phase>_ms`
    pub timings: BTreeMap<String, u64>,
    /// Always false: nobody reaches a console but through the gateway.
    pub raw_vnc: bool,
    pub console_model: ConsoleModel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConsoleModel {
    GatewayRequired,
}

/// That somebody with the VM's own key was let in by the pinned host key and saw the mark of a finished first boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Readiness {
    pub host_key_pinned: bool,
    pub marker_seen: bool,
    pub took_ms: u64,
}

/// What the guest sees of what it was given. A missing device fails the task; a slow one is only told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Performance {
    pub gpus: u32,
    pub fabric_devices: u32,
    pub disks: u32,
    pub memory_mib: u64,
    pub vcpus: u32,
    pub warnings: Vec<String>,
}

pub fn check(params: &Params) -> Result<(), ParamsError> {
    slot::check(&params.slots)?;
    let wrong = |field: &str, why: &str| Err(ParamsError(format!("{field}: {why}")));
    if !(1..=32).contains(&params.ssh_public_keys.len()) {
        return wrong("ssh_public_keys", "1 to 32 keys");
    }
    if params.image_size_bytes == 0 || params.image_size_bytes >= 1 << 53 {
        return wrong("image_size_bytes", "from 1, below 2^53");
    }
    if params.image_url.as_deref().is_some_and(|url| !plain_https(url)) {
        return wrong("image_url", "an https address without credentials");
    }
    graceful(params.graceful_timeout_seconds)?;
    if !(60..=3600).contains(&params.readiness_timeout_seconds) {
        return wrong("readiness_timeout_seconds", "60 to 3600");
    }
    Ok(())
}

/// The agent takes it apart; here it only has to be one plain https address.
pub fn plain_https(url: &str) -> bool {
    let plain = url.bytes().all(|b| b.is_ascii_graphic());
    url.starts_with("https://") && plain && url.len() <= 2048 && !url.contains(['@', '\\', '#'])
}

/// Name and port of such an address, as it is written there.
pub fn https_host(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://")?;
    let host = rest.split(['/', '?']).next()?;
    (!host.is_empty()).then_some(host)
}

pub(super) fn graceful(seconds: u32) -> Result<(), ParamsError> {
    match seconds {
        30..=900 => Ok(()),
        _ => Err(ParamsError("graceful_timeout_seconds: 30 to 900".to_owned())),
    }
}

pub fn subjects(params: &Params) -> Vec<String> {
    slot::subjects(&params.vm_name, &params.slots)
}

pub fn allocation(params: &Params) -> Option<AllocationId> {
    Some(params.allocation_id)
}
