//! The ways out, each tried in every state that there is: which of them are taken, which are refused and with which code,
//! and what becomes of the slot, of the time that is used and of the workflow.

use dev::api::Refused;
use dev::half::Odd;
use dev::simnode::NodeDir;
use model::signal::Code;
use uuid::Uuid;

use super::*;

/// Each change on the host takes this long, so that what was begun there is under way when somebody looks.
const TAKES_MS: u64 = 250;

/// One allocation that stands still where it is: its node is away, and no worker is there.
pub(super) struct Case {
    pub(super) state: AllocationState,
    /// A node was given a task about it.
    given: bool,
    made: AllocationView,
}

impl Case {
    pub(super) fn id(&self) -> AllocationId {
        self.made.id
    }
}

async fn tasks_in(market: &Market, id: AllocationId) -> Vec<String> {
    sqlx::query_scalar(
        "select t.state from task t join intent i on i.sha256 = t.intent_sha256
         where i.allocation_id = $1 order by t.seq",
    )
    .bind(id.uuid())
    .fetch_all(market.town.platform.apps[0].db.read())
    .await
    .expect("tasks")
}

async fn until_task(market: &Market, id: AllocationId, state: &str) {
    eventually(&format!("its task is {state}"), async || {
        let tasks = tasks_in(market, id).await;
        (tasks.last().map(String::as_str) == Some(state))
            .then_some(())
            .ok_or(tasks)
    })
    .await;
}

/// The host from here on: as it was, and slow.
async fn slow(market: Market) -> Market {
    let market = market.unplug().await;
    let Market { town, node, .. } = market;
    let dir = NodeDir::new(town.dir().join("a")).expect("its directory");
    let odd = Odd {
        takes_ms: TAKES_MS,
        ..Odd::default()
    };
    let sim = SimNode::odd(std::path::Path::new(EXE), "a", dir, Profile::H100x8, odd);
    Market { town, node, sim }
}

/// Its host refuses to make it.
async fn failed(market: &Market) -> AllocationView {
    let policy = market.town.dir().join("a").join("node.toml");
    let text = std::fs::read_to_string(&policy).expect("a policy");
    let narrowed = format!("allowed_task_types = [\"diag.health_probe\"]\n{text}");
    std::fs::write(&policy, narrowed).expect("narrowed");
    let made = market.rents("failed").await;
    market.until(made.id, AllocationState::Failed).await;
    std::fs::write(&policy, text).expect("as before");
    made
}

/// One allocation in every state, with and without anything of it on the host where that makes a difference.
pub(super) async fn everywhere() -> (Market, Vec<Case>) {
    use AllocationState::{Active, Cancelled, Failed, Provisioning, Released, Releasing, Requested, Unwinding};
    let market = Market::open().await;
    let mut cases = Vec::new();
    let mut stands = |state, given, made| cases.push(Case { state, given, made });
    stands(Failed, false, failed(&market).await);
    let [active, releasing, released] = [
        market.rents("a").await,
        market.rents("b").await,
        market.rents("c").await,
    ];
    for one in [&active, &releasing, &released] {
        market.until(one.id, Active).await;
    }
    market.verb(released.id, "release").await;
    market.until(released.id, Released).await;
    stands(Active, true, active);
    stands(Released, true, released);
    let market = slow(market).await;
    let [given, unwinding] = [market.rents("given").await, market.rents("unwinding").await];
    for one in [&given, &unwinding] {
        until_task(&market, one.id, "started").await;
    }
    market.sim.agent.hold();
    stands(Provisioning, true, given);
    market.verb(unwinding.id, "cancel").await;
    market.until(unwinding.id, Unwinding).await;
    stands(Unwinding, true, unwinding);
    market.verb(releasing.id, "release").await;
    until_task(&market, releasing.id, "queued").await;
    stands(Releasing, true, releasing);
    let [cancelled, queued] = [market.rents("cancelled").await, market.rents("queued").await];
    market.verb(cancelled.id, "cancel").await;
    market.until(cancelled.id, Cancelled).await;
    stands(Cancelled, false, cancelled);
    until_task(&market, queued.id, "queued").await;
    stands(Provisioning, false, queued);
    market.town.platform.retire_worker();
    stands(Requested, false, market.rents("requested").await);
    for state in AllocationState::ALL {
        assert!(cases.iter().any(|case| case.state == *state), "{state} has no case");
    }
    for case in &cases {
        assert_eq!(market.shows(case.id()).await.state, case.state);
    }
    (market, cases)
}

