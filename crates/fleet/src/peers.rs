//! The other processes with node-facing listeners. One that stands still keeps its connections, and the nodes whose waits
//! it holds can say nothing until it goes on or they give up: their silence is ours. Each process says often, on a
//! connection of its own to the database, that it goes on; whoever has the connection and says nothing stands still.
//! One that was killed has no connection, and its nodes come back at once.

use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection, PgPool};

use crate::{Fleet, Limits};

/// What such a connection calls itself.
const NAME: &str = "gpuaasd listener";
const SIGN_EVERY: Duration = Duration::from_millis(400);
/// Whoever has said nothing by then says it on another connection.
const SIGN_MOST: Duration = Duration::from_secs(2);
/// By then every agent has given up its wait and asked somebody else.
pub(crate) const MISSED_FOR: Duration = Duration::from_secs(90);

/// Without a sign for so long a process stands still. Shorter than what is left of the time to be stale when a wait has
/// been held for as long as one can be.
pub(crate) fn away(limits: &Limits) -> Duration {
    Duration::from_millis((limits.stale_ms / 25).clamp(1000, 2000).unsigned_abs())
}

/// Says that this process goes on, until it stops.
pub(crate) async fn sign_loop(fleet: Fleet) {
    let mut conn = None;
    let mut slept = Instant::now();
    while fleet.running(tokio::time::sleep(SIGN_EVERY)).await {
        // Nobody was told that we go on, and nobody's word was heard.
        if slept.elapsed() >= SIGN_EVERY + away(&fleet.limits) {
            fleet.presence.listen_anew();
        }
        let signed = tokio::select! {
            biased;
            // Whoever stops waits for no answer.
            () = fleet.stop.cancelled() => return,
            signed = tokio::time::timeout(SIGN_MOST, sign(&fleet, &mut conn)) => signed,
        };
        match signed {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(%error, "no sign that this process goes on");
                conn = None;
            }
            Err(_) => {
                tracing::debug!("a sign that this process goes on was not answered");
                conn = None;
            }
        }
        slept = Instant::now();
    }
}

async fn sign(fleet: &Fleet, conn: &mut Option<PgConnection>) -> sqlx::Result<()> {
    let conn = match conn {
        Some(conn) => conn,
        None => {
            let options = fleet.app.db.connect_options().clone().application_name(NAME);
            conn.insert(PgConnection::connect_with(&options).await?)
        }
    };
    sqlx::query("select 1").execute(conn).await.map(drop)
}

/// Is there one that stands still, or did until a moment ago?
pub(crate) async fn one_stands_still(pool: &PgPool, limits: &Limits) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "select exists (select from pg_stat_activity
                        where datname = current_database() and usename = current_user and application_name = $1
                          and extract(epoch from clock_timestamp() - state_change)::float8 between $2 and $3)",
    )
    .bind(NAME)
    .bind(away(limits).as_secs_f64())
    .bind(MISSED_FOR.as_secs_f64())
    .fetch_one(pool)
    .await
}
