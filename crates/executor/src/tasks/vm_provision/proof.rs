//! The worlds in which provisioning is proved: one slot and two, beside a neighbour who must not notice.

use host::pretend::{Dir, Pretend, PretendMachine, Profile, State};
use host::{Holder, Kept, Machine, Owner, Part, Plug, Port};
use model::digest::Sha256;
use model::task::slot::Slot;
use model::task::vm_power::Power;
use model::task::vm_provision::{DriverStrategy, ImageFormat, Params};
use model::time::Timestamp;
use model::value::Pci;
use steps::{Complaints, Proof};

use super::Handler;
use crate::tasks::proof;

/// Small, so that not a thousand markers are made for each of thousands of trials.
const DISK_BYTES: u64 = 16 << 10;

pub(super) fn prove() -> Result<Proof, Complaints> {
    let one = proof::prove::<Handler>(params(1), Profile::H100x8, neighbour)?;
    let two = proof::prove::<Handler>(params(2), Profile::L40sx4, neighbour)?;
    // And where the VM runs already: whatever fails, it goes on running.
    let again = proof::prove::<Handler>(params(1), Profile::H100x8, resident)?;
    Ok(proof::sum(proof::sum(one, two), again))
}

pub(in crate::tasks) fn params(slots: u32) -> Params {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    let profile = if slots == 1 { Profile::H100x8 } else { Profile::L40sx4 };
    Params {
        allocation_id: uuid::Uuid::from_u128(1).into(),
        vm_name: "ada-vm".parse().expect("a plain word"),
        default_username: "ada".parse().expect("a plain word"),
        image_path: "debian-12.qcow2".parse().expect("a file name"),
        image_sha256: Sha256::of(b"an image"),
        image_size_bytes: DISK_BYTES / 2,
        image_format: ImageFormat::Qcow2,
        image_url: None,
        image_trusted: true,
        driver_strategy: DriverStrategy::Preinstalled,
        ssh_public_keys: vec![key.parse().expect("a well-formed key")],
        ovs_bridge: "br-slices".parse().expect("a plain word"),
        graceful_timeout_seconds: 30,
        readiness_timeout_seconds: 60,
        slots: (0..slots).map(|index| slot(profile, index)).collect(),
    }
}

/// The n-th slot that such a machine offers.
pub(in crate::tasks) fn slot(profile: Profile, index: u32) -> Slot {
    let hardware = Pretend::in_memory(profile).snapshot().hardware;
    let at = index as usize;
    let gpu = hardware
        .functions
        .values()
        .filter(|f| f.is_gpu())
        .nth(at)
        .expect("a GPU");
    let fabric = hardware
        .functions
        .values()
        .filter(|f| f.is_fabric() && f.physical_function.is_some())
        .nth(at);
    let free = |disk: &&host::pretend::PretendDisk| disk.disk.in_use_by.is_empty();
    let disk = &hardware.disks.values().filter(free).nth(at).expect("a disk").disk;
    Slot {
        slot_id: uuid::Uuid::from_u128(0x51 + u128::from(index)).into(),
        slot_index: index,
        pci_address: gpu.pci,
        fabric_device: fabric.map(|f| f.pci),
        nvme_device: disk.identity.by_id.clone(),
        nvme_serial: disk.identity.serial.clone(),
        nvme_wwn: disk.identity.wwn.clone(),
        nvme_size_bytes: DISK_BYTES,
        numa_node: gpu.numa_node.unwrap_or(0),
        vcpu_count: 12,
        memory_mib: 65_536,
        mac_address: format!("02:00:00:00:00:{index:02x}").parse().expect("an address"),
        private_ip: std::net::Ipv4Addr::new(10, 77, 0, u8::try_from(10 + index).expect("small")),
    }
}

