//! A VM as libvirt wants it told. Processors and memory stay on the NUMA nodes of the slots, memory has a limit, the
//! devices are given as they are (nobody else binds them), and there is no graphics, no sound, no USB and no monitor.

use std::fmt::Display;
use std::path::Path;

use model::value::Pci;

use super::xml::Xml;
use crate::Machine;

/// The mark by which a VM is known to be ours.
pub(super) const NAMESPACE: &str = "urn:gpuaas:slice:1";

/// What the host adds to the wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// False: emulated, which only code can ask for. Then nothing is pinned or limited either.
    pub kvm: bool,
    /// One for each NUMA node that the slots are on, ascending.
    pub cells: Vec<Cell>,
    /// The switch runs outside the kernel and does not finish checksums.
    pub plain_frames: bool,
    /// Where the disks' names are.
    pub disks: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub node: u32,
    /// The node's processors as the kernel lists them.
    pub cpus: String,
    /// Size of the pages that are reserved there for all of the cell's memory.
    pub hugepage_kib: Option<u64>,
}

/// What QEMU itself needs besides the guest's memory: a quarter, which VFIO's tables may take, and one GiB.
fn limit_mib(memory_mib: u64) -> u64 {
    memory_mib + memory_mib / 4 + 1024
}

pub fn domain(machine: &Machine, layout: &Layout) -> String {
    let mut xml = Xml::new();
    let memory_mib: u64 = machine.parts.iter().map(|part| part.memory_mib).sum();
    let vcpus: u32 = machine.parts.iter().map(|part| part.vcpus).sum();
    let kind = if layout.kvm { "kvm" } else { "qemu" };
    xml.begin("domain", &[("type", &kind)]);
    xml.text("name", &[], &machine.name);
    xml.text("uuid", &[], &machine.op.uuid());
    xml.begin("metadata", &[]);
    let (allocation, op) = (&machine.allocation, &machine.op);
    xml.empty(
        "slice",
        &[("xmlns", &NAMESPACE), ("allocation", allocation), ("op", op)],
    );
    xml.end();
    xml.text("memory", &[("unit", &"MiB")], &memory_mib);
    xml.text("vcpu", &[("placement", &"static")], &vcpus);
    if layout.kvm {
        placement(&mut xml, machine, layout, memory_mib);
    }
    xml.begin("os", &[]);
    xml.text("type", &[("arch", &"x86_64"), ("machine", &"q35")], &"hvm");
    xml.empty("boot", &[("dev", &"hd")]);
    xml.end();
    xml.begin("features", &[]);
    xml.empty("acpi", &[]);
    xml.empty("apic", &[]);
    xml.end();
    processor(&mut xml, machine, layout);
    xml.text("on_poweroff", &[], &"destroy");
    xml.text("on_reboot", &[], &"restart");
    xml.text("on_crash", &[], &"destroy");
    devices(&mut xml, machine, layout);
    xml.done()
}