/// Another worker comes, and the node is back: everything goes on to its end.
pub(super) async fn goes_on(market: &Market) -> dev::children::Kept {
    let worker = apart::worker(market, "given.json").await;
    market.sim.agent.release();
    worker
}

pub(super) async fn close(market: Market, worker: dev::children::Kept) {
    let mut worker = worker;
    tokio::task::spawn_blocking(move || worker.stop()).await.expect("stops");
    market.close().await;
}

async fn ask(market: &Market, id: AllocationId, verb: &str) -> Result<AllocationView, Code> {
    let path = format!("/v1/allocations/{id}/{verb}");
    let done = market.api().post(&path, &json!({ "reason": "every state" })).await;
    done.map_err(|error| error.downcast_ref::<Refused>().and_then(Refused::code).expect("a code"))
}

/// How many spans of used time it has, and how many are open.
async fn spans(market: &Market, id: AllocationId) -> (i64, i64) {
    sqlx::query_as(
        "select count(*), count(*) filter (where end_reason is null) from usage_span where allocation_id = $1",
    )
    .bind(id.uuid())
    .fetch_one(market.town.platform.apps[0].db.read())
    .await
    .expect("spans")
}

/// Workflows that go on, and everything that was written about any of them.
async fn workflows(market: &Market, id: AllocationId) -> (i64, i64) {
    sqlx::query_as(
        "select count(*) filter (where ended_at is null),
                (select count(*) from workflow_step s join workflow x on x.id = s.workflow_id where x.allocation_id = $1)
         from workflow where allocation_id = $1",
    )
    .bind(id.uuid())
    .fetch_one(market.town.platform.apps[0].db.read())
    .await
    .expect("workflows")
}

/// What was written down about its slot when it was taken from it.
async fn audited(market: &Market, slot: Uuid, action: &str) -> bool {
    let id = model::id::SlotId::from(slot).to_string();
    sqlx::query_scalar("select exists (select from audit where action = $1 and target_id = $2)")
        .bind(action)
        .bind(id)
        .fetch_one(market.town.platform.apps[0].db.read())
        .await
        .expect("an audit log")
}

async fn slot(market: &Market, case: &Case) -> SlotView {
    let slots = market.slots().await;
    let its = slots.into_iter().find(|slot| slot.id == case.made.slot_ids[0]);
    its.expect("its slot")
}

