//! The one transaction type. A `Change` writes what happened, the events that tell of it and the audit row that says
//! who did it, together or not at all; only after the commit does it wake those who wait. Dropped without `commit`,
//! it leaves nothing. There is no other way to write a business table.

use std::sync::Arc;

use model::id::{AuditId, EventId, NodeId};
use model::signal::Code;
use model::time::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::{PgConnection, Postgres, Transaction};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::db::Db;
use crate::idempotency::Once;
use crate::wake::Topic;

mod actor;
mod limit;
mod refusal;
pub use actor::{Actor, ActorKind, Target};
pub(crate) use limit::Limiter;

/// An open change. Its audit row is written at `commit`, in the same transaction as everything else.
pub struct Change {
    tx: Transaction<'static, Postgres>,
    db: Db,
    actor: Actor,
    at: Timestamp,
    acts: Vec<Act>,
    events: Vec<Event>,
    wakes: Vec<Topic>,
    calls: Vec<NodeId>,
    /// The key that its request came under, if this change is the first to keep it.
    once: Option<Arc<Once>>,
}

struct Act {
    action: &'static str,
    target: Target,
    details: Value,
}

struct Event {
    kind: &'static str,
    subject: Target,
    data: Value,
}

/// How an attempt ended that changed nothing, as the audit has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Refused(Code),
    Failed(Code),
}

impl Db {
    /// Opens a change by `actor`. The action is a word of ours (`node.quarantine`), never text from outside.
    pub async fn change(&self, actor: &Actor, action: &'static str, target: impl Into<Target>) -> sqlx::Result<Change> {
        let mut change = Change {
            tx: Db::begin(self.writer()).await?,
            db: self.clone(),
            actor: actor.clone(),
            at: self.clock().now(),
            acts: vec![Act {
                action,
                target: target.into(),
                details: json!({}),
            }],
            events: Vec::new(),
            wakes: Vec::new(),
            calls: Vec::new(),
            once: None,
        };
        let person = matches!(actor.kind, ActorKind::User | ActorKind::Token);
        if let Some(once) = Once::here().filter(|once| person && !once.is_kept()) {
            if let Some(decided) = once.look(&mut change).await? {
                change.rollback().await?;
                match once.decide(decided).await {}
            }
            change.once = Some(once);
        }
        Ok(change)
    }
}

impl Change {
    /// The connection inside the transaction. Await nothing but the database while the change is open.
    pub fn conn(&mut self) -> &mut PgConnection {
        &mut self.tx
    }

    /// The moment of this change, read once, so that all its rows agree.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Whose request this belongs to, when only a row that the change has locked can tell.
    pub fn belongs_to(&mut self, correlation_id: Uuid) {
        self.actor.correlation_id = correlation_id;
    }

    /// What its first audit row is about, when only rows that the change has locked can tell.
    pub fn is_about(&mut self, target: impl Into<Target>) {
        if let Some(first) = self.acts.first_mut() {
            first.target = target.into();
        }
    }

    /// An event that everybody hears once this change is committed.
    pub fn event(&mut self, kind: &'static str, subject: impl Into<Target>, data: impl Serialize) -> &mut Self {
        // Data is made of our own types; one that does not serialise is a bug worth seeing in the event itself.
        let data = serde_json::to_value(data).unwrap_or_else(|error| json!({ "unserialisable": error.to_string() }));
        if cfg!(debug_assertions) {
            promised(kind, &data);
        }
        self.events.push(Event {
            kind,
            subject: subject.into(),
            data,
        });
        self
    }

    /// Details of the latest audit row: what changed, never secrets.
    pub fn detail(&mut self, details: Value) -> &mut Self {
        if let Some(act) = self.acts.last_mut() {
            act.details = details;
        }
        self
    }

    /// A further audit row, for a change that does two things.
    pub fn also(&mut self, action: &'static str, target: impl Into<Target>) -> &mut Self {
        self.acts.push(Act {
            action,
            target: target.into(),
            details: json!({}),
        });
        self
    }

    /// Who is to look again once this is committed.
    pub fn wake(&mut self, topic: Topic) -> &mut Self {
        self.wakes.push(topic);
        self
    }

    /// For which node there is something once this is committed.
    pub fn call(&mut self, node: NodeId) -> &mut Self {
        if !self.calls.contains(&node) {
            self.calls.push(node);
        }
        self
    }

    pub async fn commit(mut self) -> sqlx::Result<()> {
        // Another change of the same request may have been faster.
        match self.once.take().filter(|once| !once.is_kept()) {
            // Whoever gives up in the middle of a commit could not say whether it was done.
            Some(once) => {
                let done = tokio::spawn(self.committed(Some(once)));
                done.await.map_err(|_| sqlx::Error::WorkerCrashed)?
            }
            None => self.committed(None).await,
        }
    }

