//! What the host has for a VM: the processors of the slots' NUMA nodes, and pages that were reserved there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::Settings;
use super::domain::{Cell, Layout};
use crate::error::Doing;
use crate::{Machine, Result};

const NODES: &str = "/sys/devices/system/node";
/// The largest first.
const PAGES_KIB: [u64; 2] = [1 << 20, 2 << 10];

pub(super) fn look(machine: &Machine, settings: &Settings) -> Result<Layout> {
    let mut memory_mib = BTreeMap::new();
    for part in &machine.parts {
        *memory_mib.entry(part.numa_node).or_insert(0) += part.memory_mib;
    }
    let cells = if settings.emulated {
        Vec::new()
    } else {
        let cells = memory_mib.into_iter().map(|(node, needed)| cell(node, needed));
        cells.collect::<Result<_>>()?
    };
    Ok(Layout {
        kvm: !settings.emulated,
        cells,
        plain_frames: settings.emulated,
        disks: settings.disks_dir.display().to_string(),
    })
}

fn cell(node: u32, needed_mib: u64) -> Result<Cell> {
    let dir = Path::new(NODES).join(format!("node{node}"));
    let list = dir.join("cpulist");
    let cpus = fs::read_to_string(&list).doing(|| format!("read {}", list.display()))?;
    Ok(Cell {
        node,
        cpus: cpus.trim().to_owned(),
        hugepage_kib: PAGES_KIB
            .into_iter()
            .find(|size| reserved_mib(&dir, *size) >= needed_mib),
    })
}

fn reserved_mib(node: &Path, size_kib: u64) -> u64 {
    let file = node.join(format!("hugepages/hugepages-{size_kib}kB/free_hugepages"));
    let free = fs::read_to_string(file)
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok());
    free.unwrap_or(0).saturating_mul(size_kib) / 1024
}
