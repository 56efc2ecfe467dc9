//! `gpuaas slot`: what can be rented of a host in slice mode. Slots come from a discovery and into service by an
//! operator's word; what is in quarantine comes back by a wipe with proof, and by nothing else.

mod obstacle;
mod proof;
mod told;
mod view;

use std::time::Duration;

use clap::Subcommand;
use model::api::NodeReason;
use model::state::SlotState;
use serde_json::{Value, json};

use crate::client::Client;
use crate::duration;
use crate::failure::Failure;
use crate::ids::{Noun, resolve};
use crate::output::{Done, Format, text};
use crate::session::{Limit, Session};
use crate::{task, thread};
pub(crate) use obstacle::show as show_obstacles;
pub(crate) use view::{CANDIDATES, PROOFS, VIEW};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Slots with their devices and state
    #[command(visible_alias = "ls")]
    List {
        /// Only of this node: an id or a name
        #[arg(long)]
        node: Option<String>,
        /// Only in this state: candidate, free, reserved, leased, releasing, quarantined, rejected or retired
        #[arg(long)]
        state: Option<SlotState>,
        #[command(flatten)]
        limit: Limit,
    },
    /// One slot with everything known about it, and what stands in its way
    Show {
        /// An id, or its last six or more characters
        slot: String,
    },
    /// Put slots into service as the latest discovery saw them
    Approve {
        /// Ids, or their last six or more characters
        #[arg(required_unless_present = "node")]
        slots: Vec<String>,
        /// All candidates of this node that nothing stands in the way of
        #[arg(long, conflicts_with = "slots")]
        node: Option<String>,
    },
    /// Take a slot out of service, or never into it
    Reject(Reasoned),
    /// Give it to nobody until it is wiped with proof
    Quarantine(Reasoned),
    /// Give back what an allocation has reserved and nobody is making
    Unreserve(Reasoned),
    /// Give up a quarantined slot whose disk was taken out; its other devices can be used again
    DiskGone(Reasoned),
    /// Wipe a quarantined slot again and watch the task on its way
    #[command(after_help = "Ctrl-C stops looking; the wipe goes on. Exit 6 when --timeout is over.")]
    Rewipe {
        /// An id, or its last six or more characters
        slot: String,
        /// Only ask
        #[arg(long)]
        no_wait: bool,
        /// How long to look: 90s, 5m
        #[arg(long, value_parser = duration::parse, default_value = "1h")]
        timeout: Duration,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// What its node has signed about it: wipes, resets, and what was found after each
    Proof {
        /// An id, or its last six or more characters
        slot: String,
        #[command(flatten)]
        limit: Limit,
    },
}

