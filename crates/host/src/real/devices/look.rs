//! One PCI function, read from sysfs. A file that some kernels do not have is a field that says so; a file that is
//! there and cannot be read is an error, for nobody may take a device that was not seen for one that is not there.

use std::ffi::OsStr;

use model::value::Pci;

use super::console::Console;
use super::{Devices, PCI};
use crate::{Function, Result};

/// The part of the configuration space that every function has.
const HEADER_BYTES: u64 = 64;

impl Devices {
    pub(super) fn look(&self) -> Result<Vec<Function>> {
        let console = self.console()?;
        let mut functions = Vec::new();
        for name in self.sys.names(PCI)? {
            let unnamed = |_| self.sys.unreadable(&format!("{PCI}/{name}"), "it is no PCI address");
            let pci: Pci = name.parse().map_err(unnamed)?;
            functions.extend(self.read(pci, &console)?);
        }
        functions.sort_by_key(|function| function.pci);
        Ok(functions)
    }

    pub(super) fn look_at(&self, pci: Pci) -> Result<Option<Function>> {
        self.read(pci, &self.console()?)
    }

    /// None if it is gone.
    fn read(&self, pci: Pci, console: &Console) -> Result<Option<Function>> {
        let dir = format!("{PCI}/{pci}");
        let of = |what: &str| format!("{dir}/{what}");
        let text = |what: &str| self.sys.optional(&of(what));
        let Some(vendor) = text("vendor")? else { return Ok(None) };
        let hex = |what: &str, text: &str| {
            let digits = text.strip_prefix("0x").unwrap_or(text);
            u32::from_str_radix(digits, 16).map_err(|_| self.sys.unreadable(&of(what), "it is no hex number"))
        };
        let number = |text: Option<String>| text.and_then(|text| text.parse::<u32>().ok());
        let methods = match text("reset_method")? {
            Some(methods) => methods.split_whitespace().map(str::to_owned).collect(),
            // Kernels before 5.15 do not say how.
            None if self.sys.has(&of("reset")) => vec!["unknown".to_owned()],
            None => Vec::new(),
        };
        let config = self.sys.bytes(&of("config"), HEADER_BYTES).ok().flatten();
        let physical = self.sys.link_name(&of("physfn"))?;
        Ok(Some(Function {
            pci,
            vendor: hex("vendor", &vendor)? as u16,
            device: hex("device", &self.sys.text(&of("device"))?)? as u16,
            class: hex("class", &self.sys.text(&of("class"))?)?,
            driver: self.sys.link_name(&of("driver"))?,
            iommu_group: number(self.sys.link_name(&of("iommu_group"))?),
            // The kernel writes -1 where the firmware does not say.
            numa_node: number(text("numa_node")?),
            root_complex: self.root_complex(&dir)?,
            physical_function: physical.and_then(|name| name.parse().ok()),
            virtual_functions: number(text("sriov_numvfs")?).unwrap_or(0),
            is_mdev_parent: self.sys.has(&of("mdev_supported_types")),
            reset_methods: methods,
            power_state: text("power_state")?.unwrap_or_else(|| "unknown".to_owned()),
            d3cold_allowed: text("d3cold_allowed")?.map(|allowed| allowed != "0"),
            config_readable: config.is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0xff)),
            framebuffer: self.framebuffer(pci, console)?,
        }))
    }

    /// `pci0000:17` of `../../../devices/pci0000:17/0000:17:01.0/0000:18:00.0`; the last one where a controller brings
    /// a bus of its own.
    fn root_complex(&self, dir: &str) -> Result<String> {
        let target = self.sys.link(dir)?;
        let is_bridge = |part: &&str| part.strip_prefix("pci").is_some_and(|rest| rest.contains(':'));
        let parts = target.iter().flat_map(|target| target.iter()).filter_map(OsStr::to_str);
        let found = parts.rev().find(is_bridge).map(str::to_owned);
        found.ok_or_else(|| self.sys.unreadable(dir, "it hangs on no host bridge"))
    }
}
