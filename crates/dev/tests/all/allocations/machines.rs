//! Whole machines: one tenant at a time, an account that comes and goes with proof, and nobody after a tenant of whom
//! something may be left.

use model::api::{NodeView, SkuCreate, SkuKind, SkuView, TaskView};
use model::signal::Code;
use model::state::{NodeState, TaskState};

use super::*;

const SKU: &str = "machine.h100.8";

fn sku() -> SkuCreate {
    SkuCreate {
        name: SKU.to_owned(),
        kind: SkuKind::Machine,
        gpu_count: 8,
        slots: 0,
        images: Vec::new(),
        ..dev::demo::sku(SKU, 1).expect("a SKU")
    }
}

/// A town with one whole machine to rent.
pub(crate) async fn open() -> Market {
    let town = Town::tuned(EXE, |config| {
        config.wait_hold_s = 2;
        config.heartbeat_stale_s = 600;
        config.self_probe_every_s = 1;
    });
    let town = town.await;
    let (node, sim) = town.node_for("m", Profile::H100x8, NodeMode::Machine).await;
    town.lists_demo_image().await;
    dev::demo::ensure(&town.api()).await.expect("a project and a key");
    let _: SkuView = town.api().post("/v1/skus", &sku()).await.expect("something to rent");
    Market { town, node, sim }
}

pub(crate) async fn rents(market: &Market, key: &str) -> Result<AllocationView, Code> {
    let wish = AllocationCreate {
        sku: SKU.to_owned(),
        ..Market::wish()
    };
    let made = market.api().post_as(key, "/v1/allocations", &wish).await;
    made.map_err(|error| {
        let refused = error.downcast_ref::<dev::api::Refused>().expect("an answer");
        refused.code().expect("a code")
    })
}

async fn node_verb<T: serde::de::DeserializeOwned>(market: &Market, verb: &str) -> T {
    let path = format!("/v1/nodes/{}/{verb}", market.node);
    let body = json!({ "reason": "looked at" });
    let body = if verb == "clean" { json!({}) } else { body };
    market.api().post(&path, &body).await.expect("accepted")
}

