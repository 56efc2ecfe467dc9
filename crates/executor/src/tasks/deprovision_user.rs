//! `allocation.deprovision_user`: everything of a tenant's uid, gone and looked for afterwards. Forward only: what was
//! taken away is not brought back, and a failure leaves a node that has to be looked at. Every GPU of the host is reset
//! once nothing of the tenant runs; a host with one that cannot be reset is refused before anything is touched.

use host::pretend::{Account, Leftover, Profile, State};
use host::{Function, Tenant};
use model::proof::ResetProof;
use model::signal::Code;
use model::task::deprovision_user::{Absent, Output, Params};
use serde::{Deserialize, Serialize};
use steps::{Complaints, Context, Fail, Proof, Report, Step, Table, nothing};

use super::{Surroundings, fail, failed, proof};

pub(super) struct Handler;

pub(super) struct Deprovision {
    host: host::Host,
    tenant: Tenant,
    remove_home: bool,
    facts: Facts,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Facts {
    processes_killed: u32,
    reset: Vec<ResetProof>,
    absent: Option<Absent>,
}

impl Context for Deprovision {
    type Facts = Facts;
    fn facts(&self) -> Facts {
        self.facts.clone()
    }
    fn restore(&mut self, facts: Facts) {
        self.facts = facts;
    }
}

/// First nothing new may begin, then nothing may run, then nothing may stay. The account goes last of all: until then
/// its uid cannot be given to anybody else.
const STEPS: &[Step<Deprovision>] = &[
    Step {
        name: "guard",
        run: guard,
        undo: nothing,
    },
    Step {
        name: "lock",
        run: lock,
        undo: nothing,
    },
    Step {
        name: "schedules",
        run: schedules,
        undo: nothing,
    },
    Step {
        name: "processes",
        run: processes,
        undo: nothing,
    },
    Step {
        name: "ipc",
        run: ipc,
        undo: nothing,
    },
    Step {
        name: "device_reset",
        run: reset,
        undo: nothing,
    },
    Step {
        name: "files",
        run: files,
        undo: nothing,
    },
    Step {
        name: "account",
        run: account,
        undo: nothing,
    },
    Step {
        name: "prove_absent",
        run: prove_absent,
        undo: nothing,
    },
];

impl super::Handler for Handler {
    type Params = Params;
    type Context = Deprovision;
    type Output = Output;
    const TABLE: Table<Deprovision> = Table::forward_only(STEPS);

    fn context(params: &Params, around: &Surroundings) -> Deprovision {
        let (name, uid) = (params.username.clone(), params.uid);
        Deprovision {
            host: around.host.clone(),
            tenant: Tenant {
                name,
                uid,
                owner: params.allocation_id,
            },
            remove_home: params.remove_home,
            facts: Facts::default(),
        }
    }

    fn output(context: &Deprovision, _: &Report) -> Option<Output> {
        Some(Output {
            processes_killed: context.facts.processes_killed,
            absent: context.facts.absent?,
            reset_proofs: context.facts.reset.clone(),
        })
    }

    fn proof() -> Result<Proof, Complaints> {
        let plain = proof::prove::<Self>(proof_params(), Profile::Cpu, lived_in)?;
        let with_gpus = proof::prove::<Self>(proof_params(), Profile::L40sx4, lived_in)?;
        Ok(proof::sum(plain, with_gpus))
    }
}

fn guard(d: &mut Deprovision) -> Result<(), Fail> {
    if !d.remove_home {
        let why = "remove_home: absence cannot be proved of a home that stays";
        return Err(fail(Code::ParamsInvalid, why));
    }
    d.host.users.refuse_foreign(&d.tenant).map_err(failed)?;
    let all = d.host.facts.gpus().map_err(failed)?.len();
    let gpus = gpus(d)?;
    let able = gpus.iter().filter(|gpu| !gpu.reset_methods.is_empty()).count();
    if able == all.max(gpus.len()) {
        return Ok(());
    }
    let why = format!("the host has {all} GPUs, and {able} of them can be reset with proof");
    Err(fail(Code::ResetProofUnavailable, why))
}

fn gpus(d: &Deprovision) -> Result<Vec<Function>, Fail> {
    let mut functions = d.host.devices.functions().map_err(failed)?;
    functions.retain(Function::is_gpu);
    Ok(functions)
}

/// A whole proof for each, or the first failure. The tenant could not write to ROMs, so there is none to compare with.
fn reset(d: &mut Deprovision) -> Result<(), Fail> {
    let gpus = gpus(d)?;
    let proofs = gpus
        .iter()
        .map(|gpu| d.host.devices.reset(gpu.pci, None).map_err(failed));
    d.facts.reset = proofs.collect::<Result<_, _>>()?;
    Ok(())
}

fn lock(d: &mut Deprovision) -> Result<(), Fail> {
    d.host.users.ensure_locked(&d.tenant).map_err(failed)
}

fn schedules(d: &mut Deprovision) -> Result<(), Fail> {
    d.host.users.ensure_no_schedules(&d.tenant).map_err(failed)
}

fn processes(d: &mut Deprovision) -> Result<(), Fail> {
    let killed = d.host.users.ensure_no_processes(&d.tenant).map_err(failed)?;
    d.facts.processes_killed = d.facts.processes_killed.saturating_add(killed);
    Ok(())
}

fn ipc(d: &mut Deprovision) -> Result<(), Fail> {
    d.host.users.ensure_no_ipc(&d.tenant).map_err(failed)
}

fn files(d: &mut Deprovision) -> Result<(), Fail> {
    d.host.users.ensure_no_files(&d.tenant).map_err(failed)
}

fn account(d: &mut Deprovision) -> Result<(), Fail> {
    d.host.users.ensure_no_account(&d.tenant).map_err(failed)
}

fn prove_absent(d: &mut Deprovision) -> Result<(), Fail> {
    d.facts.absent = Some(d.host.users.prove_absent(&d.tenant).map_err(failed)?);
    Ok(())
}

fn proof_params() -> Params {
    Params {
        allocation_id: uuid::Uuid::from_u128(1).into(),
        username: "ada".parse().expect("a plain word"),
        uid: 20_001.try_into().expect("in the tenants' range"),
        remove_home: true,
    }
}

/// A tenant who left one of everything behind, and a neighbour who stays.
fn lived_in(state: &mut State) {
    use Leftover::{At, Cron, File, Ipc, Linger, Process};
    for (name, uid, owner) in [("ada", 20_001, 1), ("grace", 20_002, 2)] {
        let owner = Some(uuid::Uuid::from_u128(owner).into());
        let account = Account {
            uid,
            owner,
            gpu_access: false,
            locked: false,
        };
        state.accounts.insert(name.to_owned(), account);
        state.homes.insert(name.to_owned(), uid);
        state.keys.insert(name.to_owned(), vec!["ssh-ed25519 AAAA".to_owned()]);
        let left = [Process, Cron, At, Linger, File, Ipc].into();
        state.leftovers.insert(uid, left);
    }
}

#[cfg(test)]
mod tests {
    use super::STEPS;

    #[test]
    fn the_table_is_what_people_are_told() {
        let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        let phases: Vec<&str> = model::task::deprovision_user::PHASES
            .iter()
            .map(|phase| phase.name)
            .collect();
        assert_eq!(names, phases);
    }
}
