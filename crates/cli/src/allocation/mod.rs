//! `gpuaas allocation`: rent, look, give back. Waiting is watching: Ctrl-C stops looking and nothing else, and says how to
//! look again or to take it back.

mod detached;
mod told;
mod view;
mod watch;
mod wish;

use std::time::Duration;

use clap::Subcommand;
use model::api::{AllocationCreate, AllocationExtend, AllocationRelease, NodeReason, SkuKind};
use model::state::AllocationState;
use serde_json::{Value, json};

use crate::client::Client;
use crate::failure::Failure;
use crate::ids::{Noun, named, resolve};
use crate::once::{self, Once};
use crate::output::Done;
use crate::project::meant;
use crate::session::{Limit, Session};
use crate::{duration, thread};
pub(crate) use view::{TRANSITIONS, VIEW};
use wish::{Asking, Create, Ending, Wait};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Allocations of your projects
    #[command(visible_alias = "ls")]
    List {
        /// Only of this project: an id or a name [env: GPUAAS_PROJECT]
        #[arg(long)]
        project: Option<String>,
        /// Of all your projects, whichever is chosen
        #[arg(long, conflicts_with = "project")]
        all_projects: bool,
        /// Only in this state
        #[arg(long)]
        state: Option<AllocationState>,
        /// Also those that have ended
        #[arg(long)]
        ended: bool,
        #[command(flatten)]
        limit: Limit,
    },
    /// Rent something
    #[command(after_help = "Ctrl-C while waiting only stops looking. Exit 5: quota or capacity, 6: --timeout is over.")]
    Create(Create),
    /// One allocation with everything known about it
    Show {
        /// An id or a name
        allocation: String,
    },
    /// Follow an allocation until it is active or has ended
    #[command(
        after_help = "With --json it prints one object per line, the allocation each time it changes; the last is how it ended."
    )]
    Watch {
        /// An id or a name
        allocation: String,
        /// How long to look: 90s, 5m
        #[arg(long, value_parser = duration::parse, default_value = "1h")]
        timeout: Duration,
    },
    /// Every phase, of making it and of taking it away
    Phases {
        /// An id or a name
        allocation: String,
    },
    /// Every move it made, oldest first
    Events {
        /// An id or a name
        allocation: String,
        /// What happens to it from now on, until it has ended or Ctrl-C
        #[arg(long, short)]
        follow: bool,
    },
    /// Take back what is being made
    Cancel(Ending),
    /// Give it back; its disks are wiped with proof
    Release {
        #[command(flatten)]
        ending: Ending,
        /// Operators say why
        #[arg(long)]
        reason: Option<String>,
    },
    /// End the tenant's side at once; its slots are quarantined (operators)
    ForceRelease {
        /// An id or a name
        allocation: String,
        /// Why, for the audit log
        #[arg(long)]
        reason: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Try the stuck step again (operators)
    Retry {
        /// An id or a name
        allocation: String,
    },
    /// A new one like one that failed or was cancelled
    Again {
        /// An id or a name
        allocation: String,
        #[command(flatten)]
        once: Once,
        #[command(flatten)]
        wait: Wait,
    },
    /// A new end, counted from now
    #[command(group = clap::ArgGroup::new("end").required(true))]
    Extend {
        /// An id or a name
        allocation: String,
        /// From now on: 4h, 7d
        #[arg(long, value_parser = duration::parse, group = "end")]
        ttl: Option<Duration>,
        /// It lasts until somebody gives it back
        #[arg(long, group = "end")]
        no_end: bool,
    },
    /// Make the account on a machine once more: lost user, lost keys
    Repair(Asking),
    /// Switch its VM off and on
    Reboot(Asking),
    /// Switch its VM off; it keeps its slots and stays charged
    Stop(Asking),
    /// Switch its VM on
    Start(Asking),
}

pub(crate) async fn run(verb: Verb, session: &mut Session) -> Result<(), Failure> {
    match verb {
        Verb::List {
            project,
            all_projects,
            state,
            ended,
            limit,
        } => {
            let project = match all_projects {
                true => None,
                false => meant(session, project.as_deref()).await?,
            };
            list(session, project, state, ended, &limit).await
        }
        Verb::Create(wish) => create(session, wish).await,
        Verb::Show { allocation } => {
            let (client, path) = found(session, &allocation).await?;
            let document = client.get(&path).await?;
            session.out.record(&VIEW, &document)?;
            view::conditions(&mut session.out, &document)?;
            view::wiped(&mut session.out, &document)?;
            thread::show_phases(&mut session.out, &document)
        }
        Verb::Watch { allocation, timeout } => {
            let (client, path) = found(session, &allocation).await?;
            let document = client.get(&path).await?;
            watch::follow(session, &client, document, timeout).await
        }
        Verb::Phases { allocation } => {
            let (client, path) = found(session, &allocation).await?;
            let document = client.get(&format!("{path}/phases")).await?;
            view::phases(&mut session.out, &document)
        }
        Verb::Events { allocation, follow } => {
            let (client, path) = found(session, &allocation).await?;
            if follow {
                let it = crate::event::Allocation(&path);
                return crate::event::follow(session, &format!("{path}/events"), None, Some(&it)).await;
            }
            let document = client.get(&format!("{path}/transitions")).await?;
            session.out.list(&TRANSITIONS, &document)
        }
        Verb::Cancel(ending) => {
            confirm(session, &ending.allocation, ending.yes, |seen| {
                format!("cancel {}: nothing of it is kept", named(seen))
            })
            .await?;
            end(session, ending, "cancel", json!({})).await
        }
        Verb::Release { ending, reason } => {
            confirm(session, &ending.allocation, ending.yes, |seen| {
                format!("release {}: {}", named(seen), lost_with(seen))
            })
            .await?;
            end(session, ending, "release", json!(AllocationRelease { reason })).await
        }
        Verb::ForceRelease {
            allocation,
            reason,
            yes,
        } => {
            confirm(session, &allocation, yes, |seen| {
                format!("end {} at once and quarantine its slots", named(seen))
            })
            .await?;
            act(
                session,
                &allocation,
                "force-release",
                &json!(NodeReason { reason }),
                told::forced,
            )
            .await
        }
        Verb::Retry { allocation } => act(session, &allocation, "retry", &json!({}), told::retried).await,
        Verb::Again { allocation, once, wait } => {
            let (client, path) = found(session, &allocation).await?;
            let made = once::post(session, &client, &format!("{path}/again"), &json!({}), once).await?;
            shown(session, &client, made, &wait).await
        }
        Verb::Extend { allocation, ttl, .. } => {
            let ttl_s = Some(ttl.map(|ttl| ttl.as_secs()));
            let body = json!(AllocationExtend { ttl_s });
            let now = session.out.now();
            act(session, &allocation, "extend", &body, |seen| told::extended(seen, now)).await
        }
        Verb::Repair(asking) => ask(session, &asking, "repair", told::repaired).await,
        Verb::Reboot(asking) => ask(session, &asking, "reboot", told::rebooting).await,
        Verb::Stop(asking) => ask(session, &asking, "stop", told::stopping).await,
        Verb::Start(asking) => ask(session, &asking, "start", told::starting).await,
    }
}

