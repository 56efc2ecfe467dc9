//! What of the boot console draws on a GPU: the firmware's framebuffer inside its memory, or a framebuffer device of a
//! driver of its own. Either keeps the GPU from a guest.

use model::value::Pci;

use super::{Devices, PCI};
use crate::Result;

/// The kernel's names for memory that the firmware's console draws in.
const NAMES: [&str; 6] = [
    "BOOTFB",
    "efifb",
    "vesafb",
    "simplefb",
    "simple-framebuffer",
    "simpledrm",
];

/// Read once for all functions.
pub(super) struct Console {
    /// First and last byte, and whose.
    memory: Vec<(u64, u64, String)>,
    /// Framebuffer devices, and the PCI function or platform device below each.
    buffers: Vec<(String, String)>,
}

impl Devices {
    pub(super) fn console(&self) -> Result<Console> {
        let iomem = self.sys.optional("proc/iomem")?.unwrap_or_default();
        let memory = iomem.lines().filter_map(line_of_iomem).collect();
        let mut buffers = Vec::new();
        for name in self.sys.names("sys/class/graphics")? {
            if name.starts_with("fb") && name != "fbcon" {
                let device = self.sys.link_name(&format!("sys/class/graphics/{name}/device"))?;
                buffers.extend(device.map(|device| (name, device)));
            }
        }
        Ok(Console { memory, buffers })
    }

    pub(super) fn framebuffer(&self, pci: Pci, console: &Console) -> Result<Option<String>> {
        if let Some((name, _)) = console.buffers.iter().find(|(_, device)| *device == pci.to_string()) {
            return Ok(Some(name.clone()));
        }
        if console.memory.is_empty() {
            return Ok(None);
        }
        let resources = self.sys.optional(&format!("{PCI}/{pci}/resource"))?.unwrap_or_default();
        let mut bars = resources.lines().filter_map(line_of_resource);
        let found = bars.find_map(|(first, last)| {
            let inside = console
                .memory
                .iter()
                .find(|(start, end, _)| first <= *start && *end <= last);
            inside.map(|(_, _, name)| name.clone())
        });
        Ok(found)
    }
}

/// `    e0000000-e02fffff : efifb`; an unprivileged reader sees zeros, which are inside nothing.
fn line_of_iomem(line: &str) -> Option<(u64, u64, String)> {
    let (range, name) = line.trim().split_once(" : ")?;
    let (first, last) = range.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (first, last) = (hex(first)?, hex(last)?);
    (NAMES.contains(&name) && last > 0).then(|| (first, last, name.to_owned()))
}

/// `0x00000000e0000000 0x00000000efffffff 0x000000000014220c`
fn line_of_resource(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace();
    let mut hex = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (first, last) = (hex()?, hex()?);
    (last > 0).then_some((first, last))
}