#[derive(clap::Args)]
pub(crate) struct Reasoned {
    /// An id, or its last six or more characters
    slot: String,
    /// Why, for the audit log
    #[arg(long)]
    reason: String,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(verb: Verb, session: &mut Session) -> Result<(), Failure> {
    match verb {
        Verb::List { node, state, limit } => list(session, node.as_deref(), state, &limit).await,
        Verb::Show { slot } => {
            let (client, path) = found(session, &slot).await?;
            let slot = client.get(&path).await?;
            session.out.record(&VIEW, &slot)?;
            show_obstacles(&mut session.out, &[slot])
        }
        Verb::Approve { slots, node } => approve(session, &slots, node.as_deref()).await,
        Verb::Reject(Reasoned { slot, reason, yes }) => {
            session.confirm(yes, &format!("take {} out of service", text::plain(&slot)))?;
            act(session, &slot, "reject", &reason, told::rejected).await
        }
        Verb::Quarantine(Reasoned { slot, reason, yes }) => {
            session.confirm(yes, &format!("quarantine {} until it is wiped", text::plain(&slot)))?;
            act(session, &slot, "quarantine", &reason, told::quarantined).await
        }
        Verb::Unreserve(Reasoned { slot, reason, yes }) => {
            session.confirm(yes, &format!("give back {}", text::plain(&slot)))?;
            act(session, &slot, "unreserve", &reason, told::unreserved).await
        }
        Verb::DiskGone(Reasoned { slot, reason, yes }) => {
            session.confirm(yes, &format!("give up the disk of {} for good", text::plain(&slot)))?;
            act(session, &slot, "disk-gone", &reason, told::disk_gone).await
        }
        Verb::Rewipe {
            slot,
            no_wait,
            timeout,
            yes,
        } => {
            session.confirm(yes, &format!("wipe the disk of {}", text::plain(&slot)))?;
            let (client, path) = found(session, &slot).await?;
            let task = client.post(&format!("{path}/rewipe"), &json!({})).await?;
            if no_wait {
                task::asked(session, &task)
            } else {
                thread::follow(session, &client, task, timeout).await
            }
        }
        Verb::Proof { slot, limit } => {
            let (client, path) = found(session, &slot).await?;
            let path = format!("{path}/proofs");
            if session.out.format != Format::Table || session.out.columns.is_some() {
                return session.list(&path, &[], &limit, &PROOFS).await;
            }
            let document = client.list(&path, &[], limit.most()).await?;
            proof::show(&mut session.out, &document)?;
            if document.get("next").is_some_and(Value::is_string) {
                session.out.note("there are more; --limit N or --all shows them")?;
            }
            Ok(())
        }
    }
}

/// Also `gpuaas node slots`.
pub(crate) async fn list(
    session: &mut Session,
    node: Option<&str>,
    state: Option<SlotState>,
    limit: &Limit,
) -> Result<(), Failure> {
    let client = session.client()?;
    let node = match node {
        Some(typed) => Some(resolve(&client, Noun::Node, typed).await?),
        None => None,
    };
    let filters = [("node", node), ("state", state.map(|state| state.to_string()))];
    let mut document = client.list(Noun::Slot.path(), &filters, limit.most()).await?;
    // As they stand in their hosts, which is how people look for them.
    if let Some(slots) = document.get_mut("items").and_then(Value::as_array_mut) {
        let place = |slot: &Value| {
            let node = slot.get("node_name").and_then(Value::as_str).map(str::to_owned);
            (node, slot.get("slot_index").and_then(Value::as_u64))
        };
        slots.sort_by_key(place);
    }
    session.out.list(&VIEW, &document)?;
    if document.get("next").is_some_and(Value::is_string) {
        session.out.note("there are more; --limit N or --all shows them")?;
    }
    Ok(())
}

async fn approve(session: &mut Session, slots: &[String], node: Option<&str>) -> Result<(), Failure> {
    let client = session.client()?;
    let mut ids = Vec::new();
    for typed in slots {
        ids.push(resolve(&client, Noun::Slot, typed).await?);
    }
    if let Some(typed) = node {
        let node = resolve(&client, Noun::Node, typed).await?;
        let filters = [("node", Some(node)), ("state", Some(SlotState::Candidate.to_string()))];
        let list = client.list(Noun::Slot.path(), &filters, usize::MAX).await?;
        let candidates = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        let blocked = |slot: &&Value| {
            slot.get("blockers")
                .and_then(Value::as_array)
                .is_some_and(|list| !list.is_empty())
        };
        ids.extend(
            candidates
                .iter()
                .filter(|slot| !blocked(slot))
                .filter_map(|slot| slot.get("id")?.as_str().map(str::to_owned)),
        );
        let blocked: Vec<Value> = candidates.iter().filter(blocked).cloned().collect();
        if !blocked.is_empty() {
            session.out.note(&format!(
                "{} of {} candidates are blocked",
                blocked.len(),
                candidates.len()
            ))?;
            show_obstacles(&mut session.out, &blocked)?;
        }
    }
    let mut approved = Vec::new();
    for id in ids {
        approved.push(
            client
                .post(&format!("{}/{id}/approve", Noun::Slot.path()), &json!({}))
                .await?,
        );
    }
    if session.out.format == Format::Table && session.out.columns.is_none() {
        return session.out.sentence(&told::approved(&approved));
    }
    session.out.list(&VIEW, &json!({ "items": approved, "next": null }))
}

async fn found(session: &mut Session, typed: &str) -> Result<(Client, String), Failure> {
    let client = session.client()?;
    let id = resolve(&client, Noun::Slot, typed).await?;
    let path = format!("{}/{id}", Noun::Slot.path());
    Ok((client, path))
}

/// A verb that answers with the slot.
async fn act(
    session: &mut Session,
    typed: &str,
    verb: &str,
    reason: &str,
    told: fn(&Value) -> Done,
) -> Result<(), Failure> {
    let (client, path) = found(session, typed).await?;
    let body = NodeReason {
        reason: reason.to_owned(),
    };
    let slot = client.post(&format!("{path}/{verb}"), &body).await?;
    session.out.told_row(&VIEW, &slot, &told(&slot))
}
