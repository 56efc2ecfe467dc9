//! A tree of kernel files made from the same data that a pretend machine is made of: what the real machine reads there
//! must be what the pretend one answers, and reading it costs what it costs on a host. Only stores what is written to
//! it; somebody who plays the kernel has to do the rest.

mod disguise;
mod disks;
mod owner;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use model::value::Pci;

use super::Hardware;
use crate::{Function, Holder};
pub use disguise::disguise;

/// Below an empty directory.
pub fn grow(hardware: &Hardware, root: &Path) -> io::Result<()> {
    Tree { hardware, root }.grow()
}

/// Where a function's files are, below the root.
pub fn home(hardware: &Hardware, pci: Pci) -> String {
    let complex = hardware
        .functions
        .get(&pci)
        .map_or("pci0000:00", |function| &function.root_complex);
    format!("sys/devices/{complex}/{pci}")
}

struct Tree<'a> {
    hardware: &'a Hardware,
    root: &'a Path,
}

impl Tree<'_> {
    fn grow(&self) -> io::Result<()> {
        self.write("sys/bus/pci/drivers_probe", "")?;
        let mut iomem = String::from("00000000-00000fff : Reserved\n");
        for (n, function) in self.hardware.functions.values().enumerate() {
            let bar = 0xe000_0000 + ((n as u64) << 24);
            self.function(function, bar)?;
            if let Some(console) = &function.framebuffer {
                iomem.push_str(&format!("{bar:08x}-{:08x} : {console}\n", bar + 0x2f_ffff));
            }
        }
        self.write("proc/iomem", &iomem)?;
        for (group, holders) in &self.hardware.holders {
            for holder in holders {
                self.holder(*group, holder)?;
            }
        }
        self.virtual_functions()?;
        self.owner()?;
        self.disks()
    }

    fn holder(&self, group: u32, holder: &Holder) -> io::Result<()> {
        let proc = format!("proc/{}", holder.pid);
        self.write(&format!("{proc}/comm"), &format!("{}\n", holder.program))?;
        let name = holder
            .domain
            .as_ref()
            .map(|name| format!("\0-name\0guest={name},debug-threads=on"));
        self.write(
            &format!("{proc}/cmdline"),
            &format!("{}{}\0", holder.program, name.unwrap_or_default()),
        )?;
        self.link(&format!("{proc}/fd/9"), &format!("/dev/vfio/{group}"))
    }

    fn function(&self, function: &Function, bar: u64) -> io::Result<()> {
        let pci = function.pci;
        let dir = home(self.hardware, pci);
        let put = |what: &str, text: &str| self.write(&format!("{dir}/{what}"), &format!("{text}\n"));
        put("vendor", &format!("0x{:04x}", function.vendor))?;
        put("device", &format!("0x{:04x}", function.device))?;
        put("class", &format!("0x{:06x}", function.class))?;
        // The kernel's word for a firmware that does not say.
        put(
            "numa_node",
            &function.numa_node.map_or("-1".to_owned(), |node| node.to_string()),
        )?;
        put("reset_method", &function.reset_methods.join(" "))?;
        put("reset", "")?;
        put("power_state", &function.power_state)?;
        put("driver_override", "(null)")?;
        put("sriov_numvfs", &function.virtual_functions.to_string())?;
        put(
            "resource",
            &format!("{bar:#018x} {:#018x} 0x000000000014220c", bar + 0xff_ffff),
        )?;
        if let Some(allowed) = function.d3cold_allowed {
            put("d3cold_allowed", if allowed { "1" } else { "0" })?;
        }
        if function.is_mdev_parent {
            put("mdev_supported_types/nvidia-1/name", "GRID")?;
        }
        if self.hardware.vbios.contains_key(&pci) {
            self.write(&format!("{dir}/rom"), &super::board::rom(function.device))?;
        }
        let config = if function.config_readable {
            [0x10; 64]
        } else {
            [0xff; 64]
        };
        fs::write(self.root.join(&dir).join("config"), config)?;
        self.link(
            &format!("sys/bus/pci/devices/{pci}"),
            &format!("../../../{}", dir.trim_start_matches("sys/")),
        )?;
        if let Some(physical) = function.physical_function {
            self.link(&format!("{dir}/physfn"), &format!("../{physical}"))?;
        }
        if let Some(group) = function.iommu_group {
            self.link(
                &format!("{dir}/iommu_group"),
                &format!("../../../kernel/iommu_groups/{group}"),
            )?;
            self.link(
                &format!("sys/kernel/iommu_groups/{group}/devices/{pci}"),
                &format!("../../../../{dir}"),
            )?;
        }
        if let Some(driver) = &function.driver {
            self.write(&format!("sys/bus/pci/drivers/{driver}/unbind"), "")?;
            self.link(&format!("{dir}/driver"), &format!("../../../bus/pci/drivers/{driver}"))?;
        }
        Ok(())
    }

    /// As a port numbers its own, with the VLAN of each.
    fn virtual_functions(&self) -> io::Result<()> {
        let partitions = super::readiness::partitions(self.hardware);
        let mut numbers: BTreeMap<Pci, u32> = BTreeMap::new();
        for function in self.hardware.functions.values() {
            let Some(port) = function.physical_function else {
                continue;
            };
            let number = numbers.entry(port).or_default();
            let dir = home(self.hardware, port);
            self.link(&format!("{dir}/virtfn{number}"), &format!("../{}", function.pci))?;
            let vlan = partitions
                .get(&function.pci)
                .and_then(|words| words.strip_prefix("vlan "));
            let config = format!("VF         : {number}\nVLAN       : {}\n", vlan.unwrap_or("0"));
            self.write(&format!("{dir}/sriov/{number}/config"), &config)?;
            *number += 1;
        }
        Ok(())
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let path = self.root.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)
    }

    fn link(&self, path: &str, target: &str) -> io::Result<()> {
        let path = self.root.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        symlink(target, path)
    }
}
