//! The pretend side of [`Slices`].

use std::net::Ipv4Addr;
use std::path::PathBuf;

use model::digest::Sha256;
use model::signal::Code;
use model::task::vm_power::Power;
use model::telemetry::Registered;
use model::value::MacAddress;

use super::slicing::Dir;
use super::{Pretend, State};
use crate::{Baseline, Error, Kept, Result, Slice, Slices, Wish};

impl Slices for Pretend {
    fn ensure_dir(&self, slice: &Slice) -> Result<()> {
        self.act_on("ensure_dir", slice.vm.as_str(), |state| {
            let dirs = &mut state.slicing.dirs;
            let dir = dirs.entry(slice.vm.to_string()).or_insert_with(|| Dir {
                allocation: slice.allocation,
                baseline: Baseline::new(),
                has_keys: false,
                seed: None,
                has_seed_image: false,
                kept: None,
            });
            if dir.allocation == slice.allocation {
                Ok(())
            } else {
                Err(refused(slice))
            }
        })
    }

    fn ensure_no_dir(&self, slice: &Slice) -> Result<()> {
        self.act_on("ensure_no_dir", slice.vm.as_str(), |state| {
            let dirs = &mut state.slicing.dirs;
            dirs.retain(|vm, dir| *vm != slice.vm.as_str() || dir.allocation != slice.allocation);
            Ok(())
        })
    }

    fn ensure_baseline(&self, slice: &Slice, baseline: &Baseline) -> Result<()> {
        self.act_on("ensure_baseline", slice.vm.as_str(), |state| {
            dir(state, slice)?.baseline.clone_from(baseline);
            Ok(())
        })
    }

    fn baseline(&self, slice: &Slice) -> Result<Baseline> {
        self.call("baseline", |_, state| {
            let dir = state.slicing.dirs.get(slice.vm.as_str());
            let own = dir.filter(|dir| dir.allocation == slice.allocation);
            Ok(own.map(|dir| dir.baseline.clone()).unwrap_or_default())
        })
    }

    fn ensure_keys(&self, slice: &Slice) -> Result<()> {
        self.act_on("ensure_keys", slice.vm.as_str(), |state| {
            dir(state, slice)?.has_keys = true;
            Ok(())
        })
    }

    fn ensure_telemetry(&self, slice: &Slice, mac: MacAddress, ip: Ipv4Addr) -> Result<()> {
        self.act_on("ensure_telemetry", slice.vm.as_str(), |state| {
            dir(state, slice)?;
            let all = &mut state.slicing.telemetry;
            let entry = all.entry(slice.vm.to_string()).or_insert((slice.allocation, mac, ip));
            if entry.0 != slice.allocation {
                return Err(refused(slice));
            }
            *entry = (slice.allocation, mac, ip);
            Ok(())
        })
    }

    fn ensure_no_telemetry(&self, slice: &Slice) -> Result<()> {
        self.act_on("ensure_no_telemetry", slice.vm.as_str(), |state| {
            let all = &mut state.slicing.telemetry;
            all.retain(|vm, (allocation, ..)| *vm != slice.vm.as_str() || *allocation != slice.allocation);
            Ok(())
        })
    }

    /// Nobody is in these guests to send anything, so their tokens are nobody's. No task's look: no fuse is in it.
    fn registered(&self) -> Result<Vec<Registered>> {
        let all = self.snapshot().slicing.telemetry.into_iter();
        let known = all.filter_map(|(vm, (allocation_id, _, address))| {
            Some(Registered {
                allocation_id,
                vm_name: vm.parse().ok()?,
                address,
                token_sha256: Sha256::of(format!("pretend {vm}").as_bytes()),
            })
        });
        Ok(known.collect())
    }

