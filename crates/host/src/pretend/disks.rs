//! The pretend side of [`Disks`]: what is written is a set of words, and a wipe takes them away, or does not.

use std::os::fd::BorrowedFd;

use model::proof::WipeMethod;
use model::value::DiskIdentity;

use super::Pretend;
use super::hardware::{Fault, Hardware, PretendDisk};
use crate::disks::{self, DiskList, OpenDisk, Sought, Wiped};
use crate::{Disks, Markers, Result};

impl Disks for Pretend {
    fn disks(&self) -> Result<DiskList> {
        self.call("disks", |_, state| {
            Ok(DiskList {
                disks: state.hardware.disks.values().map(|disk| disk.disk.clone()).collect(),
                nameless: state.hardware.nameless.clone(),
            })
        })
    }

    fn open_guarded(&self, identity: &DiskIdentity) -> Result<Box<dyn OpenDisk>> {
        self.call("open_guarded", |_, state| state.hardware.guarded(identity).map(drop))?;
        Ok(Box::new(Opened {
            machine: self.clone(),
            identity: identity.clone(),
        }))
    }
}

struct Opened {
    machine: Pretend,
    identity: DiskIdentity,
}

impl Opened {
    fn act<T>(&self, verb: &'static str, act: impl FnOnce(&mut Hardware, &DiskIdentity) -> Result<T>) -> Result<T> {
        let name = self.identity.by_id.as_str();
        self.machine
            .act_on(verb, name, |state| act(&mut state.hardware, &self.identity))
    }
}

impl OpenDisk for Opened {
    fn identity(&self) -> &DiskIdentity {
        &self.identity
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn wipe_methods(&self) -> Result<Vec<WipeMethod>> {
        self.machine.call("wipe_methods", |_, state| {
            Ok(state.hardware.guarded(&self.identity)?.methods())
        })
    }

    fn plant(&self, markers: &Markers) -> Result<u32> {
        self.act("plant", |hardware, identity| {
            let forgets = hardware.faults.contains(&Fault::Forgets(identity.by_id.clone()));
            let disk = hardware.guarded_mut(identity)?;
            if forgets {
                return Err(disks::unproved(
                    identity,
                    "a marker reads otherwise than it was written",
                ));
            }
            disk.written.insert(PretendDisk::marker(markers.nonce()));
            Ok(markers.count())
        })
    }

    fn wipe(&self, method: WipeMethod) -> Result<Wiped> {
        self.act("wipe", |hardware, identity| hardware.wipe(identity, method))
    }

    fn seek(&self, markers: &Markers, method: WipeMethod) -> Result<Sought> {
        self.machine.call("seek", |_, state| {
            let disk = state.hardware.guarded(&self.identity)?;
            let has_marker = disk.written.contains(&PretendDisk::marker(markers.nonce()));
            let others = disk.written.iter().filter(|word| !word.starts_with("marker/")).count();
            let blocks = if method.leaves_zeros() { disk.written.len() } else { 0 };
            Ok(Sought {
                markers_found: if has_marker { markers.count() } else { 0 },
                signatures_found: u32::try_from(others).unwrap_or(u32::MAX),
                read_back_bytes: if method.leaves_zeros() {
                    self.identity.size_bytes
                } else {
                    0
                },
                blocks_not_zero: blocks as u64,
            })
        })
    }
}

impl PretendDisk {
    fn methods(&self) -> Vec<WipeMethod> {
        let all = [
            WipeMethod::SanitizeCrypto,
            WipeMethod::FormatCrypto,
            WipeMethod::WriteZeroes,
            WipeMethod::Overwrite,
        ];
        let alone = self.is_capable && self.disk.namespaces == 1;
        all.into_iter()
            .filter(|method| alone || !method.reaches_the_controller())
            .collect()
    }
}

impl Hardware {
    fn guarded(&self, identity: &DiskIdentity) -> Result<&PretendDisk> {
        let disk = self
            .disks
            .get(&identity.by_id)
            .ok_or_else(|| disks::missing(identity))?;
        disks::guard(identity, &disk.disk.identity, &disk.disk.in_use_by)?;
        Ok(disk)
    }

    fn guarded_mut(&mut self, identity: &DiskIdentity) -> Result<&mut PretendDisk> {
        self.guarded(identity)?;
        self.disks
            .get_mut(&identity.by_id)
            .ok_or_else(|| disks::missing(identity))
    }

    fn wipe(&mut self, identity: &DiskIdentity, method: WipeMethod) -> Result<Wiped> {
        let by_id = &identity.by_id;
        if !self.guarded(identity)?.methods().contains(&method) {
            return Err(disks::not_offered(identity, method));
        }
        if self.faults.contains(&Fault::WipeStops(by_id.clone())) {
            return Err(disks::unproved(identity, "it stopped with an I/O error"));
        }
        if !self.faults.contains(&Fault::WipeDoesNothing(by_id.clone())) {
            self.guarded_mut(identity)?.written.clear();
        }
        Ok(Wiped { method, tool_rc: 0 })
    }
}
