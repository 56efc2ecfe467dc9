//! `diag.health_probe`: looks at the host and at our own state. Changes nothing; has nothing to undo.

use host::pretend::Profile;
use model::task::health_probe::{Output, Params};
use steps::{Complaints, Context, Fail, Proof, Report, Step, Table, nothing};

use super::{Surroundings, failed, proof};
use crate::disk;

pub(super) struct Handler;

pub(super) struct Probe {
    around: Surroundings,
    seen: Option<Output>,
}

impl Context for Probe {
    type Facts = Option<Output>;
    fn facts(&self) -> Self::Facts {
        self.seen.clone()
    }
    fn restore(&mut self, seen: Self::Facts) {
        self.seen = seen;
    }
}

const STEPS: &[Step<Probe>] = &[Step {
    name: "look",
    run: look,
    undo: nothing,
}];

impl super::Handler for Handler {
    type Params = Params;
    type Context = Probe;
    type Output = Output;
    const TABLE: Table<Probe> = Table::with_way_back(STEPS);

    fn context(_: &Params, around: &Surroundings) -> Probe {
        Probe {
            around: around.clone(),
            seen: None,
        }
    }

    fn output(context: &Probe, _: &Report) -> Option<Output> {
        context.seen.clone()
    }

    fn proof() -> Result<Proof, Complaints> {
        proof::prove::<Self>(Params {}, Profile::H100x8, |_| ())
    }
}

fn look(probe: &mut Probe) -> Result<(), Fail> {
    let Surroundings {
        host,
        state_dir,
        journal_used_pct,
        clock_skew_ms,
        ..
    } = &probe.around;
    let facts = &host.facts;
    probe.seen = Some(Output {
        kernel_version: facts.kernel_version().map_err(failed)?,
        free_memory_mib: facts.free_memory_mib().map_err(failed)?,
        kvm_present: facts.kvm_present().map_err(failed)?,
        vfio_modules: facts.vfio_modules().map_err(failed)?,
        gpus: facts.gpus().map_err(failed)?,
        fabric_links: facts.fabric_links().map_err(failed)?,
        root_free_bytes: facts.root_free_bytes().map_err(failed)?,
        state_writable: disk::writable(state_dir),
        journal_used_pct: *journal_used_pct,
        clock_skew_ms: *clock_skew_ms,
    });
    Ok(())
}
