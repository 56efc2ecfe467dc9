//! A worker dies at every write of its journal: once after the write has landed without its hearing of it, once before.
//! Another takes up what it had, and what comes of it is the same as if nobody had died. It has no keys and asks the api,
//! so what is asked for twice crosses the network twice.

use dev::children::Kept;
use model::task::TaskType;
use sqlx::{Connection, PgConnection};

use super::*;

/// Writes of a provision and a release that go well: three steps and an end, two steps and an end.
const WRITES: i64 = 7;
/// Whoever holds it decides when a held write goes on.
const GATE: i64 = 0x67_61_74_65;

/// Each allocation's n-th write stops at the gate, for an n of its own.
const HOLD: &str = "
    create table held_write (allocation_id uuid primary key, n bigint not null);
    create function hold_write() returns trigger language plpgsql security definer as $$
    declare
        mine uuid := (select allocation_id from workflow where id = new.workflow_id);
    begin
        if (select n from held_write where allocation_id = mine) = 1 +
           (select count(*) from workflow_step s join workflow w on w.id = s.workflow_id where w.allocation_id = mine) then
            perform pg_advisory_xact_lock(1734440037);
        end if;
        return new;
    end $$;
    create trigger hold_write before insert on workflow_step for each row execute function hold_write();
    grant select, insert on held_write to gpuaas_app;";

async fn connect(market: &Market) -> PgConnection {
    let url = market.town.db.owner_url();
    PgConnection::connect(&url).await.expect("the owner")
}

pub(super) async fn build(market: &Market) -> PgConnection {
    let mut owner = connect(market).await;
    sqlx::raw_sql(HOLD)
        .execute(&mut owner)
        .await
        .expect("the gate is built");
    owner
}

/// For as long as this connection is there.
pub(super) async fn shut(market: &Market) -> PgConnection {
    let mut gate = connect(market).await;
    sqlx::query("select pg_advisory_lock($1)")
        .bind(GATE)
        .execute(&mut gate)
        .await
        .expect("the gate is shut");
    gate
}

/// Its n-th write will stop at the gate.
pub(super) async fn stops_at(owner: &mut PgConnection, id: AllocationId, n: i64) {
    sqlx::query("insert into held_write values ($1, $2) on conflict (allocation_id) do update set n = excluded.n")
        .bind(id.uuid())
        .bind(n)
        .execute(owner)
        .await
        .expect("it will be held");
}

pub(super) async fn until_at_the_gate(market: &Market, many: usize) -> Vec<i32> {
    eventually("every one of them stands at its write", async || {
        let waiting = at_the_gate(market).await;
        (waiting.len() == many).then_some(waiting.clone()).ok_or(waiting.len())
    })
    .await
}

/// Its journal has so many records.
pub(super) async fn until_written(market: &Market, id: AllocationId, many: i64) {
    eventually(&format!("{many} records are written"), async || {
        let written: i64 = sqlx::query_scalar(
            "select count(*) from workflow_step s join workflow w on w.id = s.workflow_id where w.allocation_id = $1",
        )
        .bind(id.uuid())
        .fetch_one(market.town.platform.apps[0].db.read())
        .await
        .expect("a journal");
        (written == many).then_some(()).ok_or(written)
    })
    .await;
}

/// The worker is killed with these writes at the gate, which land or are lost; then another is there.
pub(super) async fn dies_at(
    market: &Market,
    worker: &Kept,
    gate: PgConnection,
    stops: &[(AllocationId, i64)],
    landed: bool,
) {
    let waiting = until_at_the_gate(market, stops.len()).await;
    if !landed {
        for pid in waiting {
            let ended: bool = sqlx::query_scalar("select pg_terminate_backend($1)")
                .bind(pid)
                .fetch_one(market.town.platform.apps[0].db.bookkeeping())
                .await
                .expect("ended");
            assert!(ended);
        }
    }
    worker.hold();
    gate.close().await.expect("the gate is open");
    for (id, n) in stops {
        until_written(market, *id, if landed { *n } else { n - 1 }).await;
    }
    worker.release();
}

/// The connections whose writes stand at the gate.
async fn at_the_gate(market: &Market) -> Vec<i32> {
    sqlx::query_scalar(
        "select l.pid from pg_locks l join pg_database d on d.oid = l.database
         where l.locktype = 'advisory' and l.objid = $1::bigint::oid and not l.granted and d.datname = current_database()",
    )
    .bind(GATE)
    .fetch_all(market.town.platform.apps[0].db.read())
    .await
    .expect("locks")
}

pub(super) async fn tasks(market: &Market, id: AllocationId, task_type: TaskType) -> i64 {
    let op = model::id::derive_op(id, task_type.as_str(), 1);
    sqlx::query_scalar("select count(*) from task where op_id = $1")
        .bind(op.uuid())
        .fetch_one(market.town.platform.apps[0].db.read())
        .await
        .expect("a count")
}

/// Seven tenants, each stopped at another write; the worker is killed with all of them in its hands.
async fn killed(market: &Market, worker: &Kept, landed: bool) {
    let mut owner = connect(market).await;
    let round = if landed { "landed" } else { "lost" };
    let gate = shut(market).await;
    // Nobody takes anything up before it is known where to stop.
    worker.hold();
    let mut made = Vec::new();
    for n in 1..=WRITES {
        let one = market.rents(&format!("{round}-{n}")).await;
        stops_at(&mut owner, one.id, n).await;
        made.push(one.id);
    }
    worker.release();
    // Those that are held later than readiness have to be given back to get there.
    for id in &made[4..] {
        market.until(*id, AllocationState::Active).await;
        market.verb(*id, "release").await;
    }
    let stops: Vec<_> = made.iter().copied().zip(1..).collect();
    dies_at(market, worker, gate, &stops, landed).await;
    for id in &made {
        let seen = market.shows(*id).await;
        if seen.state != AllocationState::Released {
            market.until(*id, AllocationState::Active).await;
            market.verb(*id, "release").await;
        }
        market.until(*id, AllocationState::Released).await;
        let moves = market.moves(*id).await;
        assert_eq!(moves.len(), 5, "{moves:?}");
        for task_type in [TaskType::VmProvision, TaskType::VmRelease] {
            assert_eq!(tasks(market, *id, task_type).await, 1, "{task_type:?} of {id}");
        }
    }
    assert_eq!(market.free().await, 8);
    let open: i64 = sqlx::query_scalar("select count(*) from workflow where ended_at is null")
        .fetch_one(&mut owner)
        .await
        .expect("a count");
    assert_eq!(open, 0, "no workflow is left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_may_die_at_every_write_of_its_journal() {
    let market = Market::open().await;
    market.town.platform.retire_worker();
    build(&market).await;
    let mut worker = apart::worker(&market, "given.json").await;
    killed(&market, &worker, true).await;
    killed(&market, &worker, false).await;
    tokio::task::spawn_blocking(move || worker.stop()).await.expect("stops");
    market.close().await;
}
