//! The network of guests. A guest can send only as itself, and only to the host's DHCP, DNS and telemetry and to the
//! outside; not to the host, to link-local or private addresses, nor to another guest. What a port may do is decided
//! before anything is plugged into it.

use std::net::Ipv4Addr;

use model::id::AllocationId;
use model::value::{MacAddress, Name};
use serde::{Deserialize, Serialize};

use crate::Result;

/// A guest's one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    pub plug: Plug,
    pub bridge: Name,
    pub mac: MacAddress,
    pub ip: Ipv4Addr,
}

/// Which port it is, wherever it is plugged in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plug {
    pub vm: Name,
    pub allocation: AllocationId,
    /// Of the slot that it belongs to; gives the port its number and its interface its name.
    pub slot_index: u32,
}

impl Plug {
    /// Short enough for the kernel, and the same each time.
    pub fn interface(&self) -> String {
        format!("gpus{}", self.slot_index)
    }

    /// The switch's number for it, which flows are written with before it exists.
    pub fn number(&self) -> u32 {
        1000 + self.slot_index
    }
}

pub trait Network: Send + Sync {
    /// `slice_bridge_missing` unless it exists and has an address. Whether guests may use it, local policy says.
    fn check_bridge(&self, bridge: &Name) -> Result<()>;

    /// The host's own address on a bridge, if it has one.
    fn address(&self, bridge: &Name) -> Result<Option<Ipv4Addr>>;

    /// Flows first, then the port, then the address. `vm_refused` if the port or the address is another VM's.
    fn ensure_port(&self, port: &Port) -> Result<()>;

    /// The address, the port, and last its flows. Leaves another allocation's alone.
    fn ensure_no_port(&self, plug: &Plug) -> Result<()>;

    fn has_port(&self, plug: &Plug) -> Result<bool>;

    /// Is all of it there as it was made: flows, port and address? A switch that was restarted has forgotten the flows.
    fn is_whole(&self, port: &Port) -> Result<bool>;
}
