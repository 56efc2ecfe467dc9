//! `slice.topology_discover`: which slots this host could have, and all that stands in the way, each with what it is,
//! whose, how it was seen and what to type against it. Looks only; proposes and never decides. More than it can carry
//! home is refused, not cut.

mod device_checks;
mod found;
mod host_checks;
mod pairing;
mod seen;

use host::Host;
use host::pretend::Profile;
use model::id::NodeId;
use model::signal::Code;
use model::task::topology_discover::{
    CandidateSlot, CandidateSummary, FabricDevice, GpuDevice, MEMORY_MIB, NvmeDevice, Output, Params, VCPU_COUNT,
};
use model::value::MacAddress;
use steps::{Complaints, Context, Fail, Proof, Report, Step, Table, nothing};

use super::{Surroundings, fail, proof};
use crate::policy::SlicePolicy;
use found::Found;
use pairing::Pair;
use seen::Seen;

/// GPUs, disks and functions of the fabric together.
const MOST_DEVICES: usize = 1024;
const MOST_NUMA_NODES: usize = 64;
/// A signed result carries 256 KiB as base64, and some of it is not ours.
const MOST_OUTPUT_BYTES: usize = 180 << 10;

pub(super) struct Handler;

pub(super) struct Discovery {
    around: Surroundings,
    seen: Option<Output>,
}

impl Context for Discovery {
    type Facts = Option<Output>;
    fn facts(&self) -> Self::Facts {
        self.seen.clone()
    }
    fn restore(&mut self, seen: Self::Facts) {
        self.seen = seen;
    }
}

const STEPS: &[Step<Discovery>] = &[Step {
    name: "look",
    run: look,
    undo: nothing,
}];

impl super::Handler for Handler {
    type Params = Params;
    type Context = Discovery;
    type Output = Output;
    const TABLE: Table<Discovery> = Table::with_way_back(STEPS);

    fn context(_: &Params, around: &Surroundings) -> Discovery {
        Discovery {
            around: around.clone(),
            seen: None,
        }
    }

    fn output(context: &Discovery, _: &Report) -> Option<Output> {
        context.seen.clone()
    }

    fn proof() -> Result<Proof, Complaints> {
        proof::prove::<Self>(Params {}, Profile::L40sx4, |_| ())
    }
}

fn look(discovery: &mut Discovery) -> Result<(), Fail> {
    let Surroundings {
        host, node_id, slices, ..
    } = &discovery.around;
    discovery.seen = Some(discover(host, *node_id, slices)?);
    Ok(())
}

/// Everything but the journal and the signature.
pub fn discover(host: &Host, node: NodeId, slices: &SlicePolicy) -> Result<Output, Fail> {
    let seen = Seen::look(host, slices)?;
    within_limits(&seen)?;
    let mut found = Found::default();
    host_checks::check(&seen, slices, &mut found);
    let pairs = pairing::pair(&seen, &mut found);
    device_checks::check(&seen, &pairs, &mut found);
    let candidate_slots = slots(&pairs, node, slices, &mut found);
    let output = Output {
        prerequisites: host_checks::prerequisites(&seen),
        gpu_devices: gpus(&seen),
        fabric_devices: fabric(&seen),
        nvme_devices: disks(&seen),
        candidate_summary: summary(&candidate_slots, found),
        candidate_slots,
        approval_required: true,
    };
    let bytes = serde_json::to_vec(&output).map_or(usize::MAX, |bytes| bytes.len());
    if bytes > MOST_OUTPUT_BYTES {
        let why = format!("the answer would have {bytes} bytes; a result carries {MOST_OUTPUT_BYTES}");
        return Err(fail(Code::TopologyTooLarge, why));
    }
    Ok(output)
}

fn within_limits(seen: &Seen) -> Result<(), Fail> {
    let devices = seen.gpus().count() + seen.fabric().count() + seen.disks.disks.len();
    let nodes = seen.numa_nodes();
    if devices > MOST_DEVICES || nodes > MOST_NUMA_NODES {
        let why = format!(
            "the host has {devices} devices on {nodes} NUMA nodes; up to {MOST_DEVICES} on {MOST_NUMA_NODES} are taken"
        );
        return Err(fail(Code::TopologyTooLarge, why));
    }
    Ok(())
}

/// A slot needs an address; without a network there are none, and a blocker says so.
fn slots(pairs: &[Pair<'_>], node: NodeId, slices: &SlicePolicy, found: &mut Found) -> Vec<CandidateSlot> {
    let Some(network) = slices.cidr else { return Vec::new() };
    let mut slots = Vec::new();
    for pair in pairs {
        let Some(disk) = pair.disk else { continue };
        let Some(private_ip) = network.of_slot(pair.slot_index) else {
            let detail = format!("{network} has no address for slot {}", pair.slot_index);
            found.blocks(
                pair.gpu.pci,
                Code::SliceCidrFull,
                detail,
                "set a larger slice_cidr in /etc/gpuaas/node.toml",
            );
            continue;
        };
        let id = &disk.identity;
        slots.push(CandidateSlot {
            slot_index: pair.slot_index,
            pci_address: pair.gpu.pci,
            fabric_device: pair.fabric.map(|function| function.pci),
            nvme_device: id.by_id.clone(),
            nvme_serial: id.serial.clone(),
            nvme_wwn: id.wwn.clone(),
            nvme_size_bytes: id.size_bytes,
            numa_node: pair.gpu.numa_node,
            vcpu_count: VCPU_COUNT,
            memory_mib: MEMORY_MIB,
            mac_address: MacAddress::of_slot(node, pair.slot_index),
            private_ip,
            schedulable: !found.blocks_gpu(pair.gpu.pci),
        });
    }
    slots
}

fn summary(slots: &[CandidateSlot], found: Found) -> CandidateSummary {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let (blockers, warnings) = found.sorted();
    CandidateSummary {
        slots: count(slots.len()),
        schedulable: count(slots.iter().filter(|slot| slot.schedulable).count()),
        blockers,
        warnings,
    }
}

fn gpus(seen: &Seen) -> Vec<GpuDevice> {
    let gpu = |function: &host::Function| GpuDevice {
        pci_address: function.pci,
        model: Some(model::gpu::name_of(function.vendor, function.device)),
        iommu_group: function.iommu_group,
        group_members: seen.group(function).iter().map(|member| member.pci).collect(),
        numa_node: function.numa_node,
        root_complex: function.root_complex.clone(),
        driver: function.driver.clone(),
        reset_method: function.reset_methods.clone(),
        vbios_sha256: seen.roms.get(&function.pci).copied().flatten(),
    };
    seen.gpus().map(gpu).collect()
}

fn fabric(seen: &Seen) -> Vec<FabricDevice> {
    let device = |function: &host::Function| FabricDevice {
        pci_address: function.pci,
        is_vf: function.physical_function.is_some(),
    };
    seen.fabric().map(device).collect()
}

fn disks(seen: &Seen) -> Vec<NvmeDevice> {
    let device = |disk: &host::Disk| NvmeDevice {
        by_id: disk.identity.by_id.clone(),
        serial: disk.identity.serial.clone(),
        wwn: disk.identity.wwn.clone(),
        size_bytes: disk.identity.size_bytes,
        in_use_by: disk.in_use_by.clone(),
    };
    seen.disks.disks.iter().map(device).collect()
}
