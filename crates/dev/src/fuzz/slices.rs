//! Honest tasks of slices, to be attacked.

use std::net::Ipv4Addr;

use model::digest::Sha256;
use model::id::AllocationId;
use model::task::slot::Slot;
use model::task::{vm_power, vm_provision, vm_release};
use model::value::Nonce;
use uuid::Uuid;

use super::house::KEY;

fn slot() -> Slot {
    Slot {
        slot_id: Uuid::from_u128(7).into(),
        slot_index: 0,
        pci_address: "0000:18:00.0".parse().expect("a function"),
        fabric_device: Some("0000:19:00.1".parse().expect("a function")),
        nvme_device: "nvme-eui.0025385b21404e3d".parse().expect("a disk"),
        nvme_serial: "S6CKNT0W000000".parse().expect("a serial number"),
        nvme_wwn: "eui.0025385b21404e3d".parse().expect("a name"),
        nvme_size_bytes: 3_840_755_982_336,
        numa_node: 0,
        vcpu_count: 12,
        memory_mib: 65_536,
        mac_address: "02:11:22:33:44:55".parse().expect("an address"),
        private_ip: Ipv4Addr::new(10, 100, 0, 10),
    }
}

pub(super) fn provision(allocation_id: AllocationId) -> vm_provision::Params {
    vm_provision::Params {
        allocation_id,
        vm_name: "vm-a".parse().expect("a name"),
        default_username: "ubuntu".parse().expect("a name"),
        image_path: "ubuntu-24.04.qcow2".parse().expect("a file name"),
        image_sha256: Sha256::of(b"an image"),
        image_size_bytes: 600 << 20,
        image_format: vm_provision::ImageFormat::Qcow2,
        image_url: Some("https://images.example/ubuntu-24.04.qcow2".to_owned()),
        image_trusted: false,
        driver_strategy: vm_provision::DriverStrategy::CloudInit,
        ssh_public_keys: vec![KEY.parse().expect("a key")],
        ovs_bridge: "br-slice".parse().expect("a name"),
        graceful_timeout_seconds: 120,
        readiness_timeout_seconds: 900,
        slots: vec![slot()],
    }
}

pub(super) fn release(allocation_id: AllocationId) -> vm_release::Params {
    vm_release::Params {
        allocation_id,
        vm_name: "vm-a".parse().expect("a name"),
        slots: vec![slot()],
        graceful_timeout_seconds: 120,
        wipe: true,
        release_nonce: Nonce::from_bytes([9; 32]),
    }
}

pub(super) fn power(allocation_id: AllocationId) -> vm_power::Params {
    vm_power::Params {
        allocation_id,
        vm_name: "vm-a".parse().expect("a name"),
        action: vm_power::Action::Reboot,
        graceful_timeout_seconds: 120,
    }
}