/// Used until the release was accepted, and after that no more.
fn used(state: AllocationState) -> (i64, i64) {
    match state {
        AllocationState::Requested
        | AllocationState::Provisioning
        | AllocationState::Unwinding
        | AllocationState::Failed
        | AllocationState::Cancelled => (0, 0),
        AllocationState::Active => (1, 1),
        AllocationState::Releasing | AllocationState::Released => (1, 0),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn force_release_ends_every_state_that_is_no_end_at_once() {
    let (market, cases) = everywhere().await;
    let mut steps = Vec::new();
    for case in &cases {
        let end = match case.state {
            AllocationState::Requested | AllocationState::Provisioning | AllocationState::Unwinding => {
                Some(AllocationState::Failed)
            }
            AllocationState::Active | AllocationState::Releasing => Some(AllocationState::Released),
            AllocationState::Released | AllocationState::Failed | AllocationState::Cancelled => None,
        };
        let before = market.shows(case.id()).await;
        assert_eq!(spans(&market, case.id()).await, used(case.state), "{}", case.state);
        let over = ask(&market, case.id(), "force-release").await.expect("accepted");
        let what = format!("{} {}", case.state, if case.given { "given" } else { "" });
        let again = ask(&market, case.id(), "force-release").await.expect("accepted");
        assert_eq!(again.version, over.version, "{what}: asked twice is asked once");
        let Some(end) = end else {
            assert_eq!((over.version, over.forced), (before.version, false), "{what}");
            continue;
        };
        assert_eq!((over.state, over.forced), (end, true), "{what}");
        assert!(over.ended_at.is_some() && over.conditions.is_empty(), "{what}");
        assert_eq!(over.state_reason, "every state");
        assert_eq!(spans(&market, case.id()).await.1, 0, "{what}: it is used no more");
        let (open, written) = workflows(&market, case.id()).await;
        assert_eq!(open, 0, "{what}: nobody goes on with it");
        steps.push((case, over, written));
        let slot = slot(&market, case).await;
        // What no node ever had has nothing of a tenant on it; it is written down that it went back.
        let (state, word) = match case.given {
            true => (SlotState::Quarantined, "slot.quarantine"),
            false => (SlotState::Free, "slot.unreserve"),
        };
        assert_eq!((slot.state, slot.allocation_id), (state, None), "{what}");
        assert!(audited(&market, slot.id.uuid(), word).await, "{what}: {word}");
        assert_eq!(
            slot.quarantine.map(|q| q.code),
            case.given.then_some(Code::WipeUnproved)
        );
    }
    let worker = goes_on(&market).await;
    for (case, _, _) in steps.iter().filter(|(case, ..)| case.given) {
        eventually("it is free once it is wiped", async || {
            let slot = slot(&market, case).await;
            let wiped = slot.wiped_at.is_some() && slot.state == SlotState::Free;
            wiped.then_some(()).ok_or((case.state, slot.state))
        })
        .await;
    }
    for (case, over, written) in steps {
        let now = market.shows(case.id()).await;
        assert_eq!((now.version, now.state), (over.version, over.state), "an end is an end");
        assert_eq!(
            workflows(&market, case.id()).await,
            (0, written),
            "nobody went on with it"
        );
    }
    assert_eq!(market.free().await, 8);
    close(market, worker).await;
}

/// What a verb answers in each state, and where it leads to in the end.
type Table = fn(AllocationState) -> (Result<AllocationState, Code>, AllocationState);

async fn in_every_state(verb: &str, table: Table) {
    let (market, cases) = everywhere().await;
    for case in &cases {
        let before = market.shows(case.id()).await;
        let answer = ask(&market, case.id(), verb).await;
        let (wanted, _) = table(case.state);
        assert_eq!(
            answer.as_ref().map(|seen| seen.state).map_err(|code| *code),
            wanted,
            "{verb} when {}",
            case.state
        );
        let after = market.shows(case.id()).await;
        if wanted.is_err() || wanted == Ok(case.state) {
            assert_eq!(
                after.version, before.version,
                "{verb} changes nothing when it is {}",
                case.state
            );
        }
        let open = spans(&market, case.id()).await.1;
        assert_eq!(
            open == 1,
            after.state == AllocationState::Active,
            "{verb} when {}",
            case.state
        );
        assert_eq!(
            workflows(&market, case.id()).await.0 == 0,
            !is_under_way(after.state),
            "{verb} when {}",
            case.state
        );
        // Nobody else gets what its tenant may still have, and force alone quarantines.
        if is_under_way(after.state) {
            let slot = slot(&market, case).await;
            assert_eq!(slot.allocation_id, Some(case.id()), "{verb} when {}", case.state);
        }
    }
    let worker = goes_on(&market).await;
    for case in &cases {
        let (_, end) = table(case.state);
        let over = market.until(case.id(), end).await;
        assert!(!over.forced, "{verb} when {}", case.state);
        if end.is_end() {
            assert_eq!(workflows(&market, case.id()).await.0, 0, "{verb} when {}", case.state);
        }
    }
    eventually("what was given back is free", async || {
        let held = cases.iter().filter(|case| !table(case.state).1.is_end()).count();
        let free = market.free().await;
        (free == 8 - held).then_some(()).ok_or(free)
    })
    .await;
    close(market, worker).await;
}

pub(super) const fn is_under_way(state: AllocationState) -> bool {
    match state {
        AllocationState::Requested
        | AllocationState::Provisioning
        | AllocationState::Unwinding
        | AllocationState::Releasing => true,
        AllocationState::Active | AllocationState::Released | AllocationState::Failed | AllocationState::Cancelled => {
            false
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_takes_back_what_is_being_made_and_nothing_else() {
    use AllocationState::{Active, Cancelled, Failed, Provisioning, Released, Releasing, Requested, Unwinding};
    in_every_state("cancel", |state| match state {
        Requested | Provisioning | Unwinding => (Ok(Unwinding), Cancelled),
        Active => (Err(Code::AllocationAlreadyActive), Active),
        Releasing => (Err(Code::StateConflict), Released),
        Released | Failed => (Err(Code::StateConflict), state),
        Cancelled => (Ok(Cancelled), Cancelled),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn release_ends_every_state_that_is_no_end_in_time() {
    use AllocationState::{Active, Cancelled, Failed, Provisioning, Released, Releasing, Requested, Unwinding};
    in_every_state("release", |state| match state {
        Requested | Provisioning | Unwinding => (Ok(Unwinding), Cancelled),
        Active | Releasing => (Ok(Releasing), Released),
        Released | Failed | Cancelled => (Ok(state), state),
    })
    .await;
}
