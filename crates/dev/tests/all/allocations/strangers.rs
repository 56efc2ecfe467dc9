//! Whoever has no business in a project neither sees it nor holds anybody up there.

use std::time::Duration;

use base::auth::Scope;
use http::Method;
use model::api::SkuView;
use model::id::ProjectId;
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use wire::http::Response;

use super::*;

/// Longer than an answer takes, and shorter than anybody would hold the lock.
const AT_ONCE: Duration = Duration::from_secs(10);

/// Status and body, without what differs with every request.
fn bare(answer: &Response) -> (u16, String) {
    let mut body: Value = answer.json().unwrap_or(Value::Null);
    if let Some(error) = body.get_mut("error").and_then(Value::as_object_mut) {
        error.remove("correlation_id");
    }
    (answer.status.as_u16(), body.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_waits_for_nobody_in_a_foreign_project() {
    let market = Market::open().await.unplug().await;
    let project = market.rents("one").await.project_id;
    let (user, stranger) = market.town.person("stranger", Scope::Project).await;
    let mut owner = PgConnection::connect(&market.town.db.owner_url())
        .await
        .expect("the owner");
    let mut held = owner.begin().await.expect("a transaction");
    sqlx::query("select from quota where project_id = $1 for update")
        .bind(project.uuid())
        .execute(&mut *held)
        .await
        .expect("locked");
    for (what, call) in ["create", "add", "remove"].into_iter().zip(0..) {
        let asks = async |project: ProjectId| {
            let members = format!("/v1/projects/{project}/members");
            let asked = async {
                match call {
                    0 => {
                        let wish = AllocationCreate {
                            project: Some(project),
                            ..Market::wish()
                        };
                        stranger.call_as("one", "/v1/allocations", &wish).await
                    }
                    1 => {
                        let body = json!({ "user": "stranger", "role": "owner" });
                        stranger.call(Method::POST, &members, Some(&body)).await
                    }
                    _ => {
                        let path = format!("{members}/{user}");
                        stranger.call(Method::DELETE, &path, None::<&()>).await
                    }
                }
            };
            let answer = tokio::time::timeout(AT_ONCE, asked).await;
            answer
                .unwrap_or_else(|_| panic!("{what} waits for the lock"))
                .expect("an answer")
        };
        let foreign = asks(project).await;
        assert_eq!(foreign.status, 404, "{what}");
        assert_eq!(bare(&foreign), bare(&asks(ProjectId::new()).await), "{what}");
    }
    held.rollback().await.expect("let go");
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finance_sees_what_things_cost_and_nobodys_things() {
    let market = Market::open().await.unplug().await;
    let made = market.rents("one").await;
    let (_, finance) = market.town.person("finance", Scope::Finance).await;
    let (id, project) = (made.id, made.project_id);
    for path in [
        "/v1/allocations".to_owned(),
        format!("/v1/allocations/{id}"),
        format!("/v1/allocations/{id}/phases"),
        "/v1/projects".to_owned(),
        format!("/v1/projects/{project}/members"),
        format!("/v1/projects/{project}/quota"),
    ] {
        let answer = finance.call(Method::GET, &path, None::<&()>).await.expect("an answer");
        assert_eq!(answer.status, 403, "{path}");
    }
    let sku = dev::demo::sku("slice.soon", 1).expect("a SKU");
    let sku: SkuView = market.api().post("/v1/skus", &sku).await.expect("made");
    sqlx::query("update sku set visible = false where id = $1")
        .bind(sku.id.uuid())
        .execute(market.town.platform.apps[0].db.bookkeeping())
        .await
        .expect("not offered yet");
    let seen: SkuView = finance.get(&format!("/v1/skus/{}", sku.id)).await.expect("seen");
    assert_eq!(
        seen.name, "slice.soon",
        "whoever sets the price sees what is not offered yet"
    );
    market.close().await;
}
