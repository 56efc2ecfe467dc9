//! Each phase has a time of its own: whoever is in one for longer is stuck in it, hours before its state would be late;
//! that is told, and ends with the phase or with somebody's word.

use dev::half::Odd;
use model::api::{ConditionCode, ConditionView, PhaseState, PhaseView};
use model::signal::Code;
use model::task::TaskType;

use super::*;

fn stuck(seen: &AllocationView) -> Option<ConditionView> {
    let mut conditions = seen.conditions.iter();
    conditions.find(|one| one.code == ConditionCode::Stuck).cloned()
}

async fn until_stuck(market: &Market, id: AllocationId) -> ConditionView {
    eventually("it is stuck", async || {
        stuck(&market.shows(id).await).ok_or("not stuck")
    })
    .await
}

/// Its task came into this phase so long ago; its node says nothing else meanwhile.
async fn stands_in(market: &Market, id: AllocationId, task_type: TaskType, phase: &str, for_s: i64) {
    let op = model::id::derive_op(id, task_type.as_str(), 1);
    let done = sqlx::query(
        "update task set phase = $2, phase_since = now() - $3 * interval '1 second', version = version + 1 where op_id = $1",
    )
    .bind(op.uuid())
    .bind(phase)
    .bind(for_s)
    .execute(market.town.platform.apps[0].db.bookkeeping())
    .await;
    assert_eq!(done.expect("written").rows_affected(), 1);
}

fn running(seen: &AllocationView) -> &PhaseView {
    let mut phases = seen.phases.iter();
    phases
        .find(|phase| phase.state == PhaseState::Running)
        .expect("it is in a phase")
}

/// A host that is slow, and silent as soon as it has begun; so whatever is said of it stays.
async fn open() -> (Market, [AllocationView; 2]) {
    let market = Market::open().await.unplug().await;
    let Market { town, node, .. } = market;
    let dir = NodeDir::new(town.dir().join("a")).expect("its directory");
    let odd = Odd {
        takes_ms: 250,
        ..Odd::default()
    };
    let sim = SimNode::odd(Path::new(EXE), "a", dir, Profile::H100x8, odd);
    let market = Market { town, node, sim };
    let made = [market.rents("one").await, market.rents("two").await];
    for one in &made {
        let seen = eventually("it is in a phase, and says since when", async || {
            let seen = market.shows(one.id).await;
            let in_one = seen.phases.iter().any(|phase| phase.since.is_some());
            in_one.then_some(seen.clone()).ok_or(seen.phases)
        })
        .await;
        let phase = running(&seen);
        assert!(seen.phases.iter().all(|phase| phase.within_s.is_some()));
        let (since, deadline) = (phase.since.expect("since"), phase.deadline_at.expect("a deadline"));
        assert_eq!(deadline, since.plus_s(phase.within_s.expect("a time").into()));
    }
    market.sim.agent.hold();
    (market, made)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phase_that_takes_too_long_is_told_until_it_is_over() {
    let (market, [one, two]) = open().await;
    let make = TaskType::VmProvision;
    stands_in(&market, one.id, make, "runtime_validate", 119).await;
    stands_in(&market, two.id, make, "runtime_validate", 121).await;
    let told = until_stuck(&market, two.id).await;
    assert_eq!(told.detail.as_deref(), Some("deadline_exceeded at runtime_validate"));
    assert!(told.verb.contains("allocation retry"), "{told:?}");
    let events: i64 =
        sqlx::query_scalar("select count(*) from outbox where kind = 'provisioning.stuck' and subject_id = $1")
            .bind(two.id.to_string())
            .fetch_one(market.town.platform.apps[0].db.read())
            .await
            .expect("events");
    assert_eq!(events, 1, "and told once");
    // The way back has times of its own.
    stands_in(&market, one.id, make, "undo_virt_install", 3_601).await;
    let told = until_stuck(&market, one.id).await;
    assert_eq!(told.detail.as_deref(), Some("deadline_exceeded at undo_virt_install"));
    // The next phase is another matter.
    stands_in(&market, two.id, make, "image_write_convert", 3_600).await;
    eventually("it goes on", async || match stuck(&market.shows(two.id).await) {
        None => Ok(()),
        Some(told) => Err(told),
    })
    .await;
    assert_eq!(market.shows(two.id).await.state, AllocationState::Provisioning);
    let over: Vec<String> =
        sqlx::query_scalar("select data ->> 'at' from outbox where kind = 'provisioning.unstuck' and subject_id = $1")
            .bind(two.id.to_string())
            .fetch_all(market.town.platform.apps[0].db.read())
            .await
            .expect("events");
    assert_eq!(
        over,
        ["runtime_validate"],
        "whoever was told of its trouble hears of the end"
    );
    market.sim.agent.release();
    for id in [one.id, two.id] {
        let active = market.until(id, AllocationState::Active).await;
        assert!(active.conditions.is_empty(), "{:?}", active.conditions);
        assert!(
            active
                .phases
                .iter()
                .all(|phase| phase.since.is_none() && phase.deadline_at.is_none())
        );
    }
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_wants_it_tried_again_gives_the_phase_its_time_once_more() {
    let (market, [one, two]) = open().await;
    stands_in(&market, one.id, TaskType::VmProvision, "readiness", 2_000).await;
    until_stuck(&market, one.id).await;
    let again = market.verb(one.id, "retry").await;
    assert_eq!(stuck(&again), None);
    let phase = running(&again);
    let left_ms = phase.deadline_at.expect("a deadline").since_ms(again.state_since);
    assert!(left_ms > 1_000_000, "from now on: {phase:?}");
    // Whoever is late after it is told of, and it is not.
    stands_in(&market, two.id, TaskType::VmProvision, "readiness", 2_000).await;
    until_stuck(&market, two.id).await;
    assert_eq!(stuck(&market.shows(one.id).await), None);
    let path = format!("/v1/allocations/{}/retry", one.id);
    let refused = market.api().post::<AllocationView>(&path, &json!({})).await;
    let refused = refused.expect_err("it is not stuck");
    let refused = refused.downcast_ref::<dev::api::Refused>().expect("an answer");
    assert_eq!(refused.code(), Some(Code::StateConflict));
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_stands_still_in_a_phase_is_told_of_too() {
    let (market, [one, _]) = open().await;
    market.sim.agent.release();
    market.until(one.id, AllocationState::Active).await;
    market.verb(one.id, "release").await;
    eventually("its release is under way", async || {
        let seen = market.shows(one.id).await;
        let begun = seen.phases.iter().any(|phase| phase.since.is_some());
        (begun && seen.phases.len() == 10).then_some(()).ok_or(seen.phases)
    })
    .await;
    market.sim.agent.hold();
    let told = eventually("it is stuck", async || {
        // What the agent had said before may still be on its way.
        stands_in(&market, one.id, TaskType::VmRelease, "nvme_wipe", 43_201).await;
        stuck(&market.shows(one.id).await).ok_or("not stuck")
    })
    .await;
    assert_eq!(told.detail.as_deref(), Some("deadline_exceeded at nvme_wipe"));
    market.sim.agent.release();
    market.until(one.id, AllocationState::Released).await;
    market.close().await;
}
