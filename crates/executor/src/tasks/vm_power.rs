//! `slice.vm_power`: off, on, or off and on. It is asked politely first and switched off if it does not listen. Forward
//! only: a VM that was meant to be off is not brought back because switching it on again failed.

use std::time::Duration;

use host::Slice;
use host::pretend::{Profile, State};
use model::signal::Code;
use model::task::vm_power::{Action, Output, Params, Power};
use serde::{Deserialize, Serialize};
use steps::{Complaints, Context, Fail, Proof, Report, Step, Table, nothing};

use super::{Surroundings, fail, failed, proof, vm_provision};

pub(super) struct Handler;

pub(super) struct Switch {
    host: host::Host,
    params: Params,
    facts: Facts,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Facts {
    hard: bool,
    power: Option<Power>,
}

impl Context for Switch {
    type Facts = Facts;
    fn facts(&self) -> Facts {
        self.facts.clone()
    }
    fn restore(&mut self, facts: Facts) {
        self.facts = facts;
    }
}

#[rustfmt::skip]
const STEPS: &[Step<Switch>] = &[
    Step { name: "power_ask",  run: ask,  undo: nothing },
    Step { name: "power_off",  run: off,  undo: nothing },
    Step { name: "power_on",   run: on,   undo: nothing },
    Step { name: "power_look", run: look, undo: nothing },
];

impl super::Handler for Handler {
    type Params = Params;
    type Context = Switch;
    type Output = Output;
    const TABLE: Table<Switch> = Table::forward_only(STEPS);

    fn context(params: &Params, around: &Surroundings) -> Switch {
        Switch {
            host: around.host.clone(),
            params: params.clone(),
            facts: Facts::default(),
        }
    }

    fn output(context: &Switch, _: &Report) -> Option<Output> {
        Some(Output {
            power: context.facts.power?,
            hard: context.facts.hard,
        })
    }

    fn proof() -> Result<Proof, Complaints> {
        let stop = proof::prove::<Self>(params(Action::Stop), Profile::H100x8, vm_provision::proof::resident)?;
        let deaf = proof::prove::<Self>(params(Action::Reboot), Profile::H100x8, deaf)?;
        Ok(proof::sum(stop, deaf))
    }
}

impl Switch {
    fn ends(&self) -> bool {
        match self.params.action {
            Action::Reboot | Action::Stop => true,
            Action::Start => false,
        }
    }
}

fn ask(s: &mut Switch) -> Result<(), Fail> {
    let (machines, params) = (&s.host.machines, &s.params);
    if machines.observe(&params.vm_name).map_err(failed)?.is_none() {
        return Err(fail(Code::VmMissing, params.vm_name.to_string()));
    }
    // Noted first: whatever happens from here on, a restart of the host ends as it was asked for.
    s.host
        .slices
        .ensure_wanted(&slice(s), wanted(s.params.action))
        .map_err(failed)?;
    if !s.ends() {
        return Ok(());
    }
    let wait = Duration::from_secs(u64::from(params.graceful_timeout_seconds));
    let stopped = machines
        .ask_to_stop(&params.vm_name, params.allocation_id, wait)
        .map_err(failed)?;
    s.facts.hard = !stopped;
    Ok(())
}

fn wanted(action: Action) -> Power {
    match action {
        Action::Stop => Power::Off,
        Action::Reboot | Action::Start => Power::Running,
    }
}

fn slice(s: &Switch) -> Slice {
    Slice {
        vm: s.params.vm_name.clone(),
        allocation: s.params.allocation_id,
    }
}

fn off(s: &mut Switch) -> Result<(), Fail> {
    if !s.ends() {
        return Ok(());
    }
    let (machines, params) = (&s.host.machines, &s.params);
    machines
        .ensure_off(&params.vm_name, params.allocation_id)
        .map_err(failed)
}

fn on(s: &mut Switch) -> Result<(), Fail> {
    let (machines, params) = (&s.host.machines, &s.params);
    match params.action {
        Action::Stop => Ok(()),
        Action::Reboot | Action::Start => machines
            .ensure_started(&params.vm_name, params.allocation_id)
            .map_err(failed),
    }
}

fn look(s: &mut Switch) -> Result<(), Fail> {
    let seen = s.host.machines.observe(&s.params.vm_name).map_err(failed)?;
    match seen {
        Some(seen) if seen.power == wanted(s.params.action) => s.facts.power = Some(seen.power),
        Some(_) | None => return Err(fail(Code::HostCommandFailed, "the VM is not as it was switched")),
    }
    Ok(())
}

fn params(action: Action) -> Params {
    Params {
        allocation_id: uuid::Uuid::from_u128(1).into(),
        vm_name: "ada-vm".parse().expect("a plain word"),
        action,
        graceful_timeout_seconds: 30,
    }
}

fn deaf(state: &mut State) {
    vm_provision::proof::resident(state);
    state.slicing.deaf.insert("ada-vm".to_owned());
}