/// As the application may, or may not; all of it or nothing.
async fn sql(market: &Market, statements: String) -> Result<(), String> {
    let pool = market.town.platform.apps[0].db.bookkeeping();
    let done = sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).execute(pool).await;
    let constraint = |error: sqlx::Error| {
        let error = error.into_database_error().expect("the database's own word");
        error.constraint().unwrap_or(error.message()).to_owned()
    };
    done.map(drop).map_err(constraint)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_one_tenants_until_nothing_of_theirs_is_left() {
    let market = open().await;
    let made = rents(&market, "one").await.expect("accepted");
    assert!(made.slot_ids.is_empty() && made.kind == SkuKind::Machine);
    assert_eq!(rents(&market, "two").await.expect_err("taken"), Code::NoCapacity);
    let active = market.until(made.id, AllocationState::Active).await;
    assert_eq!(active.default_username.as_deref(), Some("tenant"));
    assert!(
        active.phases.iter().any(|phase| phase.name == "authorized_keys"),
        "{:?}",
        active.phases
    );
    eventually("its node's signature proves the time", async || {
        let proven: bool =
            sqlx::query_scalar("select proven_until > lower(span) from usage_span where allocation_id = $1")
                .bind(made.id.uuid())
                .fetch_one(market.town.platform.apps[0].db.read())
                .await
                .expect("a span");
        proven.then_some(()).ok_or("not a second of it")
    })
    .await;
    let node = market.node.uuid();
    let clean = format!("update machine_dirt set cleaned_at = now() where node_id = '{node}'");
    assert_eq!(sql(&market, clean).await, Err("machine_cleaned".to_owned()));
    let steal = format!(
        "update lease set ended_at = now() where node_id = '{node}' and ended_at is null;
         insert into lease (id, node_id, allocation_id, since) values (gen_random_uuid(), '{node}', gen_random_uuid(), now())"
    );
    assert_eq!(sql(&market, steal).await, Err("machine_clean".to_owned()));
    market.verb(made.id, "repair").await;
    market.verb(made.id, "release").await;
    market.until(made.id, AllocationState::Released).await;
    let next = rents(&market, "three").await.expect("free again");
    market.until(next.id, AllocationState::Active).await;
    market.verb(next.id, "release").await;
    market.until(next.id, AllocationState::Released).await;
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_follows_a_tenant_who_may_have_left_something() {
    let market = open().await;
    let made = rents(&market, "one").await.expect("accepted");
    market.until(made.id, AllocationState::Active).await;
    market.sim.agent.hold();
    let forced = format!("/v1/allocations/{}/force-release", made.id);
    let reason = json!({ "reason": "its host does not answer" });
    let over: AllocationView = market.api().post(&forced, &reason).await.expect("accepted");
    assert_eq!((over.state, over.forced), (AllocationState::Released, true));
    market.sim.agent.release();
    market.town.until_node(market.node, NodeState::Quarantined).await;
    let _: NodeView = node_verb(&market, "unquarantine").await;
    let ready = market.town.until_node(market.node, NodeState::Ready).await;
    let waiting = ready.waiting.expect("it says what for");
    assert!(waiting.verb.starts_with("gpuaas node clean"), "{waiting:?}");
    assert_eq!(rents(&market, "two").await.expect_err("not yet"), Code::NoCapacity);
    let mode = format!("/v1/nodes/{}/mode", market.node);
    let other = market.api().post::<NodeView>(&mode, &json!({ "mode": "slice" })).await;
    assert!(other.is_err(), "nor as slices");
    let task: TaskView = node_verb(&market, "clean").await;
    market
        .town
        .until_task(task.id, |state| state == TaskState::Succeeded)
        .await;
    assert!(market.town.show_node(market.node).await.waiting.is_none());
    let next = rents(&market, "three").await.expect("clean, with proof");
    market.until(next.id, AllocationState::Active).await;
    market.verb(next.id, "release").await;
    market.until(next.id, AllocationState::Released).await;
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_no_node_was_asked_for_is_given_back_at_once() {
    let market = open().await;
    market.sim.agent.hold();
    let made = rents(&market, "one").await.expect("accepted");
    market.until(made.id, AllocationState::Provisioning).await;
    market.verb(made.id, "cancel").await;
    market.until(made.id, AllocationState::Cancelled).await;
    assert!(market.town.show_node(market.node).await.waiting.is_none());
    market.sim.agent.release();
    let next = rents(&market, "two").await.expect("nothing was begun");
    market.until(next.id, AllocationState::Active).await;
    market.verb(next.id, "release").await;
    market.until(next.id, AllocationState::Released).await;
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_is_not_made_again_behind_a_release() {
    let market = open().await;
    let made = rents(&market, "one").await.expect("accepted");
    market.until(made.id, AllocationState::Active).await;
    market.sim.agent.hold();
    market.verb(made.id, "repair").await;
    let repair: Vec<(String, Option<i64>)> = asked(&market).await;
    assert_eq!(repair.last().expect("a task").0, "queued");
    market.verb(made.id, "release").await;
    let repair = asked(&market).await;
    assert_eq!(
        repair.last(),
        Some(&("cancelled".to_owned(), None)),
        "nobody is given it any more"
    );
    market.sim.agent.release();
    market.until(made.id, AllocationState::Released).await;
    let next = rents(&market, "two").await.expect("clean, with proof");
    market.until(next.id, AllocationState::Active).await;
    market.verb(next.id, "release").await;
    market.until(next.id, AllocationState::Released).await;
    market.close().await;
}

/// Tasks that make an account, oldest first: their states, and under which number they were handed out.
pub(super) async fn asked(market: &Market) -> Vec<(String, Option<i64>)> {
    sqlx::query_as("select state, fence from task where task_type = 'allocation.provision_user' order by seq")
        .fetch_all(market.town.platform.apps[0].db.read())
        .await
        .expect("tasks")
}

/// Until its node's lists have shown exactly this, twice on end.
async fn until_differs(market: &Market, codes: &[Code]) -> NodeView {
    eventually(&format!("{codes:?}"), async || {
        let node = market.town.show_node(market.node).await;
        let held = node.held.clone().ok_or("no list yet")?;
        let found: Vec<Code> = held.differences.iter().map(|found| found.code).collect();
        // The list that was there before the start says nothing of the host as it is now.
        match found == codes && !held.holds.users.is_empty() {
            true => Ok(node),
            false => Err(format!("{:?} {:?}", held.differences, held.holds.users)),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_is_nobodys_and_one_that_is_gone_are_told() {
    let market = open().await;
    let made = rents(&market, "one").await.expect("accepted");
    market.until(made.id, AllocationState::Active).await;
    until_differs(&market, &[]).await;
    let (stranger, uid) = (AllocationId::new(), 20_555);
    let mut away = None;
    let market = market
        .meddle("m", |state| {
            away = state.accounts.remove("tenant");
            state.records.insert(uid, ("mallory".to_owned(), stranger));
        })
        .await;
    assert!(away.is_some(), "there was an account to take away");
    let node = until_differs(&market, &[Code::AccountOrphaned, Code::AccountLost]).await;
    let differences = node.held.expect("shown").differences;
    assert_eq!(
        differences.iter().map(|found| found.allocation_id).collect::<Vec<_>>(),
        [stranger, made.id]
    );
    assert!(
        differences[0].verb.starts_with("gpuaas node drain m"),
        "{differences:?}"
    );
    assert!(differences[1].verb.contains("force-release"), "{differences:?}");
    assert!(node.waiting.is_some(), "and the node says so");
    let market = market
        .meddle("m", |state| {
            state
                .accounts
                .extend(away.map(|account| ("tenant".to_owned(), account)));
            state.records.remove(&uid);
        })
        .await;
    until_differs(&market, &[]).await;
    market.verb(made.id, "release").await;
    market.until(made.id, AllocationState::Released).await;
    market.close().await;
}
