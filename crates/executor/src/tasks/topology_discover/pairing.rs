//! Which disk and which function of the fabric each GPU gets: those of its own root complex first, for all GPUs, before
//! anybody reaches further. A disk may come from the same NUMA node, and from another one only with a blocker; a
//! function of the fabric from another root complex would look local and not be, so none is taken. Every device is
//! looked at a fixed number of times: the cost is that of sorting.

use std::collections::{BTreeMap, VecDeque};

use host::{Disk, Function};
use model::signal::Code;

use super::found::Found;
use super::seen::Seen;

pub(super) struct Pair<'a> {
    pub(super) slot_index: u32,
    pub(super) gpu: &'a Function,
    pub(super) disk: Option<&'a Disk>,
    pub(super) fabric: Option<&'a Function>,
}

pub(super) fn pair<'a>(seen: &'a Seen, found: &mut Found) -> Vec<Pair<'a>> {
    let mut pairs: Vec<Pair<'a>> = seen
        .gpus()
        .zip(0..)
        .map(|(gpu, slot_index)| Pair {
            slot_index,
            gpu,
            disk: None,
            fabric: None,
        })
        .collect();
    give_disks(seen, &mut pairs, found);
    give_fabric(seen, &mut pairs, found);
    pairs
}

fn give_disks<'a>(seen: &'a Seen, pairs: &mut [Pair<'a>], found: &mut Found) {
    let free = seen.disks.disks.iter().filter(|disk| disk.in_use_by.is_empty());
    let place = |disk: &'a Disk| disk.controller.and_then(|pci| seen.function(pci));
    let mut shelf = Shelf::new(free.map(|disk| (disk, place(disk))));
    for pair in pairs.iter_mut() {
        pair.disk = shelf.of_complex(&pair.gpu.root_complex);
    }
    for pair in pairs.iter_mut().filter(|pair| pair.disk.is_none()) {
        pair.disk = shelf.of_node(pair.gpu.numa_node);
        if let Some(disk) = pair.disk {
            let detail = far(&disk.identity.by_id.to_string(), place(disk), pair.gpu);
            found.warns(pair.gpu.pci, Code::SlotRootComplexMismatch, detail, MOVE);
        }
    }
    for pair in pairs.iter_mut().filter(|pair| pair.disk.is_none()) {
        pair.disk = shelf.any();
        match pair.disk {
            Some(disk) => {
                let detail = far(&disk.identity.by_id.to_string(), place(disk), pair.gpu);
                found.blocks(pair.gpu.pci, Code::SlotRootComplexMismatch, detail, MOVE);
            }
            None => {
                let used = seen
                    .disks
                    .disks
                    .iter()
                    .filter(|disk| !disk.in_use_by.is_empty())
                    .count();
                let all = seen.disks.disks.len();
                let detail = format!("the host has {all} NVMe disks, {used} of them in use, and none is left for it");
                let fix = "add an NVMe disk, or free one: see in_use_by of nvme_devices";
                found.blocks(pair.gpu.pci, Code::SlotUnpaired, detail, fix);
            }
        }
    }
}

fn give_fabric<'a>(seen: &'a Seen, pairs: &mut [Pair<'a>], found: &mut Found) {
    let virtual_functions = seen.fabric().filter(|function| function.physical_function.is_some());
    let mut shelf = Shelf::new(virtual_functions.map(|function| (function, Some(function))));
    for pair in pairs.iter_mut() {
        pair.fabric = shelf.of_complex(&pair.gpu.root_complex);
    }
    for pair in pairs.iter_mut().filter(|pair| pair.fabric.is_none()) {
        if let Some(other) = shelf.of_node(pair.gpu.numa_node).or_else(|| shelf.any()) {
            let detail = far(&other.pci.to_string(), Some(other), pair.gpu);
            let fix = format!(
                "turn on a virtual function below {}, or move the adapter: lspci -t",
                pair.gpu.root_complex
            );
            found.blocks(pair.gpu.pci, Code::SlotRootComplexMismatch, detail, fix);
        }
    }
}

const MOVE: &str = "move the disk to a slot of the GPU's root complex: lspci -t";

fn far(what: &str, place: Option<&Function>, gpu: &Function) -> String {
    let node = |function: &Function| {
        function
            .numa_node
            .map_or("no node".to_owned(), |node| format!("node {node}"))
    };
    let there = place.map_or("an unknown place".to_owned(), |at| {
        format!("{} ({})", at.root_complex, node(at))
    });
    format!(
        "{what} hangs on {there}, the GPU on {} ({})",
        gpu.root_complex,
        node(gpu)
    )
}

/// Things to be given away once each, in the order they came, by where they hang.
struct Shelf<'a, T> {
    things: Vec<Option<&'a T>>,
    by_complex: BTreeMap<&'a str, VecDeque<usize>>,
    by_node: BTreeMap<Option<u32>, VecDeque<usize>>,
    all: VecDeque<usize>,
}

impl<'a, T> Shelf<'a, T> {
    fn new(things: impl Iterator<Item = (&'a T, Option<&'a Function>)>) -> Self {
        let mut shelf = Self {
            things: Vec::new(),
            by_complex: BTreeMap::new(),
            by_node: BTreeMap::new(),
            all: VecDeque::new(),
        };
        for (at, (thing, place)) in things.enumerate() {
            shelf.things.push(Some(thing));
            shelf.all.push_back(at);
            if let Some(place) = place {
                shelf.by_complex.entry(&place.root_complex).or_default().push_back(at);
                shelf.by_node.entry(place.numa_node).or_default().push_back(at);
            }
        }
        shelf
    }

    fn of_complex(&mut self, complex: &str) -> Option<&'a T> {
        take(&mut self.things, self.by_complex.get_mut(complex)?)
    }

    fn of_node(&mut self, node: Option<u32>) -> Option<&'a T> {
        // Two that the firmware says nothing about are not neighbours.
        node?;
        take(&mut self.things, self.by_node.get_mut(&node)?)
    }

    fn any(&mut self) -> Option<&'a T> {
        take(&mut self.things, &mut self.all)
    }
}

/// The first that nobody has. What was given away under another name is passed over once and for all.
fn take<'a, T>(things: &mut [Option<&'a T>], queue: &mut VecDeque<usize>) -> Option<&'a T> {
    while let Some(at) = queue.pop_front() {
        if let Some(thing) = things.get_mut(at).and_then(Option::take) {
            return Some(thing);
        }
    }
    None
}
