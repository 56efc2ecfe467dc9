//! `gpuaas node`: what an operator does with hosts. Verbs that take a node out of use ask first and want a reason,
//! which the audit log keeps.

mod cert;
mod enroll;
mod told;
mod view;

use std::time::Duration;

use clap::Subcommand;
use model::api::{NodeModeChange, NodeReason};
use model::state::{NodeMode, NodeState};
use serde::Serialize;
use serde_json::{Value, json};

use crate::client::Client;
use crate::duration;
use crate::failure::Failure;
use crate::ids::{Noun, named, resolve};
use crate::output::{Done, text};
use crate::session::{Limit, Session};
use crate::{slot, task, thread};
#[cfg(test)]
pub(crate) use enroll::VIEW as ENROLMENT;
#[cfg(test)]
pub(crate) use view::CERTIFICATES;
pub(crate) use view::VIEW;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// A one-time token that lets a host in; for a known node it raises its epoch
    Enroll(enroll::Enroll),
    /// Nodes with their state, newest first
    #[command(visible_alias = "ls")]
    List {
        /// Only in this state: enrolling, ready, draining, drained, stale, quarantined or removed
        #[arg(long)]
        state: Option<NodeState>,
        #[command(flatten)]
        limit: Limit,
    },
    /// One node with everything known about it
    Show {
        /// An id or a name
        node: String,
    },
    /// Ask the node how it is and watch the task on its way
    #[command(after_help = "Ctrl-C stops looking; the probe goes on. Exit 6 when --timeout is over.")]
    Probe {
        /// An id or a name
        node: String,
        /// Only ask
        #[arg(long)]
        no_wait: bool,
        /// How long to look: 90s, 5m
        #[arg(long, value_parser = duration::parse, default_value = "2m")]
        timeout: Duration,
    },
    /// Look at the node's devices and see which slots it could have
    #[command(after_help = "Ctrl-C stops looking; the discovery goes on. Exit 6 when --timeout is over.")]
    Discover {
        /// An id or a name
        node: String,
        /// Only ask
        #[arg(long)]
        no_wait: bool,
        /// How long to look: 90s, 5m
        #[arg(long, value_parser = duration::parse, default_value = "3m")]
        timeout: Duration,
    },
    /// The node's slots
    Slots {
        /// An id or a name
        node: String,
        #[command(flatten)]
        limit: Limit,
    },
    /// Give out nothing new of the node; what tenants have of it stays until it is released
    Drain(Reasoned),
    /// Back to ready once a probe succeeds and a discovery finds what was approved
    Undrain {
        /// An id or a name
        node: String,
    },
    /// Take away what the last tenant of the machine may have left
    #[command(after_help = "Ctrl-C stops looking; the task goes on. Exit 6 when --timeout is over.")]
    Clean {
        /// An id or a name
        node: String,
        /// Only ask
        #[arg(long)]
        no_wait: bool,
        /// How long to look: 90s, 5m
        #[arg(long, value_parser = duration::parse, default_value = "10m")]
        timeout: Duration,
    },
    /// How the node is rented out: as slices, or as one machine
    Mode {
        /// An id or a name
        node: String,
        /// slice or machine
        mode: NodeMode,
    },
    /// No new tasks until you say so; what runs on it goes on
    Quarantine(Reasoned),
    /// Let it have tasks again
    Unquarantine {
        /// An id or a name
        node: String,
        /// Why, for the audit log
        #[arg(long, default_value = "released by operator")]
        reason: String,
        /// Taken like the other verbs' --yes; this one never asks
        #[arg(long, short)]
        yes: bool,
    },
    /// Take the node out for good: its certificates are revoked, its name becomes free
    #[command(visible_alias = "rm")]
    Remove(Reasoned),
    /// The node's certificates; with --revoke, end one of them
    Cert(cert::Cert),
}

#[derive(clap::Args)]
pub(crate) struct Reasoned {
    /// An id or a name
    node: String,
    /// Why, for the audit log
    #[arg(long)]
    reason: String,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(verb: Verb, session: &mut Session) -> Result<(), Failure> {
    match verb {
        Verb::Enroll(enroll) => enroll.run(session).await,
        Verb::List { state, limit } => {
            session
                .list(
                    Noun::Node.path(),
                    &[("state", state.map(|state| state.to_string()))],
                    &limit,
                    &VIEW,
                )
                .await
        }
        Verb::Show { node } => {
            let (client, path) = found(session, &node).await?;
            let node = client.get(&path).await?;
            session.out.record(&VIEW, &node)
        }
        Verb::Probe { node, no_wait, timeout } => asked(session, &node, "probe", no_wait, timeout).await,
        Verb::Clean { node, no_wait, timeout } => asked(session, &node, "clean", no_wait, timeout).await,
        Verb::Discover { node, no_wait, timeout } => asked(session, &node, "discover", no_wait, timeout).await,
        Verb::Slots { node, limit } => slot::list(session, Some(&node), None, &limit).await,
        Verb::Drain(Reasoned { node, reason, yes }) => {
            session.confirm(yes, &format!("drain {}", text::plain(&node)))?;
            act(session, &node, "drain", &NodeReason { reason }, told::drained).await
        }
        Verb::Undrain { node } => act(session, &node, "undrain", &json!({}), told::undrained).await,
        Verb::Mode { node, mode } => act(session, &node, "mode", &NodeModeChange { mode }, told::mode).await,
        Verb::Quarantine(Reasoned { node, reason, yes }) => {
            session.confirm(yes, &format!("quarantine {}", text::plain(&node)))?;
            act(session, &node, "quarantine", &NodeReason { reason }, told::quarantined).await
        }
        Verb::Unquarantine { node, reason, yes: _ } => {
            act(
                session,
                &node,
                "unquarantine",
                &NodeReason { reason },
                told::unquarantined,
            )
            .await
        }
        Verb::Remove(Reasoned { node, reason, yes }) => {
            if !yes {
                let (client, path) = found(session, &node).await?;
                let seen = named(&client.get(&path).await?);
                let what = format!("remove {seen} for good: its certificates are revoked, its name becomes free");
                session.confirm(yes, &what)?;
            }
            act(session, &node, "remove", &NodeReason { reason }, told::removed).await
        }
        Verb::Cert(cert) => cert.run(session).await,
    }
}

/// The node's path in the API, by what was typed.
async fn found(session: &mut Session, typed: &str) -> Result<(Client, String), Failure> {
    let client = session.client()?;
    let id = resolve(&client, Noun::Node, typed).await?;
    let path = format!("{}/{id}", Noun::Node.path());
    Ok((client, path))
}

/// A verb that answers with a task, which is looked at until it has ended.
async fn asked(
    session: &mut Session,
    typed: &str,
    verb: &str,
    no_wait: bool,
    timeout: Duration,
) -> Result<(), Failure> {
    let (client, path) = found(session, typed).await?;
    let task = client.post(&format!("{path}/{verb}"), &json!({})).await?;
    if no_wait {
        task::asked(session, &task)
    } else {
        thread::follow(session, &client, task, timeout).await
    }
}

/// A verb that answers with the node.
async fn act(
    session: &mut Session,
    typed: &str,
    verb: &str,
    body: &impl Serialize,
    told: fn(&Value) -> Done,
) -> Result<(), Failure> {
    let (client, path) = found(session, typed).await?;
    let node = client.post(&format!("{path}/{verb}"), body).await?;
    session.out.told_row(&VIEW, &node, &told(&node))
}