    async fn committed(mut self, once: Option<Arc<Once>>) -> sqlx::Result<()> {
        if let Some(once) = &once {
            once.mark(&mut self.tx, self.at).await?;
        }
        insert_all(&mut self.tx, &self.actor, &self.events, &self.acts, self.at).await?;
        self.tx.commit().await?;
        if let Some(once) = once {
            once.marked();
        }
        // Never before: NOTIFY inside the transaction would serialise every commit, and a listener that looks
        // before the commit sees nothing.
        if !self.events.is_empty() {
            self.wakes.push(Topic::Outbox);
        }
        if !self.calls.is_empty() || !self.wakes.is_empty() {
            self.db.wake().tell(&self.calls, &self.wakes);
        }
        Ok(())
    }

    /// Says out loud what dropping does anyway.
    pub async fn rollback(self) -> sqlx::Result<()> {
        self.tx.rollback().await
    }
}

/// An event that is not in the table, or is of another shape than the table promises, is a bug that no test gets past. In
/// production it would be told to nobody, which is the lesser evil then.
fn promised(kind: &str, data: &Value) {
    match model::event::find(kind) {
        Some(known) => {
            let fits = known.fits(data);
            assert!(fits.is_ok(), "{kind} is not what model::event says: {fits:?}: {data}");
        }
        None => assert!(kind.starts_with("test."), "{kind} is not in the table of model::event"),
    }
}

/// What happened and who did it, in one statement: every further one would cost a way to the server and back while
/// rows are locked. Events draw their numbers in the order in which they were told.
async fn insert_all(
    conn: &mut PgConnection,
    actor: &Actor,
    events: &[Event],
    acts: &[Act],
    at: Timestamp,
) -> sqlx::Result<()> {
    fn all<'a, T, U>(rows: &'a [T], of: impl Fn(&'a T) -> U) -> Vec<U> {
        rows.iter().map(of).collect()
    }
    sqlx::query(
        "with told as (
             insert into outbox (id, kind, subject_kind, subject_id, subject_version, data, correlation_id, created_at)
             select id, kind, subject_kind, subject_id, subject_version, data, $6, $7
             from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::jsonb[], $16::bigint[])
                  with ordinality as event (id, kind, subject_kind, subject_id, data, subject_version, place)
             order by place)
         insert into audit (id, at, actor_kind, actor_id, address, action, target_kind, target_id, outcome, code,
                            correlation_id, details_text)
         select id, $7, $8, $9, $10, action, target_kind, target_id, 'ok', null, $6, details_text
         from unnest($11::uuid[], $12::text[], $13::text[], $14::text[], $15::text[])
              as act (id, action, target_kind, target_id, details_text)",
    )
    .bind(all(events, |_| EventId::new().uuid()))
    .bind(all(events, |event| event.kind))
    .bind(all(events, |event| event.subject.kind))
    .bind(all(events, |event| event.subject.id.as_str()))
    .bind(all(events, |event| event.data.clone()))
    .bind(actor.correlation_id)
    .bind(OffsetDateTime::from(at))
    .bind(actor.kind.as_str())
    .bind(&actor.id)
    .bind(actor.address.map(|address| address.to_string()))
    .bind(all(acts, |_| AuditId::new().uuid()))
    .bind(all(acts, |act| act.action))
    .bind(all(acts, |act| act.target.kind))
    .bind(all(acts, |act| act.target.id.as_str()))
    .bind(all(acts, |act| act.details.to_string()))
    .bind(all(events, |event| event.subject.version))
    .execute(conn)
    .await?;
    Ok(())
}

async fn insert_audit(
    conn: &mut PgConnection,
    actor: &Actor,
    act: &Act,
    outcome: Outcome,
    at: Timestamp,
) -> sqlx::Result<()> {
    let (word, code) = match outcome {
        Outcome::Refused(code) => ("refused", code.as_str()),
        Outcome::Failed(code) => ("failed", code.as_str()),
    };
    sqlx::query(
        "insert into audit (id, at, actor_kind, actor_id, address, action, target_kind, target_id, outcome, code,
                            correlation_id, details_text)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    )
    .bind(AuditId::new().uuid())
    .bind(OffsetDateTime::from(at))
    .bind(actor.kind.as_str())
    .bind(&actor.id)
    .bind(actor.address.map(|address| address.to_string()))
    .bind(act.action)
    .bind(act.target.kind)
    .bind(&act.target.id)
    .bind(word)
    .bind(code)
    .bind(actor.correlation_id)
    .bind(act.details.to_string())
    .execute(conn)
    .await?;
    Ok(())
}

/// A correlation id for work that no request asked for.
pub fn fresh_correlation() -> Uuid {
    Uuid::now_v7()
}
