//! The pretend side of [`Ready`]: a host that its owner has prepared well, until somebody meddles.

use std::collections::BTreeMap;

use model::task::topology_discover::CpuVirtualization;
use model::value::{Ipv4Cidr, Name, Pci};

use super::Pretend;
use super::hardware::Hardware;
use crate::Result;
use crate::readiness::{
    FabricManager, LABEL_WORDS, LVM_WORDS, MD_WORDS, MODULES, NetworkState, REQUIRED_COMMANDS, Readiness, Ready,
};

impl Ready for Pretend {
    fn readiness(&self) -> Result<Readiness> {
        self.call("readiness", |_, state| Ok(state.hardware.readiness()))
    }

    fn network_state(&self, bridges: &[Name], _: Option<Ipv4Cidr>) -> Result<NetworkState> {
        self.call("network_state", |_, state| {
            let lacks = &state.hardware.lacks;
            let is_there = |name: &Name| !lacks.contains(&format!("bridge {name}"));
            Ok(NetworkState {
                bridges: bridges.iter().map(|name| (name.clone(), is_there(name))).collect(),
                has_nat: (!lacks.contains("sight of nat")).then(|| !lacks.contains("nat")),
                forwards: !lacks.contains("forwarding"),
                unplanned_ipoib: lacks
                    .iter()
                    .filter_map(|what| Some(what.strip_prefix("netplan ")?.to_owned()))
                    .collect(),
                has_dhcp: !lacks.contains("dhcp"),
            })
        })
    }

    fn fabric_partitions(&self) -> Result<BTreeMap<Pci, String>> {
        self.call("fabric_partitions", |_, state| Ok(partitions(&state.hardware)))
    }
}

/// A VLAN each.
pub(super) fn partitions(hardware: &Hardware) -> BTreeMap<Pci, String> {
    let all = hardware
        .functions
        .values()
        .filter(|f| f.is_fabric() && f.physical_function.is_some());
    let numbered = all
        .zip(100..)
        .filter(|(f, _)| !hardware.lacks.contains(&format!("partition {}", f.pci)));
    let shared = hardware.lacks.contains("own partitions");
    numbered
        .map(|(f, vlan)| (f.pci, format!("vlan {}", if shared { 100 } else { vlan })))
        .collect()
}

impl Hardware {
    fn readiness(&self) -> Readiness {
        let groups: std::collections::BTreeSet<u32> = self.functions.values().filter_map(|f| f.iommu_group).collect();
        let has = |what: &str| !self.lacks.contains(what);
        Readiness {
            has_kvm: !self.no_kvm,
            iommu_group_count: u32::try_from(groups.len()).unwrap_or(u32::MAX),
            iommu_kernel_args: ["intel_iommu=on", "iommu=pt"].map(str::to_owned).to_vec(),
            cpu_virtualization: CpuVirtualization {
                vmx: !self.no_kvm,
                svm: false,
            },
            loaded_modules: loaded(self),
            commands: REQUIRED_COMMANDS
                .iter()
                .map(|name| ((*name).to_owned(), has(name)))
                .collect(),
            reboot_required: (!has("no reboot")).then(|| "/run/reboot-required".to_owned()),
            lvm_autoactivation: (!has("lvm filter")).then(|| LVM_WORDS.to_owned()),
            root_by_label: (!has("root by uuid")).then(|| LABEL_WORDS.to_owned()),
            md_autoassembly: (!has("mdadm AUTO -all")).then(|| MD_WORDS.to_owned()),
            fabric_manager: FabricManager {
                is_running: has("fabric manager"),
                mode: 1,
            },
            memlock_of: "libvirtd".to_owned(),
            memlock_bytes: self.memlock_bytes,
        }
    }
}

pub(super) fn loaded(hardware: &Hardware) -> Vec<String> {
    let is_loaded = |name: &&&str| match **name {
        "vfio_pci" => !hardware.no_vfio,
        name => name != "kvm_amd",
    };
    MODULES
        .iter()
        .filter(is_loaded)
        .map(|name| (*name).to_owned())
        .collect()
}
