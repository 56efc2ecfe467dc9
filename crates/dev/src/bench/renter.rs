//! Tasks of a slice as the control plane would sign them, each pair for an allocation of its own on the same slot.

use std::net::Ipv4Addr;

use anyhow::Context;
use base::Clock;
use fleet::Fleet;
use host::pretend::{Pretend, Profile};
use model::digest::Sha256;
use model::envelope::TaskPayload;
use model::id::{AllocationId, NodeId, derive_op, derive_task};
use model::socket::FromAgent;
use model::task::slot::Slot;
use model::task::vm_provision::{DriverStrategy, ImageFormat};
use model::task::{Task, vm_provision, vm_release};
use model::trust::Purpose;
use model::value::Nonce;

use super::stand::Stand;

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

pub(super) struct Renter {
    fleet: Fleet,
    node: NodeId,
    /// Counted from far above what the platform itself has asked for.
    seq: u64,
}

impl Renter {
    pub(super) async fn new(stand: &Stand, node: NodeId) -> anyhow::Result<Self> {
        let fleet = Fleet::open(stand.platform.apps[0].clone(), Default::default()).await?;
        let seq = 1_000_000;
        Ok(Self { fleet, node, seq })
    }

    /// One that brings a VM and one that takes it away.
    pub(super) fn tasks(&mut self) -> anyhow::Result<(FromAgent, FromAgent)> {
        let params = params()?;
        let release = Task::VmRelease(vm_release::Params {
            allocation_id: params.allocation_id,
            vm_name: params.vm_name.clone(),
            slots: params.slots.clone(),
            graceful_timeout_seconds: 30,
            wipe: true,
            release_nonce: Nonce::from_bytes([7; 32]),
        });
        let allocation = params.allocation_id;
        Ok((
            self.offer(allocation, &Task::VmProvision(params))?,
            self.offer(allocation, &release)?,
        ))
    }

    fn offer(&mut self, allocation: AllocationId, task: &Task) -> anyhow::Result<FromAgent> {
        self.seq += 1;
        let (spec, now) = (task.task_type().spec(), Clock::real().now());
        let op_id = derive_op(allocation, spec.name, 1);
        let payload = TaskPayload {
            v: 1,
            aud: self.fleet.app.installation,
            task_id: derive_task(op_id, 0),
            op_id,
            intent_sha256: Some(Sha256::of(b"an intent")),
            node_id: self.node,
            node_epoch: 1,
            seq: self.seq,
            task_type: spec.name.to_owned(),
            type_version: spec.version,
            issued_at: now,
            start_by: now.plus_s(600),
            max_runtime_s: spec.max_runtime_s,
            actor_ref: "system:bench".to_owned(),
            correlation_id: op_id.uuid(),
            params: task.params(),
        };
        let keyring = self.fleet.keyring();
        let key = keyring.task_key(Purpose::Slice).context("no key for slices")?;
        Ok(FromAgent::Offer {
            task_id: payload.task_id,
            fence: self.seq,
            envelope: payload.sign(key),
            server_time: now,
        })
    }
}

fn params() -> anyhow::Result<vm_provision::Params> {
    Ok(vm_provision::Params {
        allocation_id: AllocationId::new(),
        vm_name: "bench-vm".parse()?,
        default_username: "ada".parse()?,
        image_path: "debian-12.qcow2".parse()?,
        image_sha256: Sha256::of(b"an image"),
        image_size_bytes: 1 << 20,
        image_format: ImageFormat::Qcow2,
        image_url: None,
        image_trusted: true,
        driver_strategy: DriverStrategy::Preinstalled,
        ssh_public_keys: vec![KEY.parse()?],
        ovs_bridge: "br-slices".parse()?,
        graceful_timeout_seconds: 30,
        readiness_timeout_seconds: 60,
        slots: vec![slot()?],
    })
}

fn slot() -> anyhow::Result<Slot> {
    let hardware = Pretend::in_memory(Profile::H100x8).snapshot().hardware;
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
