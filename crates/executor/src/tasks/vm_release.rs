//! `slice.vm_release`: the VM ends, its devices are reset, its disks wiped, and only then is a slot free. Forward only:
//! where something cannot be proved it stops and the lease stays, for nobody must get that slot. A slot without a lease
//! is leased first, so that nobody comes in between.

use std::time::Duration;

use host::pretend::{Profile, State};
use model::outcome::Proofs;
use model::proof::{ResetProof, WipeProof};
use model::signal::Code;
use model::task::vm_release::{Absent, Output, Params};
use model::value::Nonce;
use serde::{Deserialize, Serialize};
use steps::{Complaints, Context, Fail, Proof, Report, Step, Table, nothing};

use super::slice::{Begun, Hold};
use super::{Surroundings, fail, failed, proof, vm_provision};

pub(super) struct Handler;

pub(super) struct Release {
    hold: Hold,
    wait: Duration,
    facts: Facts,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Facts {
    hard_stopped: bool,
    absent: Option<Absent>,
    reset: Vec<ResetProof>,
    begun: Vec<Begun>,
    wipe: Vec<WipeProof>,
    leases_released: u32,
}

impl Context for Release {
    type Facts = Facts;
    fn facts(&self) -> Facts {
        self.facts.clone()
    }
    fn restore(&mut self, facts: Facts) {
        self.facts = facts;
    }
}

#[rustfmt::skip]
const STEPS: &[Step<Release>] = &[
    Step { name: "domain_shutdown",      run: shutdown,         undo: nothing },
    Step { name: "domain_destroy",       run: destroy,          undo: nothing },
    Step { name: "domain_undefine",      run: undefine,         undo: nothing },
    Step { name: "device_reset_rebind",  run: reset,            undo: nothing },
    Step { name: "cloud_init_remove",    run: no_dir,           undo: nothing },
    Step { name: "dhcp_remove",          run: no_port,          undo: nothing },
    Step { name: "nvme_wipe",            run: wipe,             undo: nothing },
    Step { name: "wipe_verify",          run: verify,           undo: nothing },
    Step { name: "telemetry_unregister", run: no_telemetry,     undo: nothing },
    Step { name: "lease_release",        run: release,          undo: nothing },
];

impl super::Handler for Handler {
    type Params = Params;
    type Context = Release;
    type Output = Output;
    const TABLE: Table<Release> = Table::forward_only(STEPS);

    fn context(params: &Params, around: &Surroundings) -> Release {
        let nonce = Some(params.release_nonce);
        Release {
            hold: Hold::new(around, params.allocation_id, &params.vm_name, &params.slots, nonce),
            wait: Duration::from_secs(u64::from(params.graceful_timeout_seconds)),
            facts: Facts::default(),
        }
    }

    fn output(context: &Release, _: &Report) -> Option<Output> {
        let facts = &context.facts;
        Some(Output {
            hard_stopped: facts.hard_stopped,
            absent: facts.absent?,
            reset_proofs: facts.reset.clone(),
            wipe_proofs: facts.wipe.clone(),
            leases_released: facts.leases_released,
        })
    }

    /// However it ended: what was proved until then is proved.
    fn proofs(context: &Release, _: &Report) -> Option<Proofs> {
        Some(Proofs {
            disk_untouched: false,
            wipe: context.facts.wipe.clone(),
            reset: context.facts.reset.clone(),
        })
    }

