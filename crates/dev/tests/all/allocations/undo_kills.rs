//! A worker dies at every write of the way back: of a provision that its host could not finish, and of one that somebody
//! took back when its VM stood already. Another goes on with it, and in the end nothing is left: not on the host, which is
//! looked at itself, and not on record.

use dev::children::Kept;
use model::signal::Code;
use model::task::TaskType;
use sqlx::PgConnection;

use super::worker_kills::{build, dies_at, shut, stops_at, tasks, until_at_the_gate, until_written};
use super::*;

/// What comes of one when its way back is over.
struct End {
    state: AllocationState,
    code: Option<Code>,
    /// How often its node was asked to take it away; what it could not finish it takes back by itself.
    releases: i64,
}

/// Each end once, its slot wiped with proof, nothing under way.
async fn nothing_is_left(market: &Market, made: &[AllocationView], end: &End) {
    use AllocationState::{Provisioning, Requested, Unwinding};
    for one in made {
        let over = market.until(one.id, end.state).await;
        assert_eq!((over.code, over.forced), (end.code, false), "{:?}", over.detail);
        assert_eq!(
            market.moves(one.id).await,
            [Requested, Provisioning, Unwinding, end.state]
        );
        for (task_type, many) in [(TaskType::VmProvision, 1), (TaskType::VmRelease, end.releases)] {
            assert_eq!(
                tasks(market, one.id, task_type).await,
                many,
                "{task_type} of {}",
                one.id
            );
        }
        let slots = market.slots().await;
        let slot = slots.iter().find(|slot| slot.id == one.slot_ids[0]).expect("its slot");
        let wiped = slot.wiped_at.is_some_and(|at| at > one.created_at);
        assert!(
            wiped && slot.state == SlotState::Free && slot.fault.is_none(),
            "{slot:?}"
        );
    }
    // Whose worker died at the very last write has ended, and is taken up once more to write that down.
    eventually("no workflow, lease or task is open, and nothing was used", async || {
        let open: (i64, i64, i64, i64) = sqlx::query_as(
            "select (select count(*) from workflow where ended_at is null),
                    (select count(*) from lease where ended_at is null),
                    (select count(*) from task where ended_at is null and task_type like 'slice.vm%'),
                    (select count(*) from usage_span)",
        )
        .fetch_one(market.town.platform.apps[0].db.read())
        .await
        .expect("counts");
        (open == (0, 0, 0, 0)).then_some(()).ok_or(open)
    })
    .await;
    assert_eq!(market.free().await, 8);
}

/// The host itself, once nobody is at work there.
async fn host_is_empty(market: Market) {
    let market = market.unplug().await;
    let dir = NodeDir::new(market.town.dir().join("a")).expect("its directory");
    let host = Pretend::in_directory(Profile::H100x8, &dir.host()).expect("its host");
    let slicing = host.snapshot().slicing;
    assert!(slicing.leases.is_empty(), "{:?}", slicing.leases);
    assert!(slicing.machines.is_empty(), "{:?}", slicing.machines);
    assert!(
        slicing.dirs.is_empty() && slicing.telemetry.is_empty() && slicing.ports.is_empty(),
        "{slicing:?}"
    );
    drop(host);
    market.close().await;
}

async fn rents(market: &Market, word: &str, many: usize) -> Vec<AllocationView> {
    let mut made = Vec::new();
    for n in 0..many {
        made.push(market.rents(&format!("{word}-{n}")).await);
    }
    made
}

/// Each at another write, from this one on.
async fn stop_each_later(owner: &mut PgConnection, made: &[AllocationView], first: i64) -> Vec<(AllocationId, i64)> {
    let stops: Vec<_> = made.iter().map(|one| one.id).zip(first..).collect();
    for (id, n) in &stops {
        stops_at(owner, *id, *n).await;
    }
    stops
}

async fn open() -> (Market, PgConnection, Kept) {
    let market = Market::open().await;
    market.town.platform.retire_worker();
    let owner = build(&market).await;
    let worker = apart::worker(&market, "given.json").await;
    (market, owner, worker)
}

async fn close(market: Market, mut worker: Kept) {
    tokio::task::spawn_blocking(move || worker.stop()).await.expect("stops");
    host_is_empty(market).await;
}

/// Two steps were begun, so the way back is: undo the second, undo the first, an end.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_may_die_at_every_write_of_the_way_back_of_what_has_failed() {
    let (mut market, mut owner, worker) = open().await;
    for landed in [true, false] {
        worker.hold();
        let made = rents(&market, &format!("{landed}"), 3).await;
        let stops = stop_each_later(&mut owner, &made, 3).await;
        // Their disks are written and their VMs run before it turns out that no guest is ever ready.
        let names: Vec<String> = made
            .iter()
            .map(|one| one.id.to_string().replace("alloc_", "vm-"))
            .collect();
        market = market
            .meddle("a", |state| state.slicing.never_ready.extend(names))
            .await;
        let gate = shut(&market).await;
        worker.release();
        dies_at(&market, &worker, gate, &stops, landed).await;
        let end = End {
            state: AllocationState::Failed,
            code: Some(Code::GuestNotReady),
            releases: 0,
        };
        nothing_is_left(&market, &made, &end).await;
    }
    close(market, worker).await;
}

/// All three steps were begun and the VM stands: undo each, an end.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_may_die_at_every_write_of_the_way_back_of_what_was_taken_back() {
    let (market, mut owner, worker) = open().await;
    for landed in [true, false] {
        worker.hold();
        let made = rents(&market, &format!("{landed}"), 4).await;
        for one in &made {
            stops_at(&mut owner, one.id, 3).await;
        }
        let gate = shut(&market).await;
        worker.release();
        until_at_the_gate(&market, made.len()).await;
        worker.hold();
        sqlx::Connection::close(gate).await.expect("the gate is open");
        for one in &made {
            until_written(&market, one.id, 3).await;
            market.verb(one.id, "cancel").await;
        }
        let stops = stop_each_later(&mut owner, &made, 4).await;
        let gate = shut(&market).await;
        worker.release();
        dies_at(&market, &worker, gate, &stops, landed).await;
        let end = End {
            state: AllocationState::Cancelled,
            code: None,
            releases: 1,
        };
        nothing_is_left(&market, &made, &end).await;
    }
    close(market, worker).await;
}
