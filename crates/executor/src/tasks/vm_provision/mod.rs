//! `slice.vm_provision`: seventeen phases from a lease to a guest that answers. The order is a promise: nothing before
//! `image_write_convert` touches a disk, and nothing before `virt_install` a device. What it could not finish it takes
//! away again, with proofs for whatever a guest may have had.

mod domain;
mod guest;
mod image;
mod prepare;
pub(super) mod proof;
mod source;

use std::collections::BTreeMap;

use host::Baseline;
use model::id::SlotId;
use model::outcome::Proofs;
use model::proof::{ResetProof, WipeProof};
use model::task::vm_provision::{ConsoleModel, Output, Params, Performance, Readiness};
use model::value::Pci;
use serde::{Deserialize, Serialize};
use steps::{Complaints, Context, Proof, Report, Step, Table, nothing};

use super::Surroundings;
use super::slice::Hold;
use crate::policy::SlicePolicy;
pub(crate) use source::Sources;

pub(super) struct Handler;

pub(super) struct Provision {
    hold: Hold,
    params: Params,
    policy: SlicePolicy,
    sources: Sources,
    facts: Facts,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Facts {
    /// The operation's VM was there before this task began.
    stood: bool,
    /// The functions that go to the guest, by slot.
    functions: BTreeMap<SlotId, Vec<Pci>>,
    baseline: Baseline,
    readiness: Option<Readiness>,
    performance: Option<Performance>,
    /// Of the way back.
    wipe: Vec<WipeProof>,
    reset: Vec<ResetProof>,
}

impl Context for Provision {
    type Facts = Facts;
    fn facts(&self) -> Facts {
        self.facts.clone()
    }
    fn restore(&mut self, facts: Facts) {
        self.facts = facts;
    }
}

/// The first phase that touches a disk.
const WRITES: &str = "image_write_convert";

#[rustfmt::skip]
const STEPS: &[Step<Provision>] = &[
    Step { name: "lease_acquire",            run: prepare::lease,        undo: prepare::no_lease },
    Step { name: "host_dependencies",        run: prepare::dependencies, undo: nothing },
    Step { name: "host_passthrough_check",   run: prepare::passthrough,  undo: nothing },
    Step { name: "vfio_bind_check",          run: prepare::vfio,         undo: nothing }, // bound is the resting state
    Step { name: "image_stat_download",      run: image::store,          undo: nothing }, // a file without a name leaves nothing
    Step { name: "image_digest_verify",      run: image::verify,         undo: nothing },
    Step { name: "cloud_init_dir",           run: guest::dir,            undo: guest::no_dir },
    Step { name: "terminal_key",             run: guest::keys,           undo: nothing }, // in the directory
    Step { name: "guest_telemetry_register", run: guest::telemetry,      undo: guest::no_telemetry },
    Step { name: "cloud_init_seed_files",    run: guest::seed_files,     undo: nothing },
    Step { name: "cloud_localds",            run: guest::seed_image,     undo: nothing },
    Step { name: "runtime_validate",         run: prepare::validate,     undo: nothing },
    Step { name: "dhcp_reservation",         run: domain::port,          undo: domain::no_port },
    Step { name: WRITES,                     run: image::write,          undo: image::wipe },
    Step { name: "virt_install",             run: domain::start,         undo: domain::gone },
    Step { name: "readiness",                run: guest::ready,          undo: nothing },
    Step { name: "performance_probe",        run: guest::complete,       undo: nothing },
];

impl super::Handler for Handler {
    type Params = Params;
    type Context = Provision;
    type Output = Output;
    const TABLE: Table<Provision> = Table::with_way_back(STEPS);

    fn context(params: &Params, around: &Surroundings) -> Provision {
        Provision {
            hold: Hold::new(around, params.allocation_id, &params.vm_name, &params.slots, None),
            params: params.clone(),
            policy: around.slices.clone(),
            sources: around.sources.clone(),
            facts: Facts::default(),
        }
    }

    fn output(context: &Provision, report: &Report) -> Option<Output> {
        let timings = report.timings_ms().into_iter();
        Some(Output {
            vm_name: context.params.vm_name.clone(),
            default_user: context.params.default_username.clone(),
            private_ip: context.hold.slots.first()?.private_ip,
            ssh_port: 22,
            slot_count: u32::try_from(context.hold.slots.len()).ok()?,
            readiness: context.facts.readiness.clone()?,
            performance: context.facts.performance.clone()?,
            timings: timings.map(|(step, ms)| (format!("{step}_ms"), ms)).collect(),
            raw_vnc: false,
            console_model: ConsoleModel::GatewayRequired,
        })
    }

    /// Whatever phase was begun is among the moves: it ended, or it was undone.
    fn proofs(context: &Provision, report: &Report) -> Option<Proofs> {
        Some(Proofs {
            disk_untouched: !report.moves.iter().any(|ended| ended.step == WRITES),
            wipe: context.facts.wipe.clone(),
            reset: context.facts.reset.clone(),
        })
    }

    fn proof() -> Result<Proof, Complaints> {
        proof::prove()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_phases_are_those_that_people_read() {
        let names: Vec<&str> = super::STEPS.iter().map(|step| step.name).collect();
        let phases: Vec<&str> = model::task::vm_provision::PHASES.iter().map(|phase| phase.name).collect();
        assert_eq!(names, phases);
    }
}
