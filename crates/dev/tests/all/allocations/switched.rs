//! What was switched stands in an allocation's history: asked, done or failed, when, why, by whom, and under which request.

use model::api::{Page, SwitchStep, SwitchView};
use model::signal::Code;
use model::task::vm_power::Action;
use model::time::Timestamp;

use super::*;

async fn history(market: &Market, id: AllocationId) -> Vec<TransitionView> {
    let path = format!("/v1/allocations/{id}/transitions");
    let page: Page<TransitionView> = market.api().get(&path).await.expect("a history");
    page.items
}

/// The lines about switches, once there are so many.
async fn switches(market: &Market, id: AllocationId, many: usize) -> Vec<TransitionView> {
    eventually(&format!("{many} lines about switches"), async || {
        let mut told = history(market, id).await;
        told.retain(|one| one.switch.is_some());
        (told.len() == many).then_some(told.clone()).ok_or(told)
    })
    .await
}

async fn rows(market: &Market, id: AllocationId) -> Vec<String> {
    sqlx::query_scalar(
        "select distinct t.correlation_id::text from task t join intent i on i.sha256 = t.intent_sha256
         where i.allocation_id = $1 and t.task_type = 'slice.vm_power'",
    )
    .bind(id.uuid())
    .fetch_all(market.town.platform.apps[0].db.read())
    .await
    .expect("tasks")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_has_what_was_switched_and_what_became_of_it() {
    use AllocationState::{Active, Provisioning, Released, Releasing, Requested};
    let market = Market::open().await;
    let made = market.rents("one").await;
    market.until(made.id, Active).await;
    market.verb(made.id, "stop").await;
    let told = switches(&market, made.id, 2).await;
    let step = |action, step| Some(SwitchView { action, step });
    assert_eq!(told[0].switch, step(Action::Stop, SwitchStep::Asked));
    assert_eq!(told[1].switch, step(Action::Stop, SwitchStep::Done));
    assert_eq!(
        (told[0].reason.as_str(), told[1].reason.as_str()),
        ("stop asked", "stop done")
    );
    assert!(
        told.iter()
            .all(|one| (one.from, one.to, one.code) == (Some(Active), Active, None))
    );
    assert!(
        told[0].actor.starts_with("token:") || told[0].actor.starts_with("user:"),
        "{}",
        told[0].actor
    );
    assert_eq!(told[1].actor, "system:node");
    assert!(told[0].at <= told[1].at);
    assert_eq!(told[0].correlation_id, told[1].correlation_id, "one request");
    assert_eq!(rows(&market, made.id).await, [told[0].correlation_id.clone()]);
    // The host takes no switch any more.
    let policy = market.town.dir().join("a").join("node.toml");
    let text = std::fs::read_to_string(&policy).expect("a policy");
    let narrowed = format!("allowed_task_types = [\"diag.health_probe\"]\n{text}");
    std::fs::write(&policy, narrowed).expect("narrowed");
    market.verb(made.id, "start").await;
    let told = switches(&market, made.id, 4).await;
    assert_eq!(told[3].switch, step(Action::Start, SwitchStep::Failed));
    assert_eq!(told[3].code, Some(Code::TypeNotAllowedHere));
    assert!(told[3].reason.starts_with("start failed: "), "{}", told[3].reason);
    assert_ne!(told[3].correlation_id, told[1].correlation_id, "another request");
    std::fs::write(&policy, text).expect("as before");
    market.verb(made.id, "release").await;
    market.until(made.id, Released).await;
    let all = history(&market, made.id).await;
    let times: Vec<Timestamp> = all.iter().map(|one| one.at).collect();
    assert!(times.is_sorted(), "{times:?}");
    let states: Vec<AllocationState> = all.iter().map(|one| one.to).collect();
    assert_eq!(
        states,
        [
            Requested,
            Provisioning,
            Active,
            Active,
            Active,
            Active,
            Active,
            Releasing,
            Released
        ]
    );
    market.close().await;
}

/// Whoever wants what is under way already has asked for it under a key of their own: asking again, whenever that is, gives
/// the answer of then and switches nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_two_have_asked_for_is_kept_under_both_keys() {
    let market = Market::open().await;
    let made = market.rents("one").await;
    market.until(made.id, AllocationState::Active).await;
    let market = market.unplug().await;
    let path = format!("/v1/allocations/{}/stop", made.id);
    let replayed = async |key: &str| {
        let answer = market.api().call_as(key, &path, &json!({})).await.expect("an answer");
        assert_eq!(answer.status, http::StatusCode::ACCEPTED, "{key}");
        answer.headers.contains_key(base::idempotency::REPLAYED)
    };
    assert!(!replayed("first").await);
    assert!(!replayed("second").await);
    assert!(replayed("first").await);
    assert!(replayed("second").await);
    assert_eq!(rows(&market, made.id).await.len(), 1, "one switch");
    market.close().await;
}
