//! What happens between a look and an act: somebody extends, asks again, or asks a hundred times at once.

use allocation::allocation::usage;
use allocation::project::quota;
use dev::api::Refused;
use model::api::{ProjectCreate, ProjectTokenCreate, ProjectView, TokenCreated};
use model::signal::Code;
use model::state::ProjectRole;
use sqlx::{Connection, PgConnection};

use super::machines;
use super::*;

const AT_ONCE: usize = 60;
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

fn code(error: &anyhow::Error) -> Option<Code> {
    error.downcast_ref::<Refused>().and_then(Refused::code)
}

/// Whoever extends or rents has the quota and wants an allocation; whoever switches one has it, and may not want the quota.
#[tokio::test(flavor = "multi_thread")]
async fn a_switch_does_not_wait_for_the_quota() {
    let market = Market::open().await;
    let made = market.rents("one").await;
    market.until(made.id, AllocationState::Active).await;
    let db = &market.town.platform.apps[0].db;
    let change = db
        .change(&base::Actor::system("test"), "allocation.extend", made.id)
        .await;
    let mut extending = change.expect("begins");
    quota::lock(&mut extending, made.project_id).await.expect("held");
    market.verb(made.id, "stop").await;
    extending.rollback().await.expect("let go");
    market.close().await;
}

/// Whoever was told that it lasts longer keeps it, also if its end was being looked at in that moment.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_extended_in_its_last_moment_stays() {
    let market = Market::open().await;
    let made = market.rents("one").await;
    market.until(made.id, AllocationState::Active).await;
    let mut owner = PgConnection::connect(&market.town.db.owner_url())
        .await
        .expect("the owner");
    let mut extending = owner.begin().await.expect("a transaction");
    // Nobody releases it from here on; its end can be moved all the same, since that is no part of its key.
    sqlx::query("select from allocation where id = $1 for key share")
        .bind(made.id.uuid())
        .execute(&mut *extending)
        .await
        .expect("held");
    let ends = async |tx: &mut PgConnection, at: &str| {
        let sql =
            format!("update allocation set ends_at = now() + interval '{at}', version = version + 1 where id = $1");
        let done = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(made.id.uuid())
            .execute(tx)
            .await;
        done.expect("written");
    };
    ends(
        &mut *market.town.platform.apps[0]
            .db
            .bookkeeping()
            .acquire()
            .await
            .expect("a connection"),
        "-1 s",
    )
    .await;
    ends(&mut extending, "1 h").await;
    let reader = market.town.platform.apps[0].db.read();
    let releasing = eventually("somebody wants to release it", async || {
        let waiting: Option<i32> = sqlx::query_scalar(
            "select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
        )
        .fetch_optional(reader)
        .await
        .expect("an answer");
        waiting.ok_or("nobody waits for its row")
    })
    .await;
    extending.commit().await.expect("extended");
    eventually("that is over", async || {
        let under_way: bool =
            sqlx::query_scalar("select exists (select from pg_stat_activity where pid = $1 and state <> 'idle')")
                .bind(releasing)
                .fetch_one(reader)
                .await
                .expect("an answer");
        (!under_way).then_some(()).ok_or("still at it")
    })
    .await;
    assert_eq!(market.shows(made.id).await.state, AllocationState::Active);
    market.close().await;
}

/// Each of them holds a connection while it waits for the row; none may need a second one.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_verbs_at_once_stall_nobody() {
    let market = Market::open().await;
    let made = market.rents("one").await;
    market.until(made.id, AllocationState::Active).await;
    let market = market.unplug().await;
    market.verb(made.id, "stop").await;
    let path = format!("/v1/allocations/{}/start", made.id);
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let (api, path) = (market.api(), path.clone());
        asked.spawn(async move { api.post::<AllocationView>(&path, &json!({})).await.map(drop) });
    }
    let answers = asked.join_all().await;
    let codes: Vec<_> = answers
        .iter()
        .filter_map(|answer| answer.as_ref().err())
        .map(code)
        .collect();
    assert!(codes.iter().all(|code| *code == Some(Code::StateConflict)), "{codes:?}");
    market.close().await;
}

