//! What a pretend machine remembers of slices.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use model::digest::Sha256;
use model::id::{AllocationId, SlotId};
use model::value::{FileName, MacAddress};
use serde::{Deserialize, Serialize};

use crate::{Baseline, Kept, Machine, Owner, Port};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slicing {
    pub leases: BTreeMap<SlotId, Owner>,
    /// By name of the VM, like all of the following.
    pub dirs: BTreeMap<String, Dir>,
    pub telemetry: BTreeMap<String, (AllocationId, MacAddress, Ipv4Addr)>,
    pub ports: BTreeMap<String, Port>,
    pub machines: BTreeMap<String, PretendMachine>,
    /// Images that are stored. A machine that is not there gets any other at once, unless it is missing.
    pub store: BTreeSet<Sha256>,
    /// Files in image directories.
    pub files: BTreeMap<FileName, Sha256>,
    pub missing_images: BTreeSet<Sha256>,
    /// Images that refer to other files.
    pub hostile_images: BTreeSet<Sha256>,
    pub missing_commands: BTreeSet<String>,
    /// Bridges that are not there.
    pub missing_bridges: BTreeSet<String>,
    /// Guests that do not listen when asked to stop, and those that never get ready or lack a device.
    pub deaf: BTreeSet<String>,
    pub never_ready: BTreeSet<String>,
    pub incomplete: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dir {
    pub allocation: AllocationId,
    pub baseline: Baseline,
    pub has_keys: bool,
    /// The user whom the first boot makes, and how many keys.
    pub seed: Option<(String, usize)>,
    pub has_seed_image: bool,
    #[serde(default)]
    pub kept: Option<Box<Kept>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PretendMachine {
    pub machine: Machine,
    pub running: bool,
}
