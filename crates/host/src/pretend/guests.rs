//! The pretend side of [`Guests`]: a VM that runs is ready at once, and sees what it was given.

use std::time::Duration;

use model::signal::Code;
use model::task::vm_provision::{Performance, Readiness};

use super::{Pretend, State};
use crate::{Error, Guest, Guests, Result};

impl Guests for Pretend {
    fn await_ready(&self, guest: &Guest, _: Duration) -> Result<Readiness> {
        self.call("await_ready", |_, state| {
            runs(state, guest)?;
            if state.slicing.never_ready.contains(guest.slice.vm.as_str()) {
                return Err(not_ready(guest, "its first boot has not ended"));
            }
            Ok(Readiness {
                host_key_pinned: true,
                marker_seen: true,
                took_ms: 0,
            })
        })
    }

    fn look(&self, guest: &Guest) -> Result<Performance> {
        self.call("look", |_, state| {
            runs(state, guest)?;
            let name = guest.slice.vm.as_str();
            let lacks = u32::from(state.slicing.incomplete.contains(name));
            let parts = state.slicing.machines.get(name).map(|there| &there.machine.parts);
            let parts = parts.ok_or_else(|| not_ready(guest, "there is no such VM"))?;
            let functions = parts.iter().flat_map(|part| &part.devices);
            let functions: Vec<_> = functions.filter_map(|pci| state.hardware.functions.get(pci)).collect();
            let count = |is: fn(&crate::Function) -> bool| functions.iter().filter(|function| is(function)).count();
            let count = |is| u32::try_from(count(is)).unwrap_or(u32::MAX);
            Ok(Performance {
                gpus: count(crate::Function::is_gpu).saturating_sub(lacks),
                fabric_devices: count(crate::Function::is_fabric),
                disks: u32::try_from(parts.len()).unwrap_or(u32::MAX),
                memory_mib: parts.iter().map(|part| part.memory_mib).sum(),
                vcpus: parts.iter().map(|part| part.vcpus).sum(),
                warnings: Vec::new(),
            })
        })
    }
}

fn runs(state: &State, guest: &Guest) -> Result<()> {
    let there = state.slicing.machines.get(guest.slice.vm.as_str());
    match there.filter(|there| there.running) {
        Some(_) => Ok(()),
        None => Err(not_ready(guest, "the VM does not run")),
    }
}

fn not_ready(guest: &Guest, why: &str) -> Error {
    Error::Slice {
        code: Code::GuestNotReady,
        subject: guest.slice.vm.to_string(),
        why: why.to_owned(),
    }
}
