//! How the devices of the profiles hang together: root complexes, each with its NUMA node, and what is plugged in
//! below. Every slot's devices share a root complex, as on the hosts that these are modelled on.

use model::digest::Sha256;
use model::value::{DiskIdentity, Pci};

use super::hardware::{Hardware, PretendDisk};
use crate::devices::{MELLANOX, NVIDIA, VFIO_PCI};
use crate::{Disk, Function};

const TB: u64 = 1_000_000_000_000;

/// Eight GPUs on a baseboard with four NVSwitches. Each has a root complex of its own, with a port of the fabric, a
/// virtual function of it and a disk. Two more disks carry the host.
pub(super) fn h100x8() -> Hardware {
    let mut board = Board::default();
    for n in 0..8 {
        let node = u32::from(n / 4);
        let mut complex = board.root_complex(0x10 + n * 0x18, node);
        complex.gpu(0x2330, None);
        complex.fabric(0x1021, 0x101e, 1);
        complex.disk(&format!("S6CKNT0W{n:06}"), 3_840 * TB / 1000, &[]);
    }
    let mut complex = board.root_complex(0xd8, 1);
    for _ in 0..4 {
        complex.nvswitch();
    }
    let mut complex = board.root_complex(0xe0, 0);
    for n in 0..2 {
        complex.disk(&format!("PHYG2141{n:06}"), 960 * TB / 1000, &["held by md0"]);
    }
    board.hardware
}

/// Four cards with an audio function each, two on either processor, which has one port of the fabric.
pub(super) fn l40sx4() -> Hardware {
    let mut board = Board::default();
    for node in 0..2u8 {
        let mut complex = board.root_complex(0x20 + node * 0x60, u32::from(node));
        for n in 0..2 {
            complex.gpu(0x26b9, Some(0x22ba));
            complex.disk(&format!("S5XANA0R{:06}", node * 2 + n), 1_920 * TB / 1000, &[]);
        }
        complex.fabric(0x101d, 0x101e, 2);
    }
    board
        .root_complex(0xf0, 0)
        .disk("BTAC2020000001", 480 * TB / 1000, &["mounted at /"]);
    board.hardware
}

/// A machine that nobody has built: `gpus` of them, each with its own root complex, disk and a port of the fabric that
/// has five virtual functions; eight devices for each GPU, on so many NUMA nodes.
pub fn vast(gpus: u32, nodes: u32) -> Hardware {
    let mut board = Board::default();
    for n in 0..gpus {
        let mut complex = board.root_complex_in(n, 0, n % nodes.max(1));
        complex.gpu(0x2330, None);
        complex.fabric(0x1021, 0x101e, 5);
        complex.disk(&format!("VAST{n:06}"), TB, &[]);
    }
    board.hardware
}

/// What the ROM of such a device says.
pub(super) fn rom(device: u16) -> String {
    format!("rom of {device:04x}")
}

#[derive(Default)]
struct Board {
    hardware: Hardware,
    next_group: u32,
    next_disk: u32,
}

impl Board {
    fn root_complex(&mut self, bus: u8, node: u32) -> RootComplex<'_> {
        self.root_complex_in(0, bus, node)
    }

    fn root_complex_in(&mut self, domain: u32, bus: u8, node: u32) -> RootComplex<'_> {
        RootComplex {
            domain,
            root: bus,
            next_bus: bus + 1,
            node,
            board: self,
        }
    }
}

struct RootComplex<'a> {
    board: &'a mut Board,
    domain: u32,
    root: u8,
    next_bus: u8,
    node: u32,
}

impl RootComplex<'_> {
    fn plug(&mut self) -> (u8, u32) {
        let bus = self.next_bus;
        self.next_bus += 1;
        (bus, self.group())
    }

    fn group(&mut self) -> u32 {
        self.board.next_group += 1;
        self.board.next_group
    }

    fn add(&mut self, at: (u8, u8), ids: (u16, u16), class: u32, group: u32, driver: Option<&str>) -> &mut Function {
        let pci = Pci::new(self.domain, at.0, 0, at.1).expect("a function number");
        let function = Function {
            pci,
            vendor: ids.0,
            device: ids.1,
            class,
            driver: driver.map(str::to_owned),
            iommu_group: Some(group),
            numa_node: Some(self.node),
            root_complex: format!("pci{:04x}:{:02x}", self.domain, self.root),
            physical_function: None,
            virtual_functions: 0,
            is_mdev_parent: false,
            reset_methods: vec!["flr".to_owned(), "bus".to_owned()],
            power_state: "D0".to_owned(),
            d3cold_allowed: Some(false),
            config_readable: true,
            framebuffer: None,
        };
        self.board
            .hardware
            .functions
            .entry(pci)
            .insert_entry(function)
            .into_mut()
    }

    fn gpu(&mut self, device: u16, audio: Option<u16>) {
        let (bus, group) = self.plug();
        let pci = self
            .add((bus, 0), (NVIDIA, device), 0x03_0200, group, Some(VFIO_PCI))
            .pci;
        if let Some(audio) = audio {
            self.add((bus, 1), (NVIDIA, audio), 0x04_0300, group, Some(VFIO_PCI));
        }
        let rom = Sha256::of(rom(device).as_bytes());
        self.board.hardware.vbios.insert(pci, rom);
    }

    fn nvswitch(&mut self) {
        let (bus, group) = self.plug();
        self.add((bus, 0), (NVIDIA, 0x22a3), 0x06_8000, group, Some("nvidia-nvswitch"));
    }

    fn fabric(&mut self, device: u16, virtual_device: u16, functions: u8) {
        let (bus, group) = self.plug();
        let physical = self.add((bus, 0), (MELLANOX, device), 0x02_0700, group, Some("mlx5_core"));
        physical.virtual_functions = u32::from(functions);
        let physical = physical.pci;
        for n in 1..=functions {
            let group = self.group();
            let virtual_function = self.add((bus, n), (MELLANOX, virtual_device), 0x02_0700, group, Some(VFIO_PCI));
            virtual_function.physical_function = Some(physical);
            virtual_function.d3cold_allowed = None;
        }
    }

    fn disk(&mut self, serial: &str, size_bytes: u64, in_use_by: &[&str]) {
        let (bus, group) = self.plug();
        let controller = self.add((bus, 0), (0x144d, 0xa824), 0x01_0802, group, Some("nvme")).pci;
        let number = self.board.next_disk;
        self.board.next_disk += 1;
        let digest = Sha256::of(serial.as_bytes()).to_string();
        let identity = DiskIdentity {
            by_id: format!("nvme-SIMULATED_{serial}").parse().expect("a plain name"),
            serial: serial.parse().expect("plain text"),
            wwn: format!("eui.{}", &digest[..16]).parse().expect("plain text"),
            size_bytes,
        };
        let by_id = identity.by_id.clone();
        let disk = Disk {
            identity,
            kernel_name: format!("nvme{number}n1"),
            controller: Some(controller),
            namespaces: 1,
            in_use_by: in_use_by.iter().map(|user| (*user).to_owned()).collect(),
        };
        let disk = PretendDisk {
            disk,
            is_capable: true,
            written: Default::default(),
        };
        self.board.hardware.disks.insert(by_id, disk);
    }
}
