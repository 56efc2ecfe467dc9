//! `allocation.provision_user`: an account, a home, the tenant's keys, and a look at all three. It refuses a name or
//! uid that belongs to somebody else. What it could not finish it takes away again, but never what was there before: a
//! repair that fails must not cost a tenant their home.

use host::Tenant;
use host::pretend::{Account, Profile, State};
use model::signal::Code;
use model::task::provision_user::{Output, Params, Verified};
use serde::{Deserialize, Serialize};
use steps::{Complaints, Context, Fail, Proof, Report, Step, Table, nothing};

use super::{Surroundings, fail, failed, proof};

pub(super) struct Handler;

pub(super) struct Provision {
    host: host::Host,
    tenant: Tenant,
    params: Params,
    facts: Facts,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Facts {
    /// Looked at before anything was done: what stood then is not this operation's to take away.
    stood: Stood,
    home: Option<String>,
    verified: Option<Verified>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stood {
    account: bool,
    home: bool,
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

/// The keys come last: nobody can log in before everything else is there.
const STEPS: &[Step<Provision>] = &[
    Step {
        name: "look",
        run: look,
        undo: nothing,
    },
    Step {
        name: "account",
        run: account,
        undo: no_account,
    },
    Step {
        name: "home",
        run: home,
        undo: no_home,
    },
    Step {
        name: "authorized_keys",
        run: keys,
        undo: no_keys,
    },
    Step {
        name: "verify",
        run: verify,
        undo: nothing,
    },
];

impl super::Handler for Handler {
    type Params = Params;
    type Context = Provision;
    type Output = Output;
    const TABLE: Table<Provision> = Table::with_way_back(STEPS);

    fn context(params: &Params, around: &Surroundings) -> Provision {
        let (name, uid) = (params.username.clone(), params.uid);
        Provision {
            host: around.host.clone(),
            tenant: Tenant {
                name,
                uid,
                owner: params.allocation_id,
            },
            params: params.clone(),
            facts: Facts::default(),
        }
    }

    fn output(context: &Provision, _: &Report) -> Option<Output> {
        Some(Output {
            home: context.facts.home.clone()?,
            keys_installed: u32::try_from(context.params.ssh_public_keys.len()).ok()?,
            verified: context.facts.verified.clone()?,
        })
    }

    fn proof() -> Result<Proof, Complaints> {
        let new = proof::prove::<Self>(proof_params(), Profile::H100x8, neighbour)?;
        // And where the tenant lives already: whatever fails, they go on living there.
        let living = proof::prove::<Self>(proof_params(), Profile::H100x8, resident)?;
        Ok(proof::sum(new, living))
    }
}

fn look(p: &mut Provision) -> Result<(), Fail> {
    let seen = |gpu_access| {
        p.host
            .users
            .verified(&p.tenant, gpu_access, &p.params.ssh_public_keys)
            .map_err(failed)
    };
    let (plain, with_gpu) = (seen(false)?, seen(true)?);
    p.facts.stood = Stood {
        account: plain.user || with_gpu.user || plain.home,
        home: plain.home,
    };
    Ok(())
}

fn account(p: &mut Provision) -> Result<(), Fail> {
    p.host
        .users
        .ensure_account(&p.tenant, p.params.gpu_access)
        .map_err(failed)
}

fn no_account(p: &mut Provision) -> Result<(), Fail> {
    if p.facts.stood.account {
        return Ok(());
    }
    p.host.users.ensure_no_account(&p.tenant).map_err(failed)
}

fn home(p: &mut Provision) -> Result<(), Fail> {
    p.facts.home = Some(p.host.users.ensure_home(&p.tenant).map_err(failed)?);
    Ok(())
}

fn no_home(p: &mut Provision) -> Result<(), Fail> {
    if p.facts.stood.home {
        return Ok(());
    }
    p.host.users.ensure_no_home(&p.tenant).map_err(failed)
}

fn keys(p: &mut Provision) -> Result<(), Fail> {
    p.host
        .users
        .ensure_keys(&p.tenant, &p.params.ssh_public_keys)
        .map_err(failed)
}

fn no_keys(p: &mut Provision) -> Result<(), Fail> {
    // In a home that stood the keys are the tenant's way in; those last asked for stay.
    if p.facts.stood.home {
        return Ok(());
    }
    p.host.users.ensure_no_keys(&p.tenant).map_err(failed)
}

fn verify(p: &mut Provision) -> Result<(), Fail> {
    let Params {
        gpu_access,
        ssh_public_keys,
        ..
    } = &p.params;
    let seen = p
        .host
        .users
        .verified(&p.tenant, *gpu_access, ssh_public_keys)
        .map_err(failed)?;
    if !(seen.user && seen.home && seen.keys) {
        return Err(fail(Code::HostCommandFailed, format!("not as it was made: {seen:?}")));
    }
    p.facts.verified = Some(seen);
    Ok(())
}

fn proof_params() -> Params {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    Params {
        allocation_id: uuid::Uuid::from_u128(1).into(),
        username: "ada".parse().expect("a plain word"),
        uid: 20_001.try_into().expect("in the tenants' range"),
        ssh_public_keys: vec![key.parse().expect("a well-formed key")],
        gpu_access: true,
    }
}

/// Somebody else lives here, and must not notice.
fn neighbour(state: &mut State) {
    let owner = Some(uuid::Uuid::from_u128(2).into());
    let account = Account {
        uid: 20_002,
        owner,
        gpu_access: false,
        locked: false,
    };
    state.accounts.insert("grace".to_owned(), account);
    state.homes.insert("grace".to_owned(), 20_002);
}

/// The tenant was here before, whole, beside the neighbour.
fn resident(state: &mut State) {
    neighbour(state);
    let params = proof_params();
    let account = Account {
        uid: params.uid.get(),
        owner: Some(params.allocation_id),
        gpu_access: params.gpu_access,
        locked: false,
    };
    let name = params.username.as_str().to_owned();
    state.accounts.insert(name.clone(), account);
    state.homes.insert(name.clone(), params.uid.get());
    state
        .keys
        .insert(name, params.ssh_public_keys.iter().map(ToString::to_string).collect());
}

#[cfg(test)]
mod tests {
    use super::STEPS;

    #[test]
    fn the_table_is_what_people_are_told() {
        let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        let phases: Vec<&str> = model::task::provision_user::PHASES
            .iter()
            .map(|phase| phase.name)
            .collect();
        assert_eq!(names, phases);
    }
}
