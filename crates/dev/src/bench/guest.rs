//! A guest as an executor tells of it.

use std::collections::BTreeMap;

use anyhow::Context;
use model::task::vm_provision::{self, ConsoleModel, Output, Performance, Readiness};

/// What an executor says of a guest that has all it was promised.
pub(super) fn guest(params: &vm_provision::Params) -> anyhow::Result<Output> {
    let slot = params.slots.first().context("a slot")?;
    Ok(Output {
        vm_name: params.vm_name.clone(),
        default_user: params.default_username.clone(),
        private_ip: slot.private_ip,
        ssh_port: 22,
        slot_count: 1,
        readiness: Readiness {
            host_key_pinned: true,
            marker_seen: true,
            took_ms: 1,
        },
        performance: Performance {
            gpus: 1,
            fabric_devices: 1,
            disks: 1,
            memory_mib: slot.memory_mib,
            vcpus: slot.vcpu_count,
            warnings: Vec::new(),
        },
        timings: BTreeMap::new(),
        raw_vnc: false,
        console_model: ConsoleModel::GatewayRequired,
    })
}
