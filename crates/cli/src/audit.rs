//! `gpuaas audit`: read the log, and check that its chain still holds.

use clap::{Args, Subcommand};
use model::signal::Code;
use serde_json::Value;

use crate::client::{Client, PAGE, encode, leads_nowhere};
use crate::failure::{Exit, Failure};
use crate::ids::{Noun, resolve};
use crate::output::Format;
use crate::output::column::{Kind, View, col, extra, find};
use crate::output::text;
use crate::session::{Limit, Session};

pub(crate) const VIEW: View = View {
    columns: &[
        col("age", "at", Kind::Since),
        col("actor", "actor_kind", Kind::Text),
        col("actor_id", "actor_id", Kind::Id),
        col("action", "action", Kind::Text),
        col("target", "target_id", Kind::Id),
        col("outcome", "outcome", Kind::Text),
        col("code", "code", Kind::Text),
        extra("id", "id", Kind::Id),
        extra("pos", "pos", Kind::Text),
        extra("target_kind", "target_kind", Kind::Text),
        extra("correlation_id", "correlation_id", Kind::Text),
        extra("details", "details", Kind::Text),
    ],
    key: "id",
};

/// As the owners of a project read it.
pub(crate) const OF_PROJECT: View = View {
    columns: &[
        col("age", "at", Kind::Since),
        col("actor", "actor_kind", Kind::Text),
        col("actor_id", "actor_id", Kind::Id),
        col("action", "action", Kind::Text),
        col("target", "target_id", Kind::Id),
        col("outcome", "outcome", Kind::Text),
        col("code", "code", Kind::Text),
        extra("id", "id", Kind::Id),
        extra("target_kind", "target_kind", Kind::Text),
        extra("correlation_id", "correlation_id", Kind::Text),
        extra("details", "details", Kind::Text),
    ],
    key: "id",
};

pub(crate) const VERDICT: View = View {
    columns: &[
        extra("sealed", "sealed", Kind::Text),
        extra("unsealed", "unsealed", Kind::Text),
        extra("oldest_unsealed_ms", "oldest_unsealed_ms", Kind::Text),
        extra("head", "head", Kind::Text),
        extra("broken_at", "broken.pos", Kind::Text),
        extra("broken_why", "broken.why", Kind::Text),
    ],
    key: "head",
};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Who did what to what, newest first
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        limit: Limit,
    },
    /// All of it, newest first, as lines of JSON
    Export {
        #[command(flatten)]
        which: Which,
    },
    /// Check the chain from its first row to its last; exit 7 if it is broken
    Verify {
        /// The head of an earlier verification, kept elsewhere: must still be part of the chain
        #[arg(long)]
        head: Option<String>,
    },
}

/// Which rows.
#[derive(Args)]
pub(crate) struct Which {
    /// Only this action, e.g. node.quarantine
    #[arg(long)]
    action: Option<String>,
    /// Only what was done to this: an id, short or whole
    #[arg(long, value_name = "ID")]
    target: Option<String>,
    /// Only by this user, node or process, by its whole id
    #[arg(long, value_name = "ID")]
    actor: Option<String>,
    /// Only with this outcome: ok, refused or failed
    #[arg(long)]
    outcome: Option<String>,
    /// Only what one request caused
    #[arg(long, value_name = "UUID")]
    correlation_id: Option<uuid::Uuid>,
}

impl Which {
    pub(crate) async fn filters(self, client: &Client) -> Result<[(&'static str, Option<String>); 5], Failure> {
        let target = match self.target {
            Some(typed) => Some(whole(client, &typed).await?),
            None => None,
        };
        Ok([
            ("action", self.action),
            ("target", target),
            ("actor", self.actor),
            ("outcome", self.outcome),
            ("correlation_id", self.correlation_id.map(|id| id.to_string())),
        ])
    }
}

pub(crate) async fn run(verb: Verb, session: &mut Session) -> Result<(), Failure> {
    let client = session.client()?;
    match verb {
        Verb::List { which, limit } => {
            let filters = which.filters(&client).await?;
            session.list("/v1/audit", &filters, &limit, &VIEW).await
        }
        Verb::Export { which } => {
            let filters = which.filters(&client).await?;
            export(session, "/v1/audit", &filters).await
        }
        Verb::Verify { head } => verify(session, head).await,
    }
}

/// Every row on a line of its own, as it comes: however many there are, one page at a time is held.
pub(crate) async fn export(
    session: &mut Session,
    path: &str,
    filters: &[(&str, Option<String>)],
) -> Result<(), Failure> {
    let client = session.client()?;
    let mut after: Option<String> = None;
    let mut empty = 0;
    loop {
        let (items, next) = client.page(path, filters, PAGE, after.as_deref()).await?;
        empty = if items.is_empty() { empty + 1 } else { 0 };
        let stuck = leads_nowhere(empty, after.as_deref(), next.as_deref());
        for row in &items {
            session.out.ndjson(row)?;
        }
        after = next;
        if after.is_none() || stuck {
            return Ok(());
        }
    }
}

/// Short ids of what can be listed are looked up; anything else is taken as it is.
async fn whole(client: &Client, typed: &str) -> Result<String, Failure> {
    let kind = typed.split_once('_').map(|(kind, _)| kind);
    match [Noun::Node, Noun::Task, Noun::Token, Noun::Allocation]
        .into_iter()
        .find(|noun| Some(noun.prefix()) == kind)
    {
        Some(noun) => resolve(client, noun, typed).await,
        None => Ok(typed.to_owned()),
    }
}

async fn verify(session: &mut Session, head: Option<String>) -> Result<(), Failure> {
    let query = head.map(|head| format!("?head={}", encode(&head))).unwrap_or_default();
    let verdict = session.client()?.get(&format!("/v1/audit/verify{query}")).await?;
    session.out.record(&VERDICT, &verdict)?;
    let why = find(&verdict, "broken.why");
    if !find(&verdict, "broken").is_null() {
        let pos = find(&verdict, "broken.pos").as_i64().unwrap_or_default();
        let message = format!(
            "the audit chain is broken at position {pos}: {}",
            text::plain(why.as_str().unwrap_or("no reason given"))
        );
        return Err(Failure::new(Exit::CheckFailed, Code::AuditChainBroken, message));
    }
    if session.out.format == Format::Table {
        let sealed = verdict.get("sealed").and_then(Value::as_i64).unwrap_or_default();
        session.out.note(&format!("intact: {sealed} rows"))?;
    }
    Ok(())
}