/// The tenant's VM of one slot, whole and running, beside the neighbour.
pub(in crate::tasks) fn resident(state: &mut State) {
    neighbour(state);
    let (params, op) = (params(1), uuid::Uuid::from_u128(0xa1).into());
    let (vm, slot, allocation) = (params.vm_name, &params.slots[0], params.allocation_id);
    let owner = Owner {
        allocation,
        op,
        epoch: 1,
    };
    let devices: Vec<Pci> = slot.devices().collect();
    let plug = Plug {
        vm: vm.clone(),
        allocation,
        slot_index: slot.slot_index,
    };
    let machine = Machine {
        name: vm.clone(),
        allocation,
        op,
        parts: vec![Part {
            numa_node: slot.numa_node,
            vcpus: slot.vcpu_count,
            memory_mib: slot.memory_mib,
            disk: slot.nvme_device.clone(),
            devices: devices.clone(),
        }],
        seed: format!("/var/lib/gpuaas/seeds/{vm}.iso").into(),
        interface: plug.interface(),
        mac: slot.mac_address,
    };
    let hardware = &mut state.hardware;
    for group in devices
        .iter()
        .filter_map(|pci| hardware.functions.get(pci)?.iommu_group)
    {
        let holder = Holder {
            pid: 4711,
            program: "qemu-system-x86".to_owned(),
            domain: Some(vm.to_string()),
        };
        hardware.holders.insert(group, vec![holder]);
    }
    if let Some(disk) = hardware.disks.get_mut(&slot.nvme_device) {
        disk.written.insert(format!("image/{}", params.image_sha256));
        disk.written.insert(format!("tenant/{allocation}"));
    }
    let (bridge, mac, ip) = (params.ovs_bridge, slot.mac_address, slot.private_ip);
    let port = Port { plug, bridge, mac, ip };
    let kept = Kept {
        machine: machine.clone(),
        port: port.clone(),
        slots: vec![slot.slot_id],
        since: Timestamp::from_millis(1_700_000_000_000),
        power: Power::Running,
        boot_id: "pretend-0".to_owned(),
    };
    let dir = Dir {
        allocation,
        baseline: devices
            .iter()
            .map(|pci| (*pci, hardware.vbios.get(pci).copied()))
            .collect(),
        has_keys: true,
        seed: Some((params.default_username.to_string(), params.ssh_public_keys.len())),
        has_seed_image: true,
        kept: Some(Box::new(kept)),
    };
    let slicing = &mut state.slicing;
    slicing.leases.insert(slot.slot_id, owner);
    slicing.dirs.insert(vm.to_string(), dir);
    slicing
        .telemetry
        .insert(vm.to_string(), (allocation, slot.mac_address, slot.private_ip));
    slicing.ports.insert(vm.to_string(), port);
    let running = true;
    slicing
        .machines
        .insert(vm.to_string(), PretendMachine { machine, running });
}

/// Somebody has the third slot, and must not notice. What no slot here has is left out: every call copies the machine.
pub(in crate::tasks) fn neighbour(state: &mut State) {
    let hardware = &mut state.hardware;
    let gpus: Vec<Pci> = hardware
        .functions
        .values()
        .filter(|f| f.is_gpu())
        .map(|f| f.pci)
        .collect();
    let fabric = hardware
        .functions
        .values()
        .filter(|f| f.is_fabric() && f.physical_function.is_some());
    let kept: Vec<Pci> = gpus.into_iter().take(3).chain(fabric.map(|f| f.pci).take(3)).collect();
    hardware
        .functions
        .retain(|pci, _| kept.iter().any(|kept| kept.same_device(*pci)));
    hardware.vbios.retain(|pci, _| kept.contains(pci));
    let mut free = 0;
    hardware.disks.retain(|_, disk| {
        free += u32::from(disk.disk.in_use_by.is_empty());
        disk.disk.identity.size_bytes = DISK_BYTES;
        disk.disk.in_use_by.is_empty() && free <= 3
    });
    let owner = Owner {
        allocation: uuid::Uuid::from_u128(2).into(),
        op: uuid::Uuid::from_u128(3).into(),
        epoch: 1,
    };
    state.slicing.leases.insert(uuid::Uuid::from_u128(0x53).into(), owner);
}
