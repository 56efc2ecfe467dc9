//! The tasks of a slice and the directories that they start from: a node that had such a guest before, and one that has
//! it now.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use host::pretend::Pretend;
use model::digest::Sha256;
use model::task::slot::Slot;
use model::task::vm_provision::{DriverStrategy, ImageFormat};
use model::task::{Task, vm_power, vm_provision, vm_release};
use model::value::Nonce;

use super::legs::{KEY, Maker};

/// With the image in its store and the devices where they rest, so that a way back leads to where it began.
pub(super) fn provision_again(maker: &Maker) -> (Task, PathBuf) {
    let params = params(maker);
    let (come, go) = (Task::VmProvision(params.clone()), released(&params));
    let template = maker.after(&[&come, &go]);
    (come, template)
}

pub(super) fn release(maker: &Maker) -> (Task, PathBuf) {
    let params = params(maker);
    (released(&params), maker.after(&[&Task::VmProvision(params.clone())]))
}

pub(super) fn power(maker: &Maker) -> (Task, PathBuf) {
    let params = params(maker);
    let task = Task::VmPower(vm_power::Params {
        allocation_id: params.allocation_id,
        vm_name: params.vm_name.clone(),
        action: vm_power::Action::Stop,
        graceful_timeout_seconds: 30,
    });
    (task, maker.after(&[&Task::VmProvision(params)]))
}

fn released(params: &vm_provision::Params) -> Task {
    Task::VmRelease(vm_release::Params {
        allocation_id: params.allocation_id,
        vm_name: params.vm_name.clone(),
        slots: params.slots.clone(),
        graceful_timeout_seconds: 30,
        wipe: true,
        release_nonce: Nonce::from_bytes([7; 32]),
    })
}

fn params(maker: &Maker) -> vm_provision::Params {
    vm_provision::Params {
        allocation_id: maker.allocation,
        vm_name: "ada-vm".parse().expect("a name"),
        default_username: "ada".parse().expect("a name"),
        image_path: "debian-12.qcow2".parse().expect("a file name"),
        image_sha256: Sha256::of(b"an image"),
        image_size_bytes: 1 << 20,
        image_format: ImageFormat::Qcow2,
        image_url: None,
        image_trusted: true,
        driver_strategy: DriverStrategy::Preinstalled,
        ssh_public_keys: vec![KEY.parse().expect("a key")],
        ovs_bridge: "br-slices".parse().expect("a name"),
        graceful_timeout_seconds: 30,
        readiness_timeout_seconds: 60,
        slots: vec![slot(maker)],
    }
}

fn slot(maker: &Maker) -> Slot {
    let hardware = Pretend::in_memory(maker.profile).snapshot().hardware;
    let gpu = hardware.functions.values().find(|f| f.is_gpu()).expect("a GPU");
    let free = hardware.disks.values().find(|disk| disk.disk.in_use_by.is_empty());
    let disk = &free.expect("a disk").disk.identity;
    Slot {
        slot_id: uuid::Uuid::from_u128(0x51).into(),
        slot_index: 0,
        pci_address: gpu.pci,
        fabric_device: None,
        nvme_device: disk.by_id.clone(),
        nvme_serial: disk.serial.clone(),
        nvme_wwn: disk.wwn.clone(),
        nvme_size_bytes: disk.size_bytes,
        numa_node: gpu.numa_node.unwrap_or(0),
        vcpu_count: 12,
        memory_mib: 65_536,
        mac_address: "02:00:00:00:00:51".parse().expect("an address"),
        private_ip: Ipv4Addr::new(10, 77, 0, 10),
    }
}