/// The same words under the same key, by two tokens of one person: two wishes.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_does_not_cross_from_one_project_to_another() {
    let market = Market::open().await;
    let mut tokens = Vec::new();
    for name in ["left", "right"] {
        let project = ProjectCreate {
            name: name.to_owned(),
            owner: None,
        };
        let project: ProjectView = market.api().post("/v1/projects", &project).await.expect("a project");
        let wish = ProjectTokenCreate {
            name: "ci".to_owned(),
            role: ProjectRole::Member,
            days: 1,
        };
        let path = format!("/v1/projects/{}/tokens", project.id);
        let made: TokenCreated = market.api().post(&path, &wish).await.expect("a token");
        tokens.push((project.id, Api::new(market.api().url(), &made.secret).expect("a URL")));
    }
    let wish = AllocationCreate {
        ssh_public_keys: vec![KEY.parse().expect("a key")],
        ..Market::wish()
    };
    let (left, by_left) = &tokens[0];
    let (_, by_right) = &tokens[1];
    let made: AllocationView = by_left
        .post_as("one", "/v1/allocations", &wish)
        .await
        .expect("accepted");
    let again: AllocationView = by_left
        .post_as("one", "/v1/allocations", &wish)
        .await
        .expect("replayed");
    assert_eq!((made.id, made.project_id), (again.id, *left));
    let other = by_right
        .post_as::<AllocationView>("one", "/v1/allocations", &wish)
        .await;
    assert_eq!(
        code(&other.expect_err("another wish")),
        Some(Code::IdempotencyKeyReused)
    );
    market.close().await;
}

/// A list may be older than the release that it is looked at after, and still prove the time before.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_used_until_the_release_can_be_proved_after_it() {
    let market = Market::open().await;
    let made = market.rents("one").await;
    market.until(made.id, AllocationState::Active).await;
    let market = market.unplug().await;
    let mut owner = PgConnection::connect(&market.town.db.owner_url())
        .await
        .expect("the owner");
    // As if its node had never signed anything.
    let unsigned = "delete from node_held; update usage_span set proven_until = lower(span)";
    sqlx::raw_sql(unsigned).execute(&mut owner).await.expect("forgotten");
    let pool = market.town.platform.apps[0].db.bookkeeping();
    eventually("a whole second, which is what is charged", async || {
        let over: bool =
            sqlx::query_scalar("select now() > lower(span) + interval '1 s' from usage_span where allocation_id = $1")
                .bind(made.id.uuid())
                .fetch_one(pool)
                .await
                .expect("a span");
        over.then_some(()).ok_or("not yet")
    })
    .await;
    market.verb(made.id, "release").await;
    let proven = async || -> bool {
        sqlx::query_scalar("select proven_until = upper(span) from usage_span where allocation_id = $1")
            .bind(made.id.uuid())
            .fetch_one(pool)
            .await
            .expect("a span that has ended")
    };
    assert!(!proven().await, "nobody has signed for all of it");
    let now = market.town.db.clock().now();
    assert!(usage::proven(pool, made.id, now.plus_s(60), None).await.expect("moved"));
    assert!(proven().await, "to its end, and not past it");
    assert!(
        !usage::proven(pool, made.id, now.plus_s(90), None).await.expect("asked"),
        "there is no more of it"
    );
    market.close().await;
}

