//! What has come to a standstill says so, and a person's word sets it going again: a journal that no build at hand can read
//! is nobody's to claim in vain, and one row that cannot be written keeps nobody else's trouble from being told.

use model::api::ConditionCode;
use model::signal::Code;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::*;

async fn owner(market: &Market) -> PgConnection {
    let url = market.town.db.owner_url();
    PgConnection::connect(&url).await.expect("the owner")
}

async fn as_owner(market: &Market, statement: String) {
    let mut owner = owner(market).await;
    let done = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut owner).await;
    done.expect("done");
}

/// What its conditions say of where it is stuck.
async fn until_stuck(market: &Market, id: AllocationId) -> String {
    eventually("somebody is told", async || {
        let seen = market.shows(id).await;
        let stuck = seen.conditions.iter().find(|one| one.code == ConditionCode::Stuck);
        stuck.and_then(|one| one.detail.clone()).ok_or(seen.conditions)
    })
    .await
}

async fn workflow(market: &Market, id: AllocationId) -> (String, i64) {
    sqlx::query_as("select state, epoch from workflow where allocation_id = $1")
        .bind(id.uuid())
        .fetch_one(market.town.platform.apps[0].db.read())
        .await
        .expect("a workflow")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_of_another_build_is_stuck_until_that_build_is_back() {
    let market = Market::open().await.unplug().await;
    let table = |steps: &str, id: AllocationId| {
        format!(
            "update workflow_step s set record = jsonb_set(record, '{{table}}', '{steps}') from workflow w
             where w.id = s.workflow_id and w.allocation_id = '{id}' and s.record ? 'table' and s.record -> 'table' <> 'null'",
            id = id.uuid()
        )
    };
    let flow = |name: &str, id: AllocationId| {
        format!(
            "update workflow set flow = '{name}' where allocation_id = '{}'",
            id.uuid()
        )
    };
    let steps = market.rents("steps").await.id;
    let flows = market.rents("flow").await.id;
    for (id, other, own) in [
        (
            steps,
            table(r#"["accept", "prepare", "make"]"#, steps),
            table(r#"["accept", "make", "activate"]"#, steps),
        ),
        (
            flows,
            flow("allocation.lend", flows),
            flow("allocation.provision", flows),
        ),
    ] {
        market.until(id, AllocationState::Provisioning).await;
        as_owner(&market, other).await;
        let told = until_stuck(&market, id).await;
        assert!(told.starts_with(Code::FlowChanged.as_str()), "{told}");
        let (state, epoch) = workflow(&market, id).await;
        assert_eq!(state, "stuck", "nobody claims it any more");
        // Tried in vain, it says so again.
        market.verb(id, "retry").await;
        eventually("it was tried", async || {
            let now = workflow(&market, id).await;
            (now.0 == "stuck" && now.1 > epoch).then_some(()).ok_or(now)
        })
        .await;
        until_stuck(&market, id).await;
        as_owner(&market, own).await;
        let again = market.verb(id, "retry").await;
        assert!(again.conditions.iter().all(|one| one.code != ConditionCode::Stuck));
        market.verb(id, "cancel").await;
        market.until(id, AllocationState::Cancelled).await;
    }
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_told_of_one_is_told_of_the_others() {
    let market = Market::open().await.unplug().await;
    let mut late = Vec::new();
    for key in ["one", "two", "three"] {
        let made = market.rents(key).await;
        market.until(made.id, AllocationState::Provisioning).await;
        late.push(made.id);
    }
    // Whichever end is begun at, the one in the middle comes after one that fails.
    as_owner(
        &market,
        format!(
            "create function refuse_stuck() returns trigger language plpgsql as $$
             begin raise exception 'not this one'; end $$;
             create trigger refuse_stuck before update on allocation for each row
                 when (new.stuck_since is not null and new.id in ('{}', '{}')) execute function refuse_stuck()",
            late[0].uuid(),
            late[2].uuid()
        ),
    )
    .await;
    for id in &late {
        let past =
            "update allocation set deadline_at = now() - interval '1 second', version = version + 1 where id = $1";
        let done = sqlx::query(past).bind(id.uuid());
        let done = done.execute(market.town.platform.apps[0].db.bookkeeping()).await;
        done.expect("it is late");
    }
    let told = until_stuck(&market, late[1]).await;
    assert!(told.starts_with(Code::DeadlineExceeded.as_str()), "{told}");
    market.close().await;
}
