//! The fleet's loops. Each takes no input: it looks at the database, does what is missing, says what it did; on a
//! timer and on a nudge.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use base::tx::Actor;
use base::wake::Topic;
use model::id::{NodeId, SlotId, TaskId};
use model::signal::Code;
use model::state::{NodeState, TaskState};
use serde_json::json;
use time::OffsetDateTime;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::Fleet;
use crate::metrics::{ALARMS, CONNECTIONS_CUT, IDENTITY_AGE, SILENCE_SUSPENDED};
use crate::node::state;
use crate::node::store::{self as nodes, ProbeRule};
use crate::slot::store as slots;
use crate::task::{self, claim, ends, enqueue_discovery, enqueue_probe, retention};
use crate::{image, peers, telemetry, trust};

/// Between two looks at the nodes.
const NODES_EVERY: Duration = Duration::from_millis(500);
/// A process that does not get around for so long was stopped, or is in trouble: it has heard nobody, whoever spoke.
const AWAY: Duration = Duration::from_secs(10);
/// Between two looks at a busy queue.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// Starts them. Every process with node-facing listeners runs all of them; each pass is safe to run twice at once.
pub fn spawn(fleet: &Fleet, loops: &mut JoinSet<()>) {
    loops.spawn(identity_loop(fleet.clone()));
    let dispatch = fleet.dispatch.clone();
    fleet.app.wake.on_call(move |node| dispatch.ring(node));
    loops.spawn(dispatch_loop(fleet.clone()));
    loops.spawn(goodbye(fleet.clone()));
    loops.spawn(presence_loop(fleet.clone()));
    loops.spawn(trust_loop(fleet.clone()));
    loops.spawn(task_loop(fleet.clone()));
    loops.spawn(peers::sign_loop(fleet.clone()));
    loops.spawn(node_loop(fleet.clone()));
    loops.spawn(slot_loop(fleet.clone()));
    loops.spawn(retention_loop(fleet.clone()));
}

async fn identity_loop(fleet: Fleet) {
    let mut news = fleet.app.wake.subscribe(Topic::Revoked);
    let sweep = Duration::from_millis(fleet.limits.sweep_ms);
    while fleet.running(news.look_again(sweep)).await {
        match swept(&fleet, sweep).await {
            Ok(changed) => {
                // Held requests are answered first; then nothing keeps their connections.
                changed.into_iter().for_each(|node| fleet.dispatch.nudge(node));
                let cut = fleet
                    .connections
                    .cut(|serial, since| fleet.identity.is_over(serial, since));
                metrics::counter!(CONNECTIONS_CUT).increment(cut as u64);
            }
            Err(error) => tracing::warn!(%error, "the identity table could not be swept"),
        }
        tell_age(&fleet);
    }
}

/// One sweep. A database that does not answer at all ends it before the table is too old, so that the next one may find
/// another way there; and meanwhile everybody hears how old the table is.
async fn swept(fleet: &Fleet, sweep: Duration) -> sqlx::Result<HashSet<NodeId>> {
    let look = fleet.identity.refresh(fleet.app.db.read(), fleet.app.clock.now());
    tokio::pin!(look);
    let given_up = tokio::time::sleep(fleet.identity.patience());
    tokio::pin!(given_up);
    loop {
        tokio::select! {
            swept = &mut look => return swept,
            () = &mut given_up => return Err(sqlx::Error::PoolTimedOut),
            () = tokio::time::sleep(sweep) => tell_age(fleet),
        }
    }
}

fn tell_age(fleet: &Fleet) {
    let stale = fleet.identity.is_stale().then_some(Code::IdentityStale);
    fleet.app.readiness.set("identity", stale);
    metrics::gauge!(IDENTITY_AGE).set(fleet.identity.age().map_or(f64::INFINITY, |age| age.as_secs_f64()));
}

