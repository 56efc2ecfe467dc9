//! The sealer: gives every committed audit row its place in the chain, within a second. It finds them by looking for
//! rows without a seal, never by a cursor, because a slow transaction commits rows that are older than ones already
//! sealed. One sealer works at a time.

use std::time::Duration;

use ::metrics::{counter, gauge};
use sqlx::postgres::PgConnection;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::reach::{Looked, RECENT};
use super::slice::{self, Place, START};
use super::{AuditRow, GENESIS, chain};
use crate::db::{Db, Lock, READER};
use crate::metrics::{AUDIT_SEALED, AUDIT_UNSEALED_SECONDS};

const EVERY: Duration = Duration::from_millis(500);
const BATCH: i64 = 500;
/// How often a look goes back by minutes although nothing asks for that.
const RECENT_EVERY: time::Duration = time::Duration::minutes(1);
/// Now and then the last hours are walked through, and at the start and once an hour everything: a slice with each look
/// at what is recent, which never waits for them.
const WIDE: time::Duration = time::Duration::hours(2);
const WIDE_EVERY: time::Duration = time::Duration::minutes(5);
const FULL_EVERY: time::Duration = time::Duration::hours(1);
/// Slices that a walk sees with each look: what is recent waits for them meanwhile.
const STEPS: usize = 5;
/// Slices that are read to say what waits.
const READS: usize = 20;

