//! Everything that one discovery looked at, with what is asked of it again and again: the functions of a group, of a
//! root complex. One look at each thing, and a second one at every GPU's group, whose number is the kernel's to change.

use std::collections::{BTreeMap, BTreeSet};

use host::{DiskList, Function, Holder, Host, NetworkState, Readiness};
use model::digest::Sha256;
use model::signal::Code;
use model::value::Pci;
use steps::Fail;

use super::super::failed;
use crate::policy::SlicePolicy;

pub(super) struct Seen {
    pub(super) functions: Vec<Function>,
    /// Positions in `functions`, by group.
    groups: BTreeMap<u32, Vec<usize>>,
    by_address: BTreeMap<Pci, usize>,
    pub(super) disks: DiskList,
    /// Of each GPU's group.
    pub(super) holders: BTreeMap<Pci, Vec<Holder>>,
    pub(super) roms: BTreeMap<Pci, Option<Sha256>>,
    /// GPUs whose ROM could not be asked for: the kernel hung.
    pub(super) hung: BTreeMap<Pci, String>,
    /// Those that do not wake.
    pub(super) asleep: BTreeMap<Pci, String>,
    /// Each GPU's group at the end of the look.
    pub(super) group_now: BTreeMap<Pci, Option<u32>>,
    pub(super) readiness: Readiness,
    pub(super) network: NetworkState,
    pub(super) partitions: BTreeMap<Pci, String>,
    /// The functions in each partition.
    members: BTreeMap<String, Vec<Pci>>,
}

impl Seen {
    pub(super) fn look(host: &Host, slices: &SlicePolicy) -> Result<Self, Fail> {
        let mut seen = Self::of(host.devices.functions().map_err(failed)?);
        seen.disks = host.disks.disks().map_err(failed)?;
        seen.readiness = host.ready.readiness().map_err(failed)?;
        seen.network = host.ready.network_state(&slices.bridges, slices.cidr).map_err(failed)?;
        seen.partitions = host.ready.fabric_partitions().map_err(failed)?;
        for (pci, partition) in &seen.partitions {
            seen.members.entry(partition.clone()).or_default().push(*pci);
        }
        let gpus: Vec<(Pci, Option<u32>)> = seen.gpus().map(|gpu| (gpu.pci, gpu.iommu_group)).collect();
        let by_group = host.devices.holders().map_err(failed)?;
        for (pci, group) in gpus {
            let holders = group
                .and_then(|group| by_group.get(&group).cloned())
                .unwrap_or_default();
            if holders.is_empty() {
                // Asking a device for its ROM while a guest has it could disturb the guest.
                match host.devices.vbios_sha256(pci) {
                    Ok(rom) => drop(seen.roms.insert(pci, rom)),
                    Err(error) if error.code() == Code::HostWriteTimeout => {
                        seen.hung.insert(pci, error.to_string());
                    }
                    Err(error) if error.code() == Code::GpuUnreachableD3cold => {
                        seen.asleep.insert(pci, error.to_string());
                    }
                    Err(error) => return Err(failed(error)),
                }
            }
            seen.holders.insert(pci, holders);
            let now = host.devices.function(pci).map_err(failed)?;
            seen.group_now.insert(pci, now.iommu_group);
        }
        Ok(seen)
    }

    fn of(functions: Vec<Function>) -> Self {
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, function) in functions.iter().enumerate() {
            if let Some(group) = function.iommu_group {
                groups.entry(group).or_default().push(at);
            }
        }
        let by_address = functions
            .iter()
            .enumerate()
            .map(|(at, function)| (function.pci, at))
            .collect();
        Self {
            functions,
            groups,
            by_address,
            disks: DiskList::default(),
            holders: BTreeMap::new(),
            roms: BTreeMap::new(),
            hung: BTreeMap::new(),
            asleep: BTreeMap::new(),
            group_now: BTreeMap::new(),
            readiness: Readiness::default(),
            network: NetworkState::default(),
            partitions: BTreeMap::new(),
            members: BTreeMap::new(),
        }
    }

    pub(super) fn function(&self, pci: Pci) -> Option<&Function> {
        self.by_address.get(&pci).and_then(|at| self.functions.get(*at))
    }

    /// Sorted by address, as all of them are.
    pub(super) fn gpus(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().filter(|function| function.is_gpu())
    }

    pub(super) fn fabric(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().filter(|function| function.is_fabric())
    }

    /// All functions of its group, its own included.
    pub(super) fn group(&self, function: &Function) -> Vec<&Function> {
        let of_group = function.iommu_group.and_then(|group| self.groups.get(&group));
        of_group
            .into_iter()
            .flatten()
            .filter_map(|at| self.functions.get(*at))
            .collect()
    }

    /// Another function in the same partition of the fabric.
    pub(super) fn shares(&self, function: Pci, partition: &str) -> Option<Pci> {
        let all = self.members.get(partition).into_iter().flatten();
        all.copied().find(|other| *other != function)
    }

    pub(super) fn numa_nodes(&self) -> usize {
        let nodes: BTreeSet<u32> = self
            .functions
            .iter()
            .filter_map(|function| function.numa_node)
            .collect();
        nodes.len()
    }
}
