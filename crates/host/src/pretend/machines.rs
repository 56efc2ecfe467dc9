//! The pretend side of [`Machines`]. A VM that runs holds its devices' groups, as QEMU does.

use std::time::Duration;

use model::id::AllocationId;
use model::signal::Code;
use model::task::vm_power::Power;
use model::value::{DiskId, Name, Pci};

use super::slicing::PretendMachine;
use super::{Pretend, State};
use crate::{Error, Holder, Machine, Machines, Result, Seen};

impl Machines for Pretend {
    fn check_tools(&self) -> Result<()> {
        self.call("check_tools", |_, state| match state.slicing.missing_commands.first() {
            None => Ok(()),
            Some(command) => Err(Error::Slice {
                code: Code::CommandMissing,
                subject: command.clone(),
                why: "it is not installed".to_owned(),
            }),
        })
    }

    fn observe(&self, name: &Name) -> Result<Option<Seen>> {
        self.call("observe", |_, state| {
            let there = state.slicing.machines.get(name.as_str());
            Ok(there.map(|there| Seen {
                allocation: Some(there.machine.allocation),
                power: power(there),
            }))
        })
    }

    fn ours(&self) -> Result<Vec<(Name, Seen)>> {
        self.call("ours", |_, state| {
            let all = state.slicing.machines.values().map(|there| {
                let (allocation, power) = (Some(there.machine.allocation), power(there));
                (there.machine.name.clone(), Seen { allocation, power })
            });
            Ok(all.collect())
        })
    }

    fn ensure_running(&self, machine: &Machine) -> Result<()> {
        self.act_on("ensure_running", machine.name.as_str(), |state| {
            own(state, &machine.name, machine.allocation)?;
            let others = state.slicing.machines.values();
            let shared = others.filter(|other| other.machine.name != machine.name).find(|other| {
                let parts = &other.machine.parts;
                parts
                    .iter()
                    .any(|part| machine.parts.iter().any(|own| own.disk == part.disk))
            });
            if let Some(other) = shared {
                return Err(refused(
                    &machine.name,
                    &format!("a disk of it is {}'s", other.machine.name),
                ));
            }
            let there = PretendMachine {
                machine: machine.clone(),
                running: false,
            };
            let kept = state.slicing.machines.entry(machine.name.to_string()).or_insert(there);
            if !kept.running {
                kept.machine = machine.clone();
            }
            run(state, &machine.name)
        })
    }

    fn ensure_started(&self, name: &Name, allocation: AllocationId) -> Result<()> {
        self.act_on("ensure_started", name.as_str(), |state| {
            match own(state, name, allocation)? {
                Some(_) => run(state, name),
                None => Err(absent(name)),
            }
        })
    }

    fn ask_to_stop(&self, name: &Name, allocation: AllocationId, _: Duration) -> Result<bool> {
        self.act_on("ask_to_stop", name.as_str(), |state| {
            match own(state, name, allocation)? {
                None | Some(Power::Off) => Ok(true),
                Some(Power::Running) if state.slicing.deaf.contains(name.as_str()) => Ok(false),
                Some(Power::Running) => {
                    stop(state, name);
                    Ok(true)
                }
            }
        })
    }

    fn ensure_off(&self, name: &Name, allocation: AllocationId) -> Result<()> {
        self.act_on("ensure_off", name.as_str(), |state| {
            own(state, name, allocation)?;
            stop(state, name);
            Ok(())
        })
    }

    fn ensure_no_machine(&self, name: &Name, allocation: AllocationId) -> Result<()> {
        self.act_on("ensure_no_machine", name.as_str(), |state| {
            if own(state, name, allocation).is_ok_and(|power| power.is_some()) {
                stop(state, name);
                state.slicing.machines.remove(name.as_str());
            }
            Ok(())
        })
    }

    fn holder_of_device(&self, device: Pci) -> Result<Option<String>> {
        self.call("holder_of_device", |_, state| {
            Ok(holder(state, |there| devices(there).any(|own| own == device)))
        })
    }

    fn holder_of_disk(&self, disk: &DiskId) -> Result<Option<String>> {
        self.call("holder_of_disk", |_, state| {
            Ok(holder(state, |there| {
                there.machine.parts.iter().any(|part| part.disk == *disk)
            }))
        })
    }
}

fn holder(state: &State, has: impl Fn(&PretendMachine) -> bool) -> Option<String> {
    let found = state.slicing.machines.iter().find(|(_, there)| has(there));
    found.map(|(name, _)| name.clone())
}

fn devices(there: &PretendMachine) -> impl Iterator<Item = Pci> {
    there.machine.parts.iter().flat_map(|part| part.devices.iter().copied())
}

fn power(there: &PretendMachine) -> Power {
    if there.running { Power::Running } else { Power::Off }
}

fn own(state: &State, name: &Name, allocation: AllocationId) -> Result<Option<Power>> {
    match state.slicing.machines.get(name.as_str()) {
        None => Ok(None),
        Some(there) if there.machine.allocation == allocation => Ok(Some(power(there))),
        Some(there) => Err(refused(
            name,
            &format!("the VM belongs to {}", there.machine.allocation),
        )),
    }
}

fn groups(state: &State, name: &Name) -> Vec<u32> {
    let Some(there) = state.slicing.machines.get(name.as_str()) else {
        return Vec::new();
    };
    let functions = devices(there).filter_map(|pci| state.hardware.functions.get(&pci));
    functions.filter_map(|function| function.iommu_group).collect()
}

/// Its first start writes to every disk that it has.
fn run(state: &mut State, name: &Name) -> Result<()> {
    for group in groups(state, name) {
        let holders = state.hardware.holders.entry(group).or_default();
        if let Some(other) = holders
            .iter()
            .find(|holder| holder.domain.as_deref() != Some(name.as_str()))
        {
            return Err(refused(name, &format!("{} has a device of it", other.program)));
        }
        if holders.is_empty() {
            holders.push(Holder {
                pid: 4711,
                program: "qemu-system-x86".to_owned(),
                domain: Some(name.to_string()),
            });
        }
    }
    let Some(there) = state.slicing.machines.get_mut(name.as_str()) else {
        return Err(absent(name));
    };
    there.running = true;
    for part in &there.machine.parts {
        if let Some(disk) = state.hardware.disks.get_mut(&part.disk) {
            disk.written.insert(format!("tenant/{}", there.machine.allocation));
        }
    }
    Ok(())
}

fn stop(state: &mut State, name: &Name) {
    for group in groups(state, name) {
        state.hardware.holders.remove(&group);
    }
    if let Some(there) = state.slicing.machines.get_mut(name.as_str()) {
        there.running = false;
    }
}

fn refused(name: &Name, why: &str) -> Error {
    failed(Code::VmRefused, name, why)
}

fn absent(name: &Name) -> Error {
    failed(Code::VmMissing, name, "there is no such VM")
}

fn failed(code: Code, name: &Name, why: &str) -> Error {
    Error::Slice {
        code,
        subject: name.to_string(),
        why: why.to_owned(),
    }
}