    fn proof() -> Result<Proof, Complaints> {
        let polite = proof::prove::<Self>(proof_params(), Profile::H100x8, vm_provision::proof::resident)?;
        let hard = proof::prove::<Self>(proof_params(), Profile::H100x8, deaf)?;
        // And again after everything is gone, as an operator's second wipe does.
        let nothing_there = proof::prove::<Self>(proof_params(), Profile::H100x8, vm_provision::proof::neighbour)?;
        Ok(proof::sum(proof::sum(polite, hard), nothing_there))
    }
}

fn shutdown(r: &mut Release) -> Result<(), Fail> {
    let (hold, host) = (&r.hold, &r.hold.host);
    host.leases.ensure_held(&hold.slot_ids(), &hold.owner).map_err(failed)?;
    hold.refuse_foreign_guests()?;
    // Whatever stops this release half-way, nothing brings the VM back.
    host.slices.ensure_not_kept(&hold.slice()).map_err(failed)?;
    let stopped = host
        .machines
        .ask_to_stop(&hold.vm, hold.owner.allocation, r.wait)
        .map_err(failed)?;
    r.facts.hard_stopped = !stopped;
    Ok(())
}

fn destroy(r: &mut Release) -> Result<(), Fail> {
    let (hold, host) = (&r.hold, &r.hold.host);
    host.machines
        .ensure_off(&hold.vm, hold.owner.allocation)
        .map_err(failed)
}

fn undefine(r: &mut Release) -> Result<(), Fail> {
    let (hold, host) = (&r.hold, &r.hold.host);
    host.machines
        .ensure_no_machine(&hold.vm, hold.owner.allocation)
        .map_err(failed)?;
    hold.refuse_guests(None)
}

/// The ROMs are compared with those from before the tenant came, as long as the slice's directory knows them.
fn reset(r: &mut Release) -> Result<(), Fail> {
    let baseline = r.hold.host.slices.baseline(&r.hold.slice()).map_err(failed)?;
    r.facts.reset = r.hold.reset(&baseline)?;
    Ok(())
}

fn no_dir(r: &mut Release) -> Result<(), Fail> {
    r.hold.host.slices.ensure_no_dir(&r.hold.slice()).map_err(failed)
}

fn no_port(r: &mut Release) -> Result<(), Fail> {
    r.hold.host.network.ensure_no_port(&r.hold.plug()).map_err(failed)
}

fn wipe(r: &mut Release) -> Result<(), Fail> {
    r.facts.begun = r.hold.wipe()?;
    Ok(())
}

fn verify(r: &mut Release) -> Result<(), Fail> {
    r.hold.prove_wiped(&r.facts.begun, &mut r.facts.wipe)
}

fn no_telemetry(r: &mut Release) -> Result<(), Fail> {
    r.hold.host.slices.ensure_no_telemetry(&r.hold.slice()).map_err(failed)
}

/// Everything is looked for once more before anybody else can have the slots.
fn release(r: &mut Release) -> Result<(), Fail> {
    let (hold, host, slice) = (&r.hold, &r.hold.host, r.hold.slice());
    let seen = host.machines.observe(&hold.vm).map_err(failed)?;
    let absent = Absent {
        // Another allocation's VM of the same name is none of ours.
        domain: seen.is_none_or(|seen| seen.allocation != Some(hold.owner.allocation)),
        cloud_init_dir: !host.slices.has_dir(&slice).map_err(failed)?,
        dhcp: !host.network.has_port(&hold.plug()).map_err(failed)?,
        telemetry: !host.slices.has_telemetry(&slice).map_err(failed)?,
    };
    if !absent.left().is_empty() {
        return Err(fail(Code::AbsenceNotProved, absent.left().join(", ")));
    }
    r.facts.absent = Some(absent);
    let released = host.leases.ensure_released(&hold.slot_ids(), hold.owner.allocation);
    r.facts.leases_released = released.map_err(failed)?;
    Ok(())
}

fn proof_params() -> Params {
    let provisioned = vm_provision::proof::params(1);
    Params {
        allocation_id: provisioned.allocation_id,
        vm_name: provisioned.vm_name,
        slots: provisioned.slots,
        graceful_timeout_seconds: 30,
        wipe: true,
        release_nonce: Nonce::from_bytes([7; 32]),
    }
}

fn deaf(state: &mut State) {
    vm_provision::proof::resident(state);
    state.slicing.deaf.insert("ada-vm".to_owned());
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_phases_are_those_that_people_read() {
        let names: Vec<&str> = super::STEPS.iter().map(|step| step.name).collect();
        let phases: Vec<&str> = model::task::vm_release::PHASES.iter().map(|phase| phase.name).collect();
        assert_eq!(names, phases);
    }
}
