//! Whatever people ask to be done, asked again under the same key, is done once and answered alike.

mod every;

use std::time::Duration;

use base::auth::Scope;
use base::testing::eventually;
use dev::api::Api;
use dev::town::Town;
use http::Method;
use model::api::{MemberView, Page, ProjectCreate, ProjectView, QuotaView, SkuView, TokenView};
use model::signal::Code;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use wire::http::Response;

use crate::EXE;
use crate::abuse::{refused, sql};

fn replayed(answer: &Response) -> bool {
    let told = answer.headers.get(base::idempotency::REPLAYED);
    told.is_some_and(|value| value == "true")
}

/// The same twice: the answer is the same to the byte, and says so.
async fn twice(api: &Api, key: &str, path: &str, body: &Value) -> Response {
    let first = api.call_as(key, path, body).await.expect("an answer");
    assert!(first.status.is_success() && !replayed(&first), "{path}: {first:?}");
    let second = api.call_as(key, path, body).await.expect("an answer");
    assert!(replayed(&second), "{path}: {second:?}");
    assert_eq!((second.status, &second.body), (first.status, &first.body), "{path}");
    for name in ["etag", "content-type"] {
        assert_eq!(second.headers.get(name), first.headers.get(name), "{path}: {name}");
    }
    first
}

