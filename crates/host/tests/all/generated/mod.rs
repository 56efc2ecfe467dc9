//! A tree of kernel files made from the same data that a pretend machine is made of: what the real machine reads there
//! must be what the pretend one answers. Beside it somebody who plays the kernel, because a tree only stores what is
//! written to it.

mod disks;
mod kernel;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use host::Function;
use host::pretend::{Hardware, Pretend, Profile};
use model::value::Pci;

use crate::facts::Scratch;
pub(crate) use kernel::Kernel;

/// Goes away with its directory.
pub(crate) struct Tree {
    pub(crate) dir: Scratch,
    pub(crate) hardware: Hardware,
}

impl Tree {
    pub(crate) fn of(name: &str, profile: Profile) -> Self {
        Self::with(name, profile, |_| ())
    }

    pub(crate) fn with(name: &str, profile: Profile, change: impl FnOnce(&mut Hardware)) -> Self {
        let machine = Pretend::in_memory(profile);
        machine.meddle(|state| change(&mut state.hardware));
        let tree = Self {
            dir: Scratch::new(name),
            hardware: machine.snapshot().hardware,
        };
        tree.grow();
        tree
    }

    pub(crate) fn root(&self) -> &Path {
        &self.dir.0
    }

    fn grow(&self) {
        self.write("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
        self.write("proc/cpuinfo", "flags\t\t: fpu vmx sse\n");
        self.write("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n");
        self.write("dev/kvm", "");
        self.write("sys/module/vfio_pci/initstate", "live\n");
        self.write("sys/bus/pci/drivers_probe", "");
        let mut iomem = String::from("00000000-00000fff : Reserved\n");
        for (n, function) in self.hardware.functions.values().enumerate() {
            let bar = 0xe000_0000 + ((n as u64) << 24);
            self.function(function, bar);
            if let Some(console) = &function.framebuffer {
                iomem.push_str(&format!("{bar:08x}-{:08x} : {console}\n", bar + 0x2f_ffff));
            }
        }
        self.write("proc/iomem", &iomem);
        for (group, holders) in &self.hardware.holders {
            for holder in holders {
                let proc = format!("proc/{}", holder.pid);
                let name = holder.domain.clone().unwrap_or_default();
                self.write(&format!("{proc}/comm"), &format!("{}\n", holder.program));
                self.write(
                    &format!("{proc}/cmdline"),
                    &format!("qemu\0-name\0guest={name},debug=on\0"),
                );
                self.link(&format!("{proc}/fd/9"), &format!("/dev/vfio/{group}"));
            }
        }
        self.starter();
        self.disks();
    }

    /// libvirt, and what it may lock.
    fn starter(&self) {
        let limit = self
            .hardware
            .memlock_bytes
            .map_or("unlimited".to_owned(), |bytes| bytes.to_string());
        let limits = format!("Limit  Soft Limit  Hard Limit  Units\nMax locked memory  8388608  {limit}  bytes\n");
        self.write("proc/77/comm", "libvirtd\n");
        self.write("proc/77/limits", &limits);
        self.write("proc/77/status", "Name:\tlibvirtd\nCapEff:\t0000000000000000\n");
    }

    fn function(&self, function: &Function, bar: u64) {
        let pci = function.pci;
        let dir = self.home(pci);
        let put = |what: &str, text: &str| self.write(&format!("{dir}/{what}"), &format!("{text}\n"));
        put("vendor", &format!("0x{:04x}", function.vendor));
        put("device", &format!("0x{:04x}", function.device));
        put("class", &format!("0x{:06x}", function.class));
        put(
            "numa_node",
            &function.numa_node.map_or("-1".to_owned(), |node| node.to_string()),
        );
        put("reset_method", &function.reset_methods.join(" "));
        put("reset", "");
        put("power_state", &function.power_state);
        put("driver_override", "(null)");
        put("sriov_numvfs", &function.virtual_functions.to_string());
        put(
            "resource",
            &format!("{bar:#018x} {:#018x} 0x000000000014220c", bar + 0xff_ffff),
        );
        if let Some(allowed) = function.d3cold_allowed {
            put("d3cold_allowed", if allowed { "1" } else { "0" });
        }
        if function.is_mdev_parent {
            put("mdev_supported_types/nvidia-1/name", "GRID");
        }
        if self.hardware.vbios.contains_key(&pci) {
            self.write(&format!("{dir}/rom"), &format!("rom of {:04x}", function.device));
        }
        let config = if function.config_readable {
            [0x10; 64]
        } else {
            [0xff; 64]
        };
        fs::write(self.root().join(&dir).join("config"), config).expect("write");
        self.link(
            &format!("sys/bus/pci/devices/{pci}"),
            &format!("../../../{}", dir.trim_start_matches("sys/")),
        );
        if let Some(physical) = function.physical_function {
            self.link(&format!("{dir}/physfn"), &format!("../{physical}"));
        }
        if let Some(group) = function.iommu_group {
            self.link(
                &format!("{dir}/iommu_group"),
                &format!("../../../kernel/iommu_groups/{group}"),
            );
            self.link(
                &format!("sys/kernel/iommu_groups/{group}/devices/{pci}"),
                "../elsewhere",
            );
        }
        if let Some(driver) = &function.driver {
            self.write(&format!("sys/bus/pci/drivers/{driver}/unbind"), "");
            self.link(&format!("{dir}/driver"), &format!("../../../bus/pci/drivers/{driver}"));
        }
    }

    pub(crate) fn home(&self, pci: Pci) -> String {
        format!("sys/devices/{}/{pci}", self.hardware.functions[&pci].root_complex)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("below the tree")).expect("make a directory");
        fs::write(path, text).expect("write");
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("below the tree")).expect("make a directory");
        symlink(target, path).expect("link");
    }
}