/// A host that refuses is asked again, but not as often as it can answer; and the age of the wait is that of the first no.
/// Gives what makes the host as it was before.
async fn is_refused_and_waits(market: &Market, id: AllocationId, host: &str, task_type: &str) -> impl FnOnce() {
    let policy = market.town.dir().join(host).join("node.toml");
    let text = std::fs::read_to_string(&policy).expect("a policy");
    let narrowed = format!("allowed_task_types = [\"diag.health_probe\"]\n{text}");
    std::fs::write(&policy, narrowed).expect("narrowed");
    market.verb(id, "release").await;
    let waits = async || {
        eventually("it says what it waits for", async || {
            let conditions = market.shows(id).await.conditions;
            let waits = conditions.iter().find(|one| one.verb.contains("force-release"));
            waits.cloned().ok_or(format!("{conditions:?}"))
        })
        .await
    };
    let first = waits().await;
    let pause = eventually("it is asked again, and refused again", async || {
        let pause: Option<f64> = sqlx::query_scalar(
            "select pause from (
                 select extract(epoch from created_at - lag(ended_at) over (order by created_at))::float8 as pause, ended_at
                 from task where task_type = $1) t
             where pause is not null and ended_at is not null",
        )
        .bind(task_type)
        .fetch_optional(market.town.platform.apps[0].db.read())
        .await
        .expect("an answer");
        pause.ok_or("once only")
    })
    .await;
    assert!(pause > 3.0, "{pause} s after it was refused");
    assert_eq!(market.shows(id).await.state, AllocationState::Releasing);
    let again = waits().await;
    assert_eq!(
        (again.since, again.detail),
        (first.since, first.detail),
        "the age goes on"
    );
    move || std::fs::write(&policy, text).expect("as before")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_release_of_a_machine_is_asked_for_with_pauses_and_says_why_it_waits() {
    let market = machines::open().await;
    let made = machines::rents(&market, "one").await.expect("accepted");
    market.until(made.id, AllocationState::Active).await;
    let relents = is_refused_and_waits(&market, made.id, "m", "allocation.deprovision_user").await;
    relents();
    market.until(made.id, AllocationState::Released).await;
    market.close().await;
}

/// Its VM runs on, so it is nobody else's and not in quarantine either: only a release that was begun can end it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_release_of_a_slice_leaves_its_tenant_what_they_have() {
    let market = Market::open().await;
    let made = market.rents("one").await;
    market.until(made.id, AllocationState::Active).await;
    let relents = is_refused_and_waits(&market, made.id, "a", "slice.vm_release").await;
    let its = async || -> SlotView {
        let mut slots = market.slots().await.into_iter();
        slots.find(|slot| slot.id == made.slot_ids[0]).expect("its slot")
    };
    let held = its().await;
    assert_eq!(
        (held.state, held.allocation_id),
        (SlotState::Releasing, Some(made.id)),
        "{held:?}"
    );
    relents();
    market.until(made.id, AllocationState::Released).await;
    let after = its().await;
    assert!(after.state == SlotState::Free && after.wiped_at.is_some(), "{after:?}");
    market.close().await;
}

/// A release that its node has begun at last waits no more, however long it takes from there.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_is_begun_says_no_more_that_it_waits() {
    let market = Market::open().await;
    let made = market.rents("one").await;
    market.until(made.id, AllocationState::Active).await;
    let market = market.unplug().await;
    market.verb(made.id, "release").await;
    let owner = sqlx::PgPool::connect(&market.town.db.owner_url())
        .await
        .expect("the owner");
    let written = async |sql: &'static str| {
        eventually("it is written", async || {
            let done = sqlx::raw_sql(sql).execute(&owner).await.expect("an answer");
            (done.rows_affected() == 1)
                .then_some(())
                .ok_or("there is no such row yet")
        })
        .await;
    };
    written(
        "update allocation set waiting_since = now(), waiting_code = 'params_invalid', version = version + 1
         where state = 'releasing' and exists (select from task where task_type = 'slice.vm_release')",
    )
    .await;
    assert_eq!(market.shows(made.id).await.conditions.len(), 1);
    written(
        "update task set state = 'started', fence = 1, dispatched_at = now(), started_at = now(),
             lease_until = now() + interval '1 h' where task_type = 'slice.vm_release'",
    )
    .await;
    eventually("it waits no more", async || {
        let conditions = market.shows(made.id).await.conditions;
        conditions.is_empty().then_some(()).ok_or(format!("{conditions:?}"))
    })
    .await;
    owner.close().await;
    market.close().await;
}