async fn project(town: &Town, owner: Option<&str>) -> ProjectView {
    let body = ProjectCreate {
        name: "theirs".to_owned(),
        owner: owner.map(str::to_owned),
    };
    town.api().post("/v1/projects", &body).await.expect("a project")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_twice_is_done_once_and_another_wish_needs_another_key() {
    let town = Town::still(EXE).await;
    let api = town.api();
    let made = twice(&api, "one", "/v1/projects", &json!({ "name": "one" })).await;
    let made: ProjectView = made.json().expect("a project");
    for other in [json!({ "name": "two" }), json!({ "name": "one", "owner": "bea" })] {
        let answer = api.call_as("one", "/v1/projects", &other).await.expect("an answer");
        refused(&answer, Code::IdempotencyKeyReused);
    }
    // Under a key of its own route and of its own caller it is another wish.
    let quota = format!("/v1/projects/{}/quota", made.id);
    let set = twice(&api, "one", &quota, &json!({ "slots": 5, "terminals": 3 })).await;
    let set: QuotaView = set.json().expect("a quota");
    assert_eq!((set.slots, set.version), (5, 2), "set once");
    let swapped = api.call_as("one", &quota, &json!({ "terminals": 3, "slots": 5 })).await;
    assert!(
        replayed(&swapped.expect("an answer")),
        "the same words in another order"
    );
    let elsewhere = format!("/v1/projects/{}/quota", project(&town, None).await.id);
    let answer = api
        .call_as("one", &elsewhere, &json!({ "slots": 5, "terminals": 3 }))
        .await;
    refused(&answer.expect("an answer"), Code::IdempotencyKeyReused);
    // What was refused is not kept, and what is no key is said.
    let twin = json!({ "name": "twin" });
    let _: ProjectView = api.post("/v1/projects", &twin).await.expect("a project");
    for _ in 0..2 {
        let answer = api.call_as("three", "/v1/projects", &twin).await.expect("an answer");
        assert!(answer.status == 409 && !replayed(&answer), "{answer:?}");
    }
    twice(&api, "three", "/v1/projects", &json!({ "name": "three" })).await;
    let answer = api.call_as("no key", "/v1/projects", &twin).await.expect("an answer");
    refused(&answer, Code::IdempotencyKeyMissing);
    let page: Page<model::api::AuditRow> = api.get("/v1/audit?action=quota.set").await.expect("read");
    assert_eq!(page.items.len(), 1);
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_at_once_one_does_it() {
    let town = Town::still(EXE).await;
    let (api, hers) = (town.api(), project(&town, None).await);
    let path = format!("/v1/projects/{}/quota", hers.id);
    let body = json!({ "slots": 6 });
    let all = (0..12).map(|_| api.call_as("one", &path, &body));
    let all = futures_util::future::join_all(all).await;
    let mut fresh = 0;
    for answer in all.into_iter().map(|answer| answer.expect("an answer")) {
        match answer.status.as_u16() {
            200 => fresh += i32::from(!replayed(&answer)),
            _ => drop(refused(&answer, Code::IdempotencyInFlight)),
        }
    }
    assert_eq!(fresh, 1);
    let quota: QuotaView = api.get(&path).await.expect("a quota");
    assert_eq!(quota.version, 2);
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_made_once_told_once_and_kept_nowhere() {
    let town = Town::still(EXE).await;
    let (_, bea) = town.person("bea", Scope::Project).await;
    let body = json!({ "name": "ci", "scopes": ["project"], "days": 1 });
    let first = bea.call_as("one", "/v1/tokens", &body).await.expect("an answer");
    assert_eq!(first.status, 201, "{first:?}");
    let again = bea.call_as("one", "/v1/tokens", &body).await.expect("an answer");
    refused(&again, Code::IdempotencyAnswerGone);
    let tokens: Page<TokenView> = bea.get("/v1/tokens").await.expect("a list");
    assert_eq!(tokens.items.iter().filter(|token| token.name == "ci").count(), 1);
    let secret: Value = first.json().expect("an answer");
    let secret = secret["secret"].as_str().expect("a secret");
    let kept: Vec<String> = sqlx::query_scalar("select answer::text from idempotency")
        .fetch_all(town.platform.apps[0].db.read())
        .await
        .expect("read");
    assert!(kept == ["null"], "{secret} is in {kept:?}");
    town.end().await;
}

/// Between the change and its answer a process may die, here for want of a right: it was done, and that is what is told.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_never_kept_is_said_to_be_gone() {
    let town = Town::still(EXE).await;
    let body = json!({ "name": "one" });
    let ask = async || {
        let answer = town.api().call_as("one", "/v1/projects", &body).await;
        answer.expect("an answer")
    };
    sql(&town, "revoke delete on idempotency from gpuaas_app").await;
    assert_eq!(ask().await.status, 201);
    refused(&ask().await, Code::IdempotencyInFlight);
    sql(
        &town,
        "update idempotency set created_at = now() - interval '2 minutes'",
    )
    .await;
    refused(&ask().await, Code::IdempotencyAnswerGone);
    sql(
        &town,
        "grant delete on idempotency to gpuaas_app; update idempotency set created_at = now() - interval '25 hours'",
    )
    .await;
    refused(&ask().await, Code::StateConflict);
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_hangs_up_in_the_middle_finds_the_answer() {
    let town = Town::still(EXE).await;
    let (_, bea) = town.person("bea", Scope::Project).await;
    town.person("eve", Scope::Project).await;
    let hers = project(&town, Some("bea")).await;
    let path = format!("/v1/projects/{}/members", hers.id);
    let body = json!({ "user": "eve", "role": "viewer" });
    let mut owner = PgConnection::connect(&town.db.owner_url()).await.expect("the owner");
    let mut held = owner.begin().await.expect("a transaction");
    sqlx::query("select from quota where project_id = $1 for update")
        .bind(hers.id.uuid())
        .execute(&mut *held)
        .await
        .expect("locked");
    let gone = tokio::time::timeout(Duration::from_secs(1), bea.call_as("one", &path, &body)).await;
    assert!(gone.is_err(), "it waits for the lock");
    held.rollback().await.expect("let go");
    eventually("it was done without them", async || {
        let members: Page<MemberView> = bea.get(&path).await.expect("a list");
        if members.items.len() == 2 {
            Ok(())
        } else {
            Err(members.items.len())
        }
    })
    .await;
    eventually("the answer is there", async || {
        let answer = bea.call_as("one", &path, &body).await.expect("an answer");
        if answer.status == 200 && replayed(&answer) {
            Ok(())
        } else {
            Err(answer)
        }
    })
    .await;
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_no_more_is_not_answered_again() {
    let town = Town::still(EXE).await;
    let (_, bea) = town.person("bea", Scope::Project).await;
    let (eve, hers_too) = town.person("eve", Scope::Project).await;
    town.person("guest", Scope::Project).await;
    let hers = project(&town, Some("bea")).await;
    let path = format!("/v1/projects/{}/members", hers.id);
    let seat = |user: &str, role: &str| json!({ "user": user, "role": role });
    twice(&bea, "one", &path, &seat("eve", "admin")).await;
    let body = seat("guest", "viewer");
    twice(&hers_too, "two", &path, &body).await;
    twice(&bea, "three", &path, &seat("eve", "viewer")).await;
    refused(
        &hers_too.call_as("two", &path, &body).await.expect("an answer"),
        Code::Forbidden,
    );
    let gone = bea.call(Method::DELETE, &format!("{path}/{eve}"), None::<&()>).await;
    assert_eq!(gone.expect("an answer").status, 204);
    refused(
        &hers_too.call_as("two", &path, &body).await.expect("an answer"),
        Code::NotFound,
    );
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_price_is_raised_once() {
    let town = Town::still(EXE).await;
    town.lists_demo_image().await;
    let api = town.api();
    let sku = json!(dev::demo::sku("slice.new", 1).expect("a SKU"));
    let sku: SkuView = twice(&api, "sku", "/v1/skus", &sku).await.json().expect("a SKU");
    let path = format!("/v1/skus/{}/price", sku.id);
    let priced = twice(&api, "price", &path, &json!({ "price_micro_per_hour": 7 })).await;
    let priced: SkuView = priced.json().expect("a SKU");
    assert_eq!(priced.price_micro_per_hour, 7);
    town.end().await;
}