async fn dispatch_loop(fleet: Fleet) {
    let mut news = fleet.app.wake.subscribe(Topic::Tasks);
    let sweep = Duration::from_millis((fleet.limits.redeliver_ms as u64).max(500));
    while fleet.running(news.look_again(sweep)).await {
        let now = fleet.app.clock.now();
        fleet.dispatch.begin_look();
        match claim::nodes_with_work(fleet.app.db.read(), now, fleet.limits.redeliver_ms).await {
            Ok(work) => fleet.dispatch.set_work(work),
            Err(error) => tracing::warn!(%error, "no look at the queue"),
        }
        // Whoever comes to an idle queue is served at once; a busy one is looked at for many together.
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Whoever waits hears that this process stops; each looks after itself from there.
async fn goodbye(fleet: Fleet) {
    fleet.stop.cancelled().await;
    fleet.dispatch.ring_all();
}

async fn presence_loop(fleet: Fleet) {
    while fleet.running(tokio::time::sleep(Duration::from_millis(500))).await {
        let flushed = fleet
            .presence
            .flush(fleet.app.db.bookkeeping(), fleet.app.clock.now())
            .await;
        if let Err(error) = flushed {
            tracing::warn!(%error, "last-seen times were not written");
        }
    }
}

/// Keeps up with the manifest, does what is due with the keys, and says when a person is needed.
async fn trust_loop(fleet: Fleet) {
    let mut news = fleet.app.wake.subscribe(Topic::Trust);
    let sweep = Duration::from_millis(fleet.limits.sweep_ms);
    let mut told = trust::Told::default();
    let mut trouble = None;
    while fleet.running(news.look_again(sweep)).await {
        let followed = trust::follow(&fleet).await;
        if let Err(error) = &followed {
            tracing::error!(error = %format!("{error:#}"), "the newest manifest was not looked for; the old one stays");
        }
        if let Err(error) = image::follow(&fleet).await {
            tracing::error!(error = %format!("{error:#}"), "the newest image catalogue was not looked for; the old one stays");
        }
        if let Err(error) = task::reissue::queued(&fleet).await {
            tracing::warn!(code = %error.code, "tasks of a revoked key were not issued again yet");
        }
        let kept_up = trust::upkeep(&fleet).await.err().map(|error| error.code);
        trust::watch_ends(&fleet, &mut told);
        let now = match fleet.keyring().missing().is_empty() {
            true => kept_up,
            false => Some(Code::SigningKeyMissing),
        };
        if now != trouble {
            match now {
                Some(code) => {
                    tracing::error!(%code, missing = ?fleet.keyring().missing(), recovery = code.recovery(), "the signing keys are not in order")
                }
                None => tracing::info!("the signing keys are in order again"),
            }
        }
        trouble = now;
        // What is expired is no reason to take this process away: it is the one that can mend it.
        let unready = now.filter(|code| *code == Code::SigningKeyMissing);
        fleet.app.readiness.set("trust", unready);
        if matches!(followed, Ok(true)) {
            trust::sweep_files(&fleet);
        }
    }
}

/// For a process that signs and has no listeners: keeps up with the manifest, and does nothing else about the keys.
pub async fn follow_keys(fleet: Fleet) {
    let mut news = fleet.app.wake.subscribe(Topic::Trust);
    let sweep = Duration::from_millis(fleet.limits.sweep_ms);
    while fleet.running(news.look_again(sweep)).await {
        if let Err(error) = trust::follow(&fleet).await {
            tracing::error!(error = %format!("{error:#}"), "the newest manifest was not looked for; the old one stays");
        }
    }
}

async fn task_loop(fleet: Fleet) {
    while fleet.running(tokio::time::sleep(Duration::from_millis(1000))).await {
        if let Err(error) = overdue_tasks(&fleet).await {
            tracing::warn!(%error, "overdue tasks were not looked at");
        }
    }
}

/// Queued past its time is expired; handed out and silent is unknown, with an alarm.
pub async fn overdue_tasks(fleet: &Fleet) -> sqlx::Result<()> {
    if !ends::any_overdue(fleet.app.db.read(), fleet.app.clock.now()).await? {
        return Ok(());
    }
    let mut change = fleet
        .app
        .db
        .change(&Actor::system("task-loop"), "task.overdue", fleet.app.installation)
        .await?;
    let expired = ends::expired(&mut change).await?;
    let unknown = ends::lease_lost(&mut change).await?;
    if expired.is_empty() && unknown.is_empty() {
        // Another process was faster; an audit row about nothing helps nobody.
        return change.rollback().await;
    }
    change.detail(json!({ "expired": expired.len(), "unknown": unknown.len() }));
    for task in &expired {
        change.also("task.expire", TaskId::from(task.id));
        ends::ended(&mut change, task, TaskState::Expired, Code::StartByPassed);
    }
    for task in &unknown {
        change.also("task.lose_sight", TaskId::from(task.id));
        let data = json!({ "node_id": NodeId::from(task.node_id), "type": task.task_type });
        change.event("task.unknown", TaskId::from(task.id), data);
        // It is handed out again to whoever has it.
        change.call(task.node_id.into());
    }
    change.wake(Topic::Progress);
    change.commit().await?;
    metrics::counter!(ALARMS, "code" => "task_unknown").increment(unknown.len() as u64);
    Ok(())
}

async fn retention_loop(fleet: Fleet) {
    while fleet.running(tokio::time::sleep(Duration::from_secs(60))).await {
        let (pool, now) = (fleet.app.db.bookkeeping(), fleet.app.clock.now());
        let looks = retention::forget_looks(pool, now.plus_s(-fleet.limits.probe_keep_s)).await;
        let guests = telemetry::forget(pool, now.plus_s(-telemetry::KEEP_S)).await;
        for (what, gone) in [("probes", looks), ("numbers of guests", guests)] {
            match gone {
                Ok(0) => {}
                Ok(gone) => tracing::info!(gone, what, "old ones were forgotten"),
                Err(error) => tracing::warn!(%error, what, "old ones were not forgotten"),
            }
        }
    }
}

/// Says once of every slot that nobody tends to it; what to do about it is a person's decision, or a workflow's. Slots that
/// only a look keeps from service get one.
async fn slot_loop(fleet: Fleet) {
    let mut told: HashSet<(Uuid, OffsetDateTime)> = HashSet::new();
    while fleet.running(tokio::time::sleep(Duration::from_secs(10))).await {
        let before = fleet.app.clock.now().plus_s(-slots::UNTENDED_S);
        match slots::untended(fleet.app.db.read(), before).await {
            Ok(now) => {
                told.retain(|known| now.contains(known));
                for fresh in now {
                    if told.insert(fresh) {
                        metrics::counter!(ALARMS, "code" => Code::SlotUntended.as_str()).increment(1);
                        tracing::warn!(slot_id = %SlotId::from(fresh.0), code = %Code::SlotUntended, "a slot stands still");
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "slots that stand still were not looked for"),
        }
        if let Err(error) = due_looks(&fleet).await {
            tracing::warn!(%error, "due discoveries were not asked for");
        }
    }
}

/// Where a provision failed by its host's fault and the discovery that would end that came to nothing, there is another.
pub async fn due_looks(fleet: &Fleet) -> Result<(), base::http::ApiError> {
    let now = fleet.app.clock.now();
    for id in slots::unlooked(fleet.app.db.read(), None, now).await? {
        let id = NodeId::from(id);
        let actor = Actor::system("slot-loop");
        let mut change = fleet.app.db.change(&actor, "node.discover", id).await?;
        state::lock(&mut change, id).await?;
        // Another process may have asked for it since we looked.
        if slots::unlooked(change.conn(), Some(id), now).await?.is_empty() {
            continue;
        }
        match enqueue_discovery(fleet, &mut change, id).await {
            Ok(_) => change.commit().await?,
            Err(error) => tracing::debug!(node_id = %id, code = %error.code, "no discovery yet"),
        }
    }
    Ok(())
}

async fn node_loop(fleet: Fleet) {
    // Looking for silence, or for old proofs, means looking at every node; a small share of the time that it takes to be
    // silent or old is often enough.
    let often = fleet.limits.stale_ms.min(fleet.limits.probe_every_ms) / 25;
    let often = Duration::from_millis(often.max(500).unsigned_abs());
    let (mut looked, mut more) = (Instant::now(), false);
    let (mut round, mut slept) = (Instant::now(), Instant::now());
    while fleet.running(tokio::time::sleep(NODES_EVERY)).await {
        // One that overslept stood still, too, but never for long enough to be noticed by the first rule.
        if round.elapsed() >= AWAY || slept.elapsed() >= NODES_EVERY + peers::away(&fleet.limits) {
            tracing::warn!("this process stood still; the silence of nodes counts from now on");
            fleet.presence.listen_anew();
        }
        round = Instant::now();
        let all = looked.elapsed() >= often;
        if all {
            looked = Instant::now();
            if let Err(error) = silent_nodes(&fleet).await {
                tracing::warn!(%error, "silent nodes were not looked at");
            }
        }
        more = match due_probes(&fleet, all || more).await {
            Ok(asked) => asked == nodes::PROBES_AT_ONCE,
            Err(error) => {
                tracing::warn!(%error, "due probes were not asked for");
                false
            }
        };
        slept = Instant::now();
    }
}

/// Whoever was not heard for too long is stale, by name and with an event.
pub async fn silent_nodes(fleet: &Fleet) -> Result<(), base::http::ApiError> {
    // Taken first: whatever stands still from here on only makes it older.
    let now = fleet.app.clock.now();
    if fleet.presence.clock_jumped(now) {
        tracing::warn!("the clock of this machine has jumped; the silence of nodes counts from now on");
        fleet.presence.listen_anew();
    }
    if let Some(ahead_ms) = fleet.presence.to_date_back()
        && nodes::date_back(fleet.app.db.bookkeeping(), now, ahead_ms).await?
    {
        fleet.presence.dated_back();
    }
    if peers::one_stands_still(fleet.app.db.read(), &fleet.limits).await? {
        if fleet.presence.listening_ms() > AWAY.as_millis() as i64 {
            tracing::warn!("another process stands still; the silence of nodes counts from its end on");
        }
        metrics::counter!(SILENCE_SUSPENDED).increment(1);
        fleet.presence.others_stood_still();
    }
    // After an outage of ours nobody could be heard: silence counts only since we have been listening.
    let missed_ms = peers::MISSED_FOR.as_millis() as i64;
    let Some(silence_ms) = fleet.presence.silence_ms(fleet.limits.stale_ms, missed_ms) else {
        return Ok(());
    };
    let before = now.plus_ms(-silence_ms);
    for id in nodes::silent(fleet.app.db.read(), before).await? {
        let id = NodeId::from(id);
        let mut change = fleet
            .app
            .db
            .change(&Actor::system("node-loop"), "node.stale", id)
            .await?;
        let row = state::lock(&mut change, id).await?;
        let silent = row
            .last_seen_at
            .is_none_or(|at| model::time::Timestamp::from(at) < before);
        let heard_before = matches!(
            row.state()?,
            NodeState::Ready | NodeState::Draining | NodeState::Drained
        );
        if silent && heard_before {
            state::enter(&mut change, &row, NodeState::Stale, "nothing was heard from its agent").await?;
            change.commit().await?;
            metrics::counter!(ALARMS, "code" => Code::NodeAgentHeartbeatStale.as_str()).increment(1);
            tracing::warn!(node_id = %id, name = row.name, "node is stale");
        }
    }
    Ok(())
}

/// Probes are due for whoever is back or new, and for everybody now and then. Says how many were.
pub async fn due_probes(fleet: &Fleet, all: bool) -> Result<usize, base::http::ApiError> {
    let now = fleet.app.clock.now();
    let rule = ProbeRule {
        now,
        heard_after: now.plus_ms(-fleet.limits.stale_ms.min(10_000)),
        every_ms: fleet.limits.probe_every_ms,
        all,
    };
    let due = nodes::want_probe(fleet.app.db.read(), rule).await?;
    let many = due.len();
    for (id, last_task) in due {
        let id = NodeId::from(id);
        let mut change = fleet
            .app
            .db
            .change(&Actor::system("node-loop"), "node.probe", id)
            .await?;
        // Another process may have asked for it since we looked.
        if state::lock(&mut change, id).await?.task_seq != last_task {
            continue;
        }
        match enqueue_probe(fleet, &mut change, id).await {
            Ok(_) => change.commit().await?,
            Err(error) => tracing::debug!(node_id = %id, code = %error.code, "no probe yet"),
        }
    }
    Ok(many)
}

impl Fleet {
    /// Waits, and says whether to go on.
    pub async fn running(&self, wait: impl Future<Output = ()>) -> bool {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            () = wait => true,
        }
    }
}
