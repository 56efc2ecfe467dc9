//! What somebody who rents a slice asks for, in one place: good enough for every pretended host, and for no real one.

use std::net::Ipv4Addr;

use anyhow::Context;
use host::pretend::{Pretend, Profile};
use model::digest::Sha256;
use model::id::AllocationId;
use model::task::slot::Slot;
use model::task::vm_provision::{DriverStrategy, ImageFormat};
use model::task::{Task, vm_provision, vm_release};
use model::value::Nonce;

/// Nobody has its other half.
pub const SSH_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

/// A VM on these slots, of an image that the host is told to believe.
pub fn wish(allocation: AllocationId, slots: Vec<Slot>) -> anyhow::Result<vm_provision::Params> {
    Ok(vm_provision::Params {
        allocation_id: allocation,
        vm_name: "ada-vm".parse()?,
        default_username: "ada".parse()?,
        image_path: "debian-12.qcow2".parse()?,
        image_sha256: Sha256::of(b"an image"),
        image_size_bytes: 1 << 20,
        image_format: ImageFormat::Qcow2,
        image_url: None,
        image_trusted: true,
        driver_strategy: DriverStrategy::Preinstalled,
        ssh_public_keys: vec![SSH_KEY.parse()?],
        ovs_bridge: "br-slices".parse()?,
        graceful_timeout_seconds: 30,
        readiness_timeout_seconds: 60,
        slots,
    })
}

/// The way back of such a wish.
pub fn release(wish: &vm_provision::Params) -> Task {
    Task::VmRelease(vm_release::Params {
        allocation_id: wish.allocation_id,
        vm_name: wish.vm_name.clone(),
        slots: wish.slots.clone(),
        graceful_timeout_seconds: wish.graceful_timeout_seconds,
        wipe: true,
        release_nonce: Nonce::from_bytes([7; 32]),
    })
}

/// The first GPU and the first free disk of such a host.
pub fn slot(profile: Profile) -> anyhow::Result<Slot> {
    let hardware = Pretend::in_memory(profile).snapshot().hardware;
    let gpu = hardware.functions.values().find(|f| f.is_gpu()).context("a GPU")?;
    let mut disks = hardware.disks.values();
    let free = disks.find(|disk| disk.disk.in_use_by.is_empty());
    let disk = &free.context("a disk")?.disk.identity;
    Ok(Slot {
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
        mac_address: "02:00:00:00:00:51".parse()?,
        private_ip: Ipv4Addr::new(10, 77, 0, 10),
    })
}
