//! Attempts that changed nothing and are worth an audit row all the same: what was refused, and what went wrong.

use ::metrics::counter;
use model::signal::Code;
use serde_json::{Value, json};

use super::{Act, Actor, Outcome, Target, insert_audit};
use crate::db::Db;
use crate::metrics::AUDIT_SUPPRESSED;

impl Db {
    /// Records that authority was refused. Its own transaction: the refused change has none. The same refusal over and
    /// over is counted rather than written.
    pub async fn refusal(
        &self,
        actor: &Actor,
        action: &'static str,
        target: impl Into<Target>,
        code: Code,
    ) -> sqlx::Result<()> {
        self.refusal_of(actor, action, target, code, json!({})).await
    }

    /// The same, with what else is known of it.
    pub(crate) async fn refusal_of(
        &self,
        actor: &Actor,
        action: &'static str,
        target: impl Into<Target>,
        code: Code,
        details: Value,
    ) -> sqlx::Result<()> {
        let key = format!("{} {} {action} {code}", actor.kind.as_str(), actor.id);
        if !self.refusals().allows(key) {
            counter!(AUDIT_SUPPRESSED, "action" => action, "code" => code.as_str()).increment(1);
            return Ok(());
        }
        let outcome = Outcome::Refused(code);
        self.record(actor, action, target.into(), outcome, details).await
    }

    /// Records that something permitted was tried and went wrong, where that is worth keeping.
    pub async fn failure(
        &self,
        actor: &Actor,
        action: &'static str,
        target: impl Into<Target>,
        code: Code,
    ) -> sqlx::Result<()> {
        let outcome = Outcome::Failed(code);
        self.record(actor, action, target.into(), outcome, json!({})).await
    }

    async fn record(
        &self,
        actor: &Actor,
        action: &'static str,
        target: Target,
        outcome: Outcome,
        details: Value,
    ) -> sqlx::Result<()> {
        let act = Act {
            action,
            target,
            details,
        };
        let mut conn = self.writer().acquire().await?;
        insert_audit(&mut conn, actor, &act, outcome, self.clock().now()).await
    }
}
