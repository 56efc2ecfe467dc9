//! The real side of [`crate::Facts`]: /proc and /sys, no programs.

use std::fs;
use std::path::{Path, PathBuf};

use model::task::health_probe::{FabricLink, Gpu};

use crate::error::Doing;
use crate::{Error, Result};

const NVIDIA: &str = "0x10de";
const MELLANOX: &str = "0x15b3";
/// PCI classes 0x0300xx (VGA) and 0x0302xx (3D controller): not a GPU's audio or USB functions.
const DISPLAY: &str = "0x03";

pub struct Facts {
    root: PathBuf,
}

impl Facts {
    pub fn under(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    fn text(&self, path: &str) -> Result<String> {
        let path = self.root.join(path);
        let text = fs::read_to_string(&path).doing(|| format!("read {}", path.display()))?;
        Ok(text.trim().to_owned())
    }

    /// The names in a directory of /sys, sorted; none if the kernel does not have it.
    fn names(&self, path: &str) -> Result<Vec<String>> {
        let path = self.root.join(path);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => {
                return Err(Error::Io {
                    doing: format!("list {}", path.display()),
                    source,
                });
            }
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.doing(|| format!("list {}", path.display()))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// An attribute that may be missing or unreadable while devices come and go.
    fn attribute(&self, path: &str) -> Option<String> {
        self.text(path).ok()
    }
}

impl crate::Facts for Facts {
    fn kernel_version(&self) -> Result<String> {
        self.text("proc/sys/kernel/osrelease")
    }

    fn free_memory_mib(&self) -> Result<u64> {
        let meminfo = self.text("proc/meminfo")?;
        let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        let kib = available.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        let unreadable = || Error::Unreadable {
            path: "/proc/meminfo".to_owned(),
            why: "it has no MemAvailable",
        };
        Ok(kib.ok_or_else(unreadable)? / 1024)
    }

    fn kvm_present(&self) -> Result<bool> {
        let cpu = self.text("proc/cpuinfo")?;
        let mut flags = cpu
            .lines()
            .filter(|line| line.starts_with("flags"))
            .flat_map(str::split_whitespace);
        Ok(self.root.join("dev/kvm").exists() && flags.any(|flag| flag == "vmx" || flag == "svm"))
    }

    fn vfio_modules(&self) -> Result<Vec<String>> {
        let modules = self.names("sys/module")?;
        Ok(modules.into_iter().filter(|name| name.starts_with("vfio")).collect())
    }

    fn gpus(&self) -> Result<Vec<Gpu>> {
        let mut gpus = Vec::new();
        for pci_address in self.names("sys/bus/pci/devices")? {
            let dir = format!("sys/bus/pci/devices/{pci_address}");
            let of = |what: &str| self.attribute(&format!("{dir}/{what}"));
            let is_gpu = of("vendor").is_some_and(|vendor| vendor == NVIDIA)
                && of("class").is_some_and(|class| class.starts_with(DISPLAY));
            if is_gpu {
                let device = of("device").unwrap_or_default();
                let model = format!("NVIDIA 10de:{}", device.trim_start_matches("0x"));
                let driver = fs::read_link(self.root.join(&dir).join("driver")).ok();
                let driver = driver.and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
                gpus.push(Gpu {
                    pci_address,
                    model,
                    driver,
                });
            }
        }
        Ok(gpus)
    }

    /// InfiniBand ports, and network links of the same vendor that are not one of them.
    fn fabric_links(&self) -> Result<Vec<FabricLink>> {
        let mut links = Vec::new();
        for device in self.names("sys/class/infiniband")? {
            for port in self.names(&format!("sys/class/infiniband/{device}/ports"))? {
                let state = self.attribute(&format!("sys/class/infiniband/{device}/ports/{port}/state"));
                let up = state.is_some_and(|state| state.ends_with("ACTIVE"));
                links.push(FabricLink {
                    name: format!("{device}/{port}"),
                    up,
                });
            }
        }
        for name in self.names("sys/class/net")? {
            let dir = format!("sys/class/net/{name}");
            if self.attribute(&format!("{dir}/device/vendor")).as_deref() == Some(MELLANOX) {
                let up = self.attribute(&format!("{dir}/operstate")).as_deref() == Some("up");
                links.push(FabricLink { name, up });
            }
        }
        Ok(links)
    }

    fn root_free_bytes(&self) -> Result<u64> {
        let stat = rustix::fs::statvfs(&self.root).doing(|| format!("ask for the space of {}", self.root.display()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}
