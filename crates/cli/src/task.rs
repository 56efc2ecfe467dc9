//! `gpuaas task`: what nodes were asked to do, how far it is, and what they can be asked at all.

use std::time::Duration;

use clap::Subcommand;
use model::state::TaskState;
use serde_json::{Value, json};

use crate::duration;
use crate::failure::Failure;
use crate::ids::{Noun, resolve};
use crate::output::column::{Kind, View, col, extra, piped};
use crate::output::{Done, text};
use crate::session::{Limit, Session};
use crate::thread;
use crate::token::done;

pub(crate) const VIEW: View = View {
    columns: &[
        col("id", "id", Kind::Id),
        col("type", "task_type", Kind::Text),
        col("node", "node_name", Kind::Named),
        col("state", "state", Kind::Text),
        col("phase", "phase", Kind::Text),
        col("code", "code", Kind::Text),
        col("took", "created_at..ended_at", Kind::Span),
        col("age", "created_at", Kind::Since),
        piped("simulated", "simulated", Kind::Text),
        extra("detail", "detail", Kind::Text),
        extra("node_id", "node_id", Kind::Id),
        extra("op_id", "op_id", Kind::Id),
        extra("actor", "actor_ref", Kind::Text),
        extra("start_by", "start_by", Kind::Until),
        extra("dispatched_at", "dispatched_at", Kind::Since),
        extra("started_at", "started_at", Kind::Since),
        extra("ended_at", "ended_at", Kind::Since),
        extra("timings", "timings", Kind::Text),
        extra("undone", "undone", Kind::Text),
        extra("output", "output", Kind::Text),
        extra("correlation_id", "correlation_id", Kind::Text),
    ],
    key: "id",
};

pub(crate) const TYPES: View = View {
    columns: &[
        col("type", "type", Kind::Text),
        col("version", "version", Kind::Text),
        col("changes_host", "changes_host", Kind::Text),
        col("destroys_data", "destroys_data", Kind::Text),
        col("summary", "summary", Kind::Text),
        extra("purpose", "purpose", Kind::Text),
        extra("max_runtime_s", "max_runtime_s", Kind::Text),
        extra("running_per_node", "running_per_node", Kind::Text),
    ],
    key: "type",
};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Tasks, newest first
    #[command(visible_alias = "ls")]
    List {
        /// Only of this node: an id or a name
        #[arg(long)]
        node: Option<String>,
        /// Only in this state: queued, dispatched, started, unknown, succeeded, failed, expired or cancelled
        #[arg(long)]
        state: Option<TaskState>,
        /// Only of this type, e.g. diag.health_probe
        #[arg(long = "type", value_name = "TYPE")]
        task_type: Option<String>,
        #[command(flatten)]
        limit: Limit,
    },
    /// One task with everything known about it
    Show {
        /// An id, or its last six or more characters
        task: String,
        /// Follow it until it ends
        #[arg(long)]
        wait: bool,
        /// How long to follow it: 90s, 5m
        #[arg(long, value_parser = duration::parse, default_value = "10m", requires = "wait")]
        timeout: Duration,
    },
    /// Everything that a node can be asked to do; there is nothing else
    Types,
    /// Stop a task that has not ended; what it did is undone
    Cancel {
        /// An id, or its last six or more characters
        task: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

pub(crate) async fn run(verb: Verb, session: &mut Session) -> Result<(), Failure> {
    match verb {
        Verb::List {
            node,
            state,
            task_type,
            limit,
        } => {
            let client = session.client()?;
            let node = match node {
                Some(typed) => Some(resolve(&client, Noun::Node, &typed).await?),
                None => None,
            };
            let filters = [
                ("node", node),
                ("state", state.map(|state| state.to_string())),
                ("type", task_type),
            ];
            session.list(Noun::Task.path(), &filters, &limit, &VIEW).await
        }
        Verb::Show { task, wait, timeout } => {
            let client = session.client()?;
            let id = resolve(&client, Noun::Task, &task).await?;
            let task = client.get(&path(&id)).await?;
            if wait {
                thread::follow(session, &client, task, timeout).await
            } else {
                session.out.record(&VIEW, &task)?;
                thread::show_phases(&mut session.out, &task)
            }
        }
        Verb::Types => {
            let document = session.client()?.get("/v1/task-types").await?;
            session.out.list(&TYPES, &document)
        }
        Verb::Cancel { task, yes } => {
            let client = session.client()?;
            let id = resolve(&client, Noun::Task, &task).await?;
            session.confirm(yes, &format!("cancel {}", text::short_id(&id)))?;
            let answer = client.post(&format!("{}/cancel", path(&id)), &json!({})).await?;
            let state = answer.get("state").and_then(Value::as_str).unwrap_or("cancelled");
            // A running task ends when its node has heard.
            let said = if state == "cancelled" {
                state.to_owned()
            } else {
                format!("will be cancelled; it is {}", text::plain(state))
            };
            done(session, &id, &said, &answer)
        }
    }
}

/// What is said of a task that nobody waits for.
pub(crate) fn asked(session: &mut Session, task: &Value) -> Result<(), Failure> {
    let word = |place: &str| text::plain(task.get(place).and_then(Value::as_str).unwrap_or_default());
    let (kind, node, id) = (word("task_type"), word("node_name"), word("id"));
    let short = text::short_id(&id);
    let done = Done::of(format!("{node} was asked for {kind}, as {short}"));
    let done = done.next(format!("gpuaas task show {short} --wait"));
    session.out.told(&VIEW, task, &done)
}

pub(crate) fn path(id: &str) -> String {
    format!("{}/{id}", Noun::Task.path())
}
