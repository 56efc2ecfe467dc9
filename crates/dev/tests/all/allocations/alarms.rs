//! Whatever is late, in whichever state, is told: to its tenant, to everybody who hears events, and to whoever is woken.

use allocation::Worker;
use allocation::work::deadlines;
use model::api::ConditionCode;

use super::every_state::{close, everywhere, goes_on, is_under_way};

/// Every state that should pass has a deadline, and past it somebody is told: a condition that names the owner and the verb,
/// an event and an alarm. One that may last has none.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_late_in_any_state_is_told_with_a_verb() {
    base::metrics::install(&[fleet::metrics::METRICS, allocation::metrics::METRICS]);
    let (market, cases) = everywhere().await;
    let worker = Worker::here(market.town.fleet().await);
    for case in &cases {
        let what = case.state;
        let before = market.shows(case.id()).await;
        assert_eq!(before.deadline_at.is_some(), is_under_way(case.state), "{what}");
        let past =
            "update allocation set deadline_at = deadline_at - interval '10 days', version = version + 1 where id = $1";
        let done = sqlx::query(past).bind(case.id().uuid());
        let done = done.execute(market.town.platform.apps[0].db.bookkeeping()).await;
        assert_eq!(done.is_ok(), !case.state.is_end(), "{what}: {done:?}");
        deadlines::look(&worker).await.expect("a look");
        let seen = market.shows(case.id()).await;
        let stuck = seen.conditions.iter().find(|one| one.code == ConditionCode::Stuck);
        let told: i64 = sqlx::query_scalar(
            "select count(*) from outbox where kind = 'provisioning.stuck' and subject_id = $1 and data ->> 'state' = $2",
        )
        .bind(case.id().to_string())
        .bind(case.state.as_str())
        .fetch_one(market.town.platform.apps[0].db.read())
        .await
        .expect("events");
        assert_eq!(
            (stuck.is_some(), told),
            (is_under_way(case.state), i64::from(is_under_way(case.state))),
            "{what}: {seen:?}"
        );
        if let Some(stuck) = stuck {
            assert_eq!(stuck.owner, "operator", "{what}");
            assert!(stuck.verb.contains("allocation retry"), "{what}: {}", stuck.verb);
            assert!(
                seen.verbs.iter().any(|verb| verb == "retry"),
                "{what}: {:?}",
                seen.verbs
            );
        }
    }
    let page = base::metrics::render();
    let alarms = "gpuaas_allocation_alarms_total{code=\"allocation_stuck\"}";
    assert!(page.contains(alarms), "{page}");
    let worker = goes_on(&market).await;
    close(market, worker).await;
}
