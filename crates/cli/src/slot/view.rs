//! What is shown of slots, of their proofs, and of what stands in their way.

use crate::output::column::{Kind, View, col, extra, piped};

pub(crate) const VIEW: View = View {
    columns: &[
        col("id", "id", Kind::Id),
        col("node", "node_name", Kind::Named),
        col("index", "slot_index", Kind::Text),
        col("state", "state", Kind::Text),
        col("for", "state_since", Kind::Since),
        col("gpu", "pci_address", Kind::Text),
        col("disk", "nvme_serial", Kind::Text),
        col("size", "nvme_size_bytes", Kind::Bytes),
        col("fabric", "fabric_device", Kind::Text),
        col("numa", "numa_node", Kind::Text),
        col("wiped", "wiped_at", Kind::Since),
        col("fault", "fault.code", Kind::Text),
        piped("simulated", "simulated", Kind::Text),
        extra("fault_detail", "fault.detail", Kind::Text),
        extra("fault_for", "fault.since", Kind::Since),
        extra("reason", "state_reason", Kind::Text),
        extra("allocation_id", "allocation_id", Kind::Id),
        extra("dirty_op", "dirty_op", Kind::Id),
        extra("quarantine", "quarantine.code", Kind::Text),
        extra("quarantine_why", "quarantine.reason", Kind::Text),
        extra("vm", "held.vm_name", Kind::Text),
        extra("vm_power", "held.power", Kind::Text),
        extra("vm_age", "held.since", Kind::Since),
        extra("vm_seen", "held.at", Kind::Since),
        extra("guest_cpu_pct", "telemetry.numbers.cpu_pct", Kind::Text),
        extra("guest_memory_used", "telemetry.numbers.memory_used_mib", Kind::Mib),
        extra("guest_gpu_pct", "telemetry.numbers.gpus.utilization_pct", Kind::Text),
        extra("guest_said", "telemetry.at", Kind::Since),
        extra("disk_name", "nvme_device", Kind::Text),
        extra("disk_wwn", "nvme_wwn", Kind::Text),
        extra("vcpus", "vcpu_count", Kind::Text),
        extra("memory", "memory_mib", Kind::Mib),
        extra("mac", "mac_address", Kind::Text),
        extra("private_ip", "private_ip", Kind::Text),
        extra("gpu_driver", "gpu.driver", Kind::Text),
        extra("root_complex", "gpu.root_complex", Kind::Text),
        extra("iommu_group", "gpu.iommu_group", Kind::Text),
        extra("reset_method", "gpu.reset_method", Kind::Text),
        extra("vbios", "gpu.vbios_sha256", Kind::Text),
        extra("approved_reset", "approved_gpu.reset_method", Kind::Text),
        extra("approved_vbios", "approved_gpu.vbios_sha256", Kind::Text),
        extra("approved", "approved_at", Kind::Since),
        extra("approved_by", "approved_by", Kind::Text),
        extra("seen", "seen_at", Kind::Since),
        extra("node_id", "node_id", Kind::Id),
        extra("version", "version", Kind::Text),
    ],
    key: "id",
};

pub(crate) const PROOFS: View = View {
    columns: &[
        col("kind", "kind", Kind::Text),
        col("subject", "subject", Kind::Text),
        col("clean", "clean", Kind::Text),
        col("age", "at", Kind::Since),
        col("task", "task_id", Kind::Id),
        extra("op_id", "op_id", Kind::Id),
        extra("slot_id", "slot_id", Kind::Id),
        extra("proof", "proof", Kind::Text),
    ],
    key: "task_id",
};

/// A slot as a discovery proposes it.
pub(crate) const CANDIDATES: View = View {
    columns: &[
        col("index", "slot_index", Kind::Text),
        col("gpu", "pci_address", Kind::Text),
        col("disk", "nvme_serial", Kind::Text),
        col("size", "nvme_size_bytes", Kind::Bytes),
        col("fabric", "fabric_device", Kind::Text),
        col("numa", "numa_node", Kind::Text),
        col("address", "private_ip", Kind::Text),
        col("schedulable", "schedulable", Kind::Text),
    ],
    key: "pci_address",
};
