//! What a host is meant to have of one VM, written down whole before the VM is first started: enough to make port and
//! VM again after the host has forgotten them. It goes with the slice's directory.

use model::id::SlotId;
use model::task::vm_power::Power;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Machine, Port, Slice};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    pub machine: Machine,
    pub port: Port,
    pub slots: Vec<SlotId>,
    /// When it was first made.
    pub since: Timestamp,
    /// As it was last switched on purpose.
    pub power: Power,
    /// In which of the host's lives it was last started by us. A guest that switches itself off stays off in that life.
    pub boot_id: String,
}

impl Kept {
    pub fn slice(&self) -> Slice {
        Slice {
            vm: self.machine.name.clone(),
            allocation: self.machine.allocation,
        }
    }

    /// The same operation's VM is the one that was written down first, however it is switched; another's is a new one.
    pub(crate) fn after(self, before: Option<Kept>) -> Self {
        match before.filter(|before| before.machine.op == self.machine.op) {
            Some(before) => Self {
                power: self.power,
                ..before
            },
            None => self,
        }
    }
}
