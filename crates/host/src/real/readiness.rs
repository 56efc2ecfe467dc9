//! The real side of [`crate::Ready`]: files of the kernel and of the host's own configuration. Where a rule is kept by
//! a program and shown by no file, the program is asked.

mod auto;
mod labels;
mod network;
mod partitions;

use std::collections::BTreeMap;
use std::path::Path;

use model::task::topology_discover::CpuVirtualization;
use model::value::{Ipv4Cidr, Name, Pci};

use super::command::Commands;
use super::sys::Sys;
use crate::readiness::{FabricManager, MODULES, NetworkState, REQUIRED_COMMANDS, Readiness};
use crate::{Facts as _, Result};

pub struct Ready {
    sys: Sys,
    commands: Commands,
    facts: super::Facts,
}

impl Ready {
    pub fn under(root: &Path) -> Self {
        Self {
            sys: Sys::under(root),
            commands: Commands::under(root.to_owned()),
            facts: super::Facts::under(root),
        }
    }

    fn has_command(&self, name: &str) -> bool {
        let places = ["usr/bin", "usr/sbin", "bin", "sbin"];
        places.iter().any(|place| self.sys.has(&format!("{place}/{name}")))
    }

    fn fabric_manager(&self) -> Result<FabricManager> {
        let config = self
            .sys
            .optional("usr/share/nvidia/nvswitch/fabricmanager.cfg")?
            .unwrap_or_default();
        let mode = config.lines().find_map(|line| line.trim().strip_prefix("FABRIC_MODE="));
        Ok(FabricManager {
            // The kernel keeps fifteen letters of a name.
            is_running: self.process("nv-fabricmanage")?.is_some(),
            mode: mode.and_then(|mode| mode.trim().parse().ok()).unwrap_or(0),
        })
    }

    /// The number of a process with this name.
    fn process(&self, name: &str) -> Result<Option<u32>> {
        let numbers = self
            .sys
            .names("proc")?
            .into_iter()
            .filter_map(|pid| pid.parse::<u32>().ok());
        let is_it = |pid: &u32| self.sys.attribute(&format!("proc/{pid}/comm")).as_deref() == Some(name);
        Ok(numbers.into_iter().find(is_it))
    }
}

impl crate::Ready for Ready {
    fn readiness(&self) -> Result<Readiness> {
        let cpu = self.sys.text("proc/cpuinfo")?;
        let flags = |flag: &str| {
            let mut all = cpu.lines().filter(|line| line.starts_with("flags"));
            all.any(|line| line.split_whitespace().any(|word| word == flag))
        };
        let cmdline = self.sys.text("proc/cmdline")?;
        let about_iommu = |word: &&str| {
            ["intel_iommu=", "amd_iommu=", "iommu="]
                .iter()
                .any(|start| word.starts_with(start))
        };
        let groups = self.sys.names("sys/kernel/iommu_groups")?.len();
        let is_loaded = |name: &&&str| self.sys.has(&format!("sys/module/{name}"));
        let (memlock_of, memlock_bytes) = self.sys.memlock()?;
        Ok(Readiness {
            has_kvm: self.facts.kvm_present()?,
            iommu_group_count: u32::try_from(groups).unwrap_or(u32::MAX),
            iommu_kernel_args: cmdline
                .split_whitespace()
                .filter(about_iommu)
                .map(str::to_owned)
                .collect(),
            cpu_virtualization: CpuVirtualization {
                vmx: flags("vmx"),
                svm: flags("svm"),
            },
            loaded_modules: MODULES
                .iter()
                .filter(is_loaded)
                .map(|name| (*name).to_owned())
                .collect(),
            commands: REQUIRED_COMMANDS
                .iter()
                .map(|name| ((*name).to_owned(), self.has_command(name)))
                .collect(),
            reboot_required: self
                .sys
                .has("run/reboot-required")
                .then(|| "/run/reboot-required".to_owned()),
            lvm_autoactivation: self.lvm_autoactivation()?,
            root_by_label: self.root_by_label(&cmdline)?,
            md_autoassembly: self.md_autoassembly()?,
            fabric_manager: self.fabric_manager()?,
            memlock_of,
            memlock_bytes,
        })
    }

    fn network_state(&self, bridges: &[Name], network: Option<Ipv4Cidr>) -> Result<NetworkState> {
        self.network(bridges, network)
    }

    fn fabric_partitions(&self) -> Result<BTreeMap<Pci, String>> {
        self.partitions()
    }
}