/// Runs until `stop` fires.
pub async fn sealer(db: Db, stop: CancellationToken) {
    let mut sealer = Sealer::default();
    loop {
        if let Some(age) = sealer.pass(&db).await {
            gauge!(AUDIT_UNSEALED_SECONDS).set(age);
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// Seals everything there is, unless somebody else is at it; for tests.
pub async fn seal_all(db: &Db) -> sqlx::Result<u64> {
    let (mut total, mut from) = (0, Some(START));
    while let Some(place) = from {
        let Some(step) = seal(db, place).await? else { break };
        total += step.sealed;
        from = step.next;
    }
    Ok(total)
}

/// What a sealer knows from one look to the next.
#[derive(Debug)]
pub struct Sealer {
    walks: [Walk; 2],
    /// When the last minutes were looked at.
    recent_at: Option<OffsetDateTime>,
    /// The last looks, if all that was there was sealed.
    looked: Option<Looked>,
    /// The oldest row that was seen without a seal when none could be given, by anybody.
    waits: Option<Place>,
}

impl Default for Sealer {
    fn default() -> Self {
        Self {
            walks: [Walk::new(WIDE_EVERY, Some(WIDE)), Walk::new(FULL_EVERY, None)],
            recent_at: None,
            looked: None,
            waits: None,
        }
    }
}

impl Sealer {
    /// Seals what is recent, then some of what is older. Returns how many seconds the oldest row has waited, if that can
    /// be told.
    pub async fn pass(&mut self, db: &Db) -> Option<f64> {
        let now = OffsetDateTime::from(db.clock().now());
        let mut oldest = None;
        let seen = self.look(db, now, &mut oldest).await;
        if let Err(error) = &seen {
            tracing::warn!(%error, "it cannot be told which audit rows wait for their seals");
        }
        older(&mut oldest, self.waits.map(|(at, _)| at));
        let age = oldest.map_or(0.0, |at| (now - at).as_seconds_f64().max(0.0));
        (seen.is_ok() || oldest.is_some()).then_some(age)
    }

    async fn look(&mut self, db: &Db, now: OffsetDateTime, oldest: &mut Option<OffsetDateTime>) -> sqlx::Result<()> {
        // A clock may be set back.
        let due = self.recent_at.is_none_or(|at| (now - at).abs() >= RECENT_EVERY);
        let (reach, wide) = match self.looked.take() {
            Some(looked) if !due => looked.reach(now),
            Some(_) | None => (RECENT, None),
        };
        let open = open_for(db).await.inspect_err(|error| {
            tracing::debug!(%error, "it cannot be told which transactions are open");
        });
        let mut from = (now - reach, Uuid::nil());
        let end = loop {
            match step(db, from, oldest).await {
                Next::More(place) => from = place,
                end => break end,
            }
        };
        if let Next::Failed = end {
            self.begin_anew();
        }
        // Whoever was at it may have been the one that looked at the last minutes, and may be gone by the next time.
        match end {
            Next::End | Next::More(_) => {
                self.looked = open.ok().map(|open| Looked::at((now, open), wide));
                self.recent_at = self.recent_at.filter(|_| !due).or(Some(now));
            }
            Next::Failed | Next::Theirs => self.recent_at = None,
        }
        // Whoever else is at it may have come to a halt.
        if let Next::Failed | Next::Theirs = end {
            self.note(db, from).await?;
        }
        if !matches!(end, Next::Theirs) {
            for n in 0..self.walks.len() {
                if let Err(place) = self.walks[n].go_on(db, now, oldest).await {
                    self.note(db, place).await?;
                }
            }
        }
        if let Some((_, id)) = self.waits
            && !still_waits(db, id).await?
        {
            self.waits = None;
        }
        Ok(())
    }

    /// What is recent now may be so no longer when it can be sealed.
    fn begin_anew(&mut self) {
        self.walks.iter_mut().for_each(|walk| walk.begun = None);
    }

    /// Remembers the oldest row behind `from` that waits, without sealing it.
    async fn note(&mut self, db: &Db, mut from: Place) -> sqlx::Result<()> {
        let mut conn = db.read().acquire().await?;
        for _ in 0..READS {
            if let Some(row) = slice::unsealed(&mut conn, from, 1).await?.first() {
                let place = (row.at, row.id);
                self.waits = Some(self.waits.map_or(place, |known| known.min(place)));
                return Ok(());
            }
            match slice::edge(&mut conn, from).await? {
                Some(place) => from = place,
                None => return Ok(()),
            }
        }
        Ok(())
    }
}

/// Goes through old rows, in time order, a slice at a time, and begins again when its time has come.
#[derive(Debug)]
struct Walk {
    every: time::Duration,
    /// How far back it begins; none is at the oldest row.
    reach: Option<time::Duration>,
    begun: Option<OffsetDateTime>,
    place: Option<Place>,
}

impl Walk {
    fn new(every: time::Duration, reach: Option<time::Duration>) -> Self {
        Self {
            every,
            reach,
            begun: None,
            place: None,
        }
    }

    /// Where it stands when it could not go on: it will try again from there.
    async fn go_on(&mut self, db: &Db, now: OffsetDateTime, oldest: &mut Option<OffsetDateTime>) -> Result<(), Place> {
        // A clock may be set back.
        let due = self.begun.is_none_or(|begun| (now - begun).abs() >= self.every);
        if self.place.is_none() && due {
            self.begun = Some(now);
            self.place = Some(self.reach.map_or(START, |reach| (now - reach, Uuid::nil())));
        }
        for _ in 0..STEPS {
            let Some(place) = self.place else { break };
            match step(db, place, oldest).await {
                Next::More(place) => self.place = Some(place),
                Next::End => self.place = None,
                Next::Theirs => break,
                Next::Failed => return Err(place),
            }
        }
        Ok(())
    }
}

fn older(oldest: &mut Option<OffsetDateTime>, at: Option<OffsetDateTime>) {
    *oldest = oldest.iter().copied().chain(at).min();
}

/// What follows a step.
enum Next {
    More(Place),
    End,
    /// Somebody else is sealing.
    Theirs,
    Failed,
}

async fn step(db: &Db, from: Place, oldest: &mut Option<OffsetDateTime>) -> Next {
    match seal(db, from).await {
        Ok(Some(step)) => {
            counter!(AUDIT_SEALED).increment(step.sealed);
            older(oldest, step.oldest);
            step.next.map_or(Next::End, Next::More)
        }
        Ok(None) => Next::Theirs,
        Err(error) => {
            tracing::warn!(%error, "audit rows cannot be sealed; trying again");
            Next::Failed
        }
    }
}

struct Step {
    sealed: u64,
    oldest: Option<OffsetDateTime>,
    next: Option<Place>,
}

/// Seals a batch of the slice behind `from`. None if somebody else is at it.
async fn seal(db: &Db, from: Place) -> sqlx::Result<Option<Step>> {
    let mut tx = Db::begin(db.bookkeeping()).await?;
    // Ended here in any case: the next step would find the lock of one that is only dropped still held.
    match seal_batch(&mut tx, from).await {
        Ok(step) => tx.commit().await.map(|()| step),
        Err(error) => {
            tx.rollback().await.ok();
            Err(error)
        }
    }
}

async fn seal_batch(conn: &mut PgConnection, from: Place) -> sqlx::Result<Option<Step>> {
    let mine: bool = sqlx::query_scalar("select pg_try_advisory_xact_lock($1)")
        .bind(Lock::AuditSealer.key())
        .fetch_one(&mut *conn)
        .await?;
    if !mine {
        return Ok(None);
    }
    // Until the end of this transaction only: nothing else in the process may write seals.
    sqlx::query("set local role gpuaas_sealer").execute(&mut *conn).await?;
    let rows = slice::unsealed(&mut *conn, from, BATCH).await?;
    let next = match rows.last() {
        Some(last) if rows.len() as i64 == BATCH => Some((last.at, last.id)),
        _ => slice::edge(&mut *conn, from).await?,
    };
    if !rows.is_empty() {
        append(conn, &rows).await?;
    }
    Ok(Some(Step {
        sealed: rows.len() as u64,
        oldest: rows.first().map(|row| row.at),
        next,
    }))
}

/// How long the oldest transaction of our role has been open that can write; nobody else writes here.
async fn open_for(db: &Db) -> sqlx::Result<time::Duration> {
    let seconds: f64 = sqlx::query_scalar(
        "select greatest(extract(epoch from max(clock_timestamp() - xact_start)), 0)::float8 from pg_stat_activity
         where datname = current_database() and usename = current_user and application_name <> $1",
    )
    .bind(READER)
    .fetch_one(db.read())
    .await?;
    Ok(time::Duration::seconds_f64(seconds))
}

async fn still_waits(db: &Db, id: Uuid) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "select exists (select from audit where id = $1 and not exists (select from audit_seal where audit_id = $1))",
    )
    .bind(id)
    .fetch_one(db.read())
    .await
}

async fn append(conn: &mut PgConnection, rows: &[AuditRow]) -> sqlx::Result<()> {
    let head: Option<(i64, Vec<u8>)> = sqlx::query_as("select pos, hash from audit_head")
        .fetch_optional(&mut *conn)
        .await?;
    let (mut pos, mut hash) = head.unwrap_or((0, GENESIS.to_vec()));
    let (mut places, mut ids, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        pos += 1;
        hash = chain(&hash, row).as_bytes().to_vec();
        places.push(pos);
        ids.push(row.id);
        hashes.push(hash.clone());
    }
    sqlx::query(
        "insert into audit_seal (pos, audit_id, hash) select * from unnest($1::bigint[], $2::uuid[], $3::bytea[])",
    )
    .bind(places)
    .bind(ids)
    .bind(hashes)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "insert into audit_head (pos, hash) values ($1, $2)
         on conflict (only_one) do update set pos = excluded.pos, hash = excluded.hash",
    )
    .bind(pos)
    .bind(hash)
    .execute(&mut *conn)
    .await?;
    Ok(())
}