async fn list(
    session: &mut Session,
    project: Option<String>,
    state: Option<AllocationState>,
    ended: bool,
    limit: &Limit,
) -> Result<(), Failure> {
    let live = !ended && state.is_none();
    let filters = [
        ("project", project),
        ("state", state.map(|state| state.to_string())),
        ("live", live.then(|| "true".to_owned())),
    ];
    session.list(Noun::Allocation.path(), &filters, limit, &VIEW).await
}

async fn create(session: &mut Session, wish: Create) -> Result<(), Failure> {
    let client = session.client()?;
    let project = meant(session, wish.project.as_deref()).await?;
    let mut keys = Vec::new();
    for file in &wish.ssh_keys {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
        let key = text.trim().parse();
        keys.push(key.map_err(|error| Failure::usage(format!("{} is no public key: {error}", file.display())))?);
    }
    let image = wish.image.as_deref().map(str::parse).transpose();
    let body = AllocationCreate {
        project: project.and_then(|id| id.parse().ok()),
        sku: wish.sku,
        name: wish.name,
        image: image.map_err(|error| Failure::usage(format!("--image: {error}")))?,
        ssh_public_keys: keys,
        ttl_s: wish.ttl.map(|ttl| ttl.as_secs()),
    };
    let made = once::post(session, &client, Noun::Allocation.path(), &body, wish.once).await?;
    shown(session, &client, made, &wish.wait).await
}

async fn shown(session: &mut Session, client: &Client, document: Value, wait: &Wait) -> Result<(), Failure> {
    if wait.is_wanted() {
        watch::until_active(session, client, document, wait.timeout).await
    } else {
        session.out.told(&VIEW, &document, &told::made(&document))
    }
}

async fn found(session: &mut Session, typed: &str) -> Result<(Client, String), Failure> {
    let client = session.client()?;
    let id = resolve(&client, Noun::Allocation, typed).await?;
    let path = format!("{}/{id}", Noun::Allocation.path());
    Ok((client, path))
}

/// A person is told which one it is and what that means; whoever said yes already is not kept waiting for it.
async fn confirm(
    session: &mut Session,
    typed: &str,
    yes: bool,
    what: impl FnOnce(&Value) -> String,
) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    let (client, path) = found(session, typed).await?;
    let seen = client.get(&path).await?;
    session.confirm(yes, &what(&seen))
}

/// What nobody gets back after a release.
fn lost_with(seen: &Value) -> &'static str {
    let kind = seen.get("kind").and_then(Value::as_str);
    let slots = seen.get("slot_ids").and_then(Value::as_array).map_or(0, Vec::len);
    if kind == Some(SkuKind::Machine.as_str()) {
        "its account is removed with all files"
    } else if slots > 1 {
        "its disks are wiped"
    } else {
        "its disk is wiped"
    }
}

async fn end(session: &mut Session, ending: Ending, verb: &str, body: Value) -> Result<(), Failure> {
    let (client, path) = found(session, &ending.allocation).await?;
    let document = client.post(&format!("{path}/{verb}"), &body).await?;
    if ending.wait.is_wanted() {
        watch::until_over(session, &client, document, ending.wait.timeout).await
    } else {
        session.out.told(&VIEW, &document, &told::ending(&document))
    }
}

/// Something that its node does while the allocation stays as it is.
async fn ask(
    session: &mut Session,
    asking: &Asking,
    verb: &str,
    told: impl FnOnce(&Value) -> Done,
) -> Result<(), Failure> {
    let (client, path) = found(session, &asking.allocation).await?;
    let document = client.post(&format!("{path}/{verb}"), &json!({})).await?;
    if asking.wait.is_wanted() {
        watch::until_done(session, &client, document, asking.wait.timeout).await
    } else {
        session.out.told(&VIEW, &document, &told(&document))
    }
}

/// A verb that answers with the allocation.
async fn act(
    session: &mut Session,
    typed: &str,
    verb: &str,
    body: &Value,
    told: impl FnOnce(&Value) -> Done,
) -> Result<(), Failure> {
    let (client, path) = found(session, typed).await?;
    let document = client.post(&format!("{path}/{verb}"), body).await?;
    session.out.told(&VIEW, &document, &told(&document))
}
