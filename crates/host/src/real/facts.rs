//! The real side of [`crate::Facts`]: /proc and /sys, no programs.

use std::fs;
use std::path::Path;

use model::task::health_probe::{FabricLink, Gpu};

use super::sys::Sys;
use crate::error::Doing;
use crate::{Error, Result};

const MELLANOX: &str = "0x15b3";
/// PCI classes of displays and 3D controllers: not a GPU's audio or USB functions.
const DISPLAY: &str = "0x03";
const ACCELERATOR: &str = "0x12";
/// Whose displays show a console and compute nothing: ASPEED, Matrox, Huawei, Silicon Motion and XGI on boards; QEMU,
/// Cirrus and Red Hat in virtual machines. Everybody else's count as GPUs.
const CONSOLES: [&str; 8] = [
    "0x1a03", "0x102b", "0x19e5", "0x126f", "0x18ca", "0x1234", "0x1013", "0x1b36",
];

pub struct Facts {
    sys: Sys,
}

impl Facts {
    pub fn under(root: &Path) -> Self {
        Self { sys: Sys::under(root) }
    }
}

impl crate::Facts for Facts {
    fn boot_id(&self) -> Result<String> {
        self.sys.text("proc/sys/kernel/random/boot_id")
    }

    fn kernel_version(&self) -> Result<String> {
        self.sys.text("proc/sys/kernel/osrelease")
    }

    fn free_memory_mib(&self) -> Result<u64> {
        let meminfo = self.sys.text("proc/meminfo")?;
        let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        let kib = available.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        let unreadable = || Error::Unreadable {
            path: "/proc/meminfo".to_owned(),
            why: "it has no MemAvailable",
        };
        Ok(kib.ok_or_else(unreadable)? / 1024)
    }

    fn kvm_present(&self) -> Result<bool> {
        let cpu = self.sys.text("proc/cpuinfo")?;
        let mut flags = cpu
            .lines()
            .filter(|line| line.starts_with("flags"))
            .flat_map(str::split_whitespace);
        Ok(self.sys.has("dev/kvm") && flags.any(|flag| flag == "vmx" || flag == "svm"))
    }

    fn vfio_modules(&self) -> Result<Vec<String>> {
        let modules = self.sys.names("sys/module")?;
        Ok(modules.into_iter().filter(|name| name.starts_with("vfio")).collect())
    }

    /// Whatever could keep a tenant's data, of any vendor. Whoever asks may go on to hand the machine to the next one,
    /// so what cannot be read is an error and not a machine without GPUs.
    fn gpus(&self) -> Result<Vec<Gpu>> {
        // A kernel need not have PCI; but one whose /sys is not there tells us nothing.
        let buses = self.sys.path("sys/bus");
        fs::read_dir(&buses).doing(|| format!("list {}", buses.display()))?;
        let mut gpus = Vec::new();
        for pci_address in self.sys.names("sys/bus/pci/devices")? {
            let dir = format!("sys/bus/pci/devices/{pci_address}");
            let of = |what: &str| self.sys.text(&format!("{dir}/{what}"));
            let (vendor, class) = (of("vendor")?, of("class")?);
            let is_console = class.starts_with(DISPLAY) && CONSOLES.contains(&vendor.as_str());
            if !is_console && [DISPLAY, ACCELERATOR].iter().any(|kind| class.starts_with(kind)) {
                gpus.push(Gpu {
                    model: model(&vendor, &of("device")?),
                    driver: self.sys.link_name(&format!("{dir}/driver"))?,
                    pci_address,
                });
            }
        }
        Ok(gpus)
    }

    /// InfiniBand ports, and network links of the same vendor that are not one of them.
    fn fabric_links(&self) -> Result<Vec<FabricLink>> {
        let mut links = Vec::new();
        for device in self.sys.names("sys/class/infiniband")? {
            for port in self.sys.names(&format!("sys/class/infiniband/{device}/ports"))? {
                let state = self
                    .sys
                    .attribute(&format!("sys/class/infiniband/{device}/ports/{port}/state"));
                let up = state.is_some_and(|state| state.ends_with("ACTIVE"));
                links.push(FabricLink {
                    name: format!("{device}/{port}"),
                    up,
                });
            }
        }
        for name in self.sys.names("sys/class/net")? {
            let dir = format!("sys/class/net/{name}");
            if self.sys.attribute(&format!("{dir}/device/vendor")).as_deref() == Some(MELLANOX) {
                let up = self.sys.attribute(&format!("{dir}/operstate")).as_deref() == Some("up");
                links.push(FabricLink { name, up });
            }
        }
        Ok(links)
    }

    fn root_free_bytes(&self) -> Result<u64> {
        let root = self.sys.path("");
        let stat = rustix::fs::statvfs(&root).doing(|| format!("ask for the space of {}", root.display()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// As sysfs writes them: `0x10de`.
fn model(vendor: &str, device: &str) -> String {
    let number = |id: &str| u16::from_str_radix(id.trim_start_matches("0x"), 16).unwrap_or_default();
    model::gpu::name_of(number(vendor), number(device))
}