fn placement(xml: &mut Xml, machine: &Machine, layout: &Layout, memory_mib: u64) {
    xml.begin("cputune", &[]);
    let mut vcpu = 0;
    for part in &machine.parts {
        let cell = layout.cells.iter().find(|cell| cell.node == part.numa_node);
        for _ in 0..part.vcpus {
            if let Some(cell) = cell {
                xml.empty("vcpupin", &[("vcpu", &vcpu), ("cpuset", &cell.cpus)]);
            }
            vcpu += 1;
        }
    }
    xml.end();
    let nodes: Vec<String> = layout.cells.iter().map(|cell| cell.node.to_string()).collect();
    xml.begin("numatune", &[]);
    xml.empty("memory", &[("mode", &"strict"), ("nodeset", &nodes.join(","))]);
    for (at, cell) in layout.cells.iter().enumerate() {
        let strict: [(&'static str, &dyn Display); 3] = [("cellid", &at), ("mode", &"strict"), ("nodeset", &cell.node)];
        xml.empty("memnode", &strict);
    }
    xml.end();
    xml.begin("memtune", &[]);
    xml.text("hard_limit", &[("unit", &"MiB")], &limit_mib(memory_mib));
    xml.end();
    if layout.cells.iter().any(|cell| cell.hugepage_kib.is_some()) {
        xml.begin("memoryBacking", &[]);
        xml.begin("hugepages", &[]);
        for (at, cell) in layout.cells.iter().enumerate() {
            if let Some(size) = cell.hugepage_kib {
                xml.empty("page", &[("size", &size), ("unit", &"KiB"), ("nodeset", &at)]);
            }
        }
        xml.end();
        xml.end();
    }
}

fn processor(xml: &mut Xml, machine: &Machine, layout: &Layout) {
    if !layout.kvm {
        xml.begin("cpu", &[("mode", &"custom"), ("match", &"exact")]);
        xml.text("model", &[("fallback", &"allow")], &"Nehalem");
        return xml.end();
    }
    xml.begin("cpu", &[("mode", &"host-passthrough"), ("migratable", &"off")]);
    xml.begin("numa", &[]);
    for (at, cell) in layout.cells.iter().enumerate() {
        let (mut next, mut own, mut memory_mib) = (0, Vec::new(), 0);
        for part in &machine.parts {
            if part.numa_node == cell.node {
                own.extend((next..next + part.vcpus).map(|vcpu| vcpu.to_string()));
                memory_mib += part.memory_mib;
            }
            next += part.vcpus;
        }
        let cpus = own.join(",");
        xml.empty(
            "cell",
            &[("id", &at), ("cpus", &cpus), ("memory", &memory_mib), ("unit", &"MiB")],
        );
    }
    xml.end();
    xml.end();
}

fn devices(xml: &mut Xml, machine: &Machine, layout: &Layout) {
    xml.begin("devices", &[]);
    for (at, part) in machine.parts.iter().enumerate() {
        let source = Path::new(&layout.disks).join(part.disk.as_str());
        let target = format!("vd{}", char::from(b'a' + u8::try_from(at).unwrap_or(0)));
        xml.begin("disk", &[("type", &"block"), ("device", &"disk")]);
        let io: [(&'static str, &dyn Display); 5] = [
            ("name", &"qemu"),
            ("type", &"raw"),
            ("cache", &"none"),
            ("io", &"native"),
            ("discard", &"unmap"),
        ];
        xml.empty("driver", &io);
        xml.empty("source", &[("dev", &source.display())]);
        xml.empty("target", &[("dev", &target), ("bus", &"virtio")]);
        xml.text("serial", &[], &format_args!("slot-{at}"));
        xml.end();
    }
    xml.begin("disk", &[("type", &"file"), ("device", &"disk")]);
    xml.empty("driver", &[("name", &"qemu"), ("type", &"raw")]);
    xml.empty("source", &[("file", &machine.seed.display())]);
    xml.empty("target", &[("dev", &"vdz"), ("bus", &"virtio")]);
    xml.empty("readonly", &[]);
    xml.end();
    xml.begin("interface", &[("type", &"ethernet")]);
    xml.empty("mac", &[("address", &machine.mac)]);
    xml.empty("target", &[("dev", &machine.interface), ("managed", &"no")]);
    xml.empty("model", &[("type", &"virtio")]);
    if layout.plain_frames {
        xml.begin("driver", &[]);
        let off = ["csum", "gso", "tso4", "tso6", "ecn", "ufo"].map(|what| (what, &"off" as &dyn Display));
        xml.empty("host", &off);
        xml.end();
    }
    xml.end();
    for device in machine.parts.iter().flat_map(|part| &part.devices) {
        hostdev(xml, *device);
    }
    // Asks the guest to end politely where it does not listen to the power button.
    xml.begin("channel", &[("type", &"unix")]);
    xml.empty("target", &[("type", &"virtio"), ("name", &"org.qemu.guest_agent.0")]);
    xml.end();
    xml.begin("rng", &[("model", &"virtio")]);
    xml.text("backend", &[("model", &"random")], &"/dev/urandom");
    xml.end();
    xml.begin("serial", &[("type", &"null")]);
    xml.empty("target", &[("port", &0)]);
    xml.end();
    xml.empty("memballoon", &[("model", &"none")]);
    xml.empty("controller", &[("type", &"usb"), ("model", &"none")]);
    xml.end();
}

/// Not managed: libvirt would bind it back to the host's driver behind our back.
fn hostdev(xml: &mut Xml, device: Pci) {
    xml.begin(
        "hostdev",
        &[("mode", &"subsystem"), ("type", &"pci"), ("managed", &"no")],
    );
    xml.empty("driver", &[("name", &"vfio")]);
    xml.begin("source", &[]);
    address(xml, device);
    xml.end();
    xml.end();
}

fn address(xml: &mut Xml, device: Pci) {
    // dddd:bb:dd.f, by its type.
    let text = device.to_string();
    let parts: Vec<String> = text.split([':', '.']).map(|part| format!("0x{part}")).collect();
    if let [domain, bus, slot, function] = parts.as_slice() {
        let named: [(&'static str, &dyn Display); 4] =
            [("domain", domain), ("bus", bus), ("slot", slot), ("function", function)];
        xml.empty("address", &named);
    }
}