    fn ensure_seed_files(&self, slice: &Slice, wish: &Wish) -> Result<()> {
        self.act_on("ensure_seed_files", slice.vm.as_str(), |state| {
            let dir = dir(state, slice)?;
            if !dir.has_keys {
                return Err(missing(slice, "its keys are not there"));
            }
            dir.seed = Some((wish.user.to_string(), wish.keys.len()));
            Ok(())
        })
    }

    fn ensure_seed_image(&self, slice: &Slice) -> Result<PathBuf> {
        self.act_on("ensure_seed_image", slice.vm.as_str(), |state| {
            let dir = dir(state, slice)?;
            if dir.seed.is_none() {
                return Err(missing(slice, "its first-boot files are not there"));
            }
            dir.has_seed_image = true;
            Ok(())
        })?;
        Ok(self.seed_image(slice))
    }

    fn seed_image(&self, slice: &Slice) -> PathBuf {
        format!("/var/lib/gpuaas/seeds/{}.iso", slice.vm).into()
    }

    fn ensure_kept(&self, slice: &Slice, kept: &Kept) -> Result<()> {
        self.act_on("ensure_kept", slice.vm.as_str(), |state| {
            let dir = dir(state, slice)?;
            let before = dir.kept.take().map(|kept| *kept);
            dir.kept = Some(Box::new(kept.clone().after(before)));
            Ok(())
        })
    }

    fn ensure_wanted(&self, slice: &Slice, power: Power) -> Result<()> {
        self.act_on("ensure_wanted", slice.vm.as_str(), |state| {
            if let Some(kept) = own_kept(state, slice) {
                kept.power = power;
            }
            Ok(())
        })
    }

    fn ensure_started_in(&self, slice: &Slice, boot_id: &str) -> Result<()> {
        self.act_on("ensure_started_in", slice.vm.as_str(), |state| {
            if let Some(kept) = own_kept(state, slice) {
                boot_id.clone_into(&mut kept.boot_id);
            }
            Ok(())
        })
    }

    fn ensure_not_kept(&self, slice: &Slice) -> Result<()> {
        self.act_on("ensure_not_kept", slice.vm.as_str(), |state| {
            if own_kept(state, slice).is_some() {
                dir(state, slice)?.kept = None;
            }
            Ok(())
        })
    }

    /// No task's look, so no fuse is in it.
    fn kept(&self) -> Result<Vec<Kept>> {
        let state = self.snapshot();
        let kept = state.slicing.dirs.into_values().filter_map(|dir| dir.kept);
        Ok(kept.map(|kept| *kept).collect())
    }

    fn has_dir(&self, slice: &Slice) -> Result<bool> {
        self.call("has_dir", |_, state| {
            Ok(state.slicing.dirs.contains_key(slice.vm.as_str()))
        })
    }

    fn has_telemetry(&self, slice: &Slice) -> Result<bool> {
        self.call("has_telemetry", |_, state| {
            Ok(state.slicing.telemetry.contains_key(slice.vm.as_str()))
        })
    }
}

fn dir<'a>(state: &'a mut State, slice: &Slice) -> Result<&'a mut Dir> {
    let dir = state.slicing.dirs.get_mut(slice.vm.as_str());
    let dir = dir.ok_or_else(|| missing(slice, "there is no such slice"))?;
    if dir.allocation == slice.allocation {
        Ok(dir)
    } else {
        Err(refused(slice))
    }
}

fn own_kept<'a>(state: &'a mut State, slice: &Slice) -> Option<&'a mut Kept> {
    let dir = state.slicing.dirs.get_mut(slice.vm.as_str());
    dir.filter(|dir| dir.allocation == slice.allocation)?
        .kept
        .as_deref_mut()
}

fn missing(slice: &Slice, why: &'static str) -> Error {
    let path = format!("/var/lib/gpuaas/slices/{}", slice.vm);
    Error::Unreadable { path, why }
}

fn refused(slice: &Slice) -> Error {
    Error::Slice {
        code: Code::VmRefused,
        subject: slice.vm.to_string(),
        why: "the name belongs to another allocation".to_owned(),
    }
}
