//! The end of a project: only with nothing left in it, only by an owner, and without a trace for those who were in it.
//! What happened in it stays on record.

mod race;
mod walk;

use base::auth::Scope;
use dev::api::Refused;
use http::Method;
use model::api::{ProjectCreate, ProjectView};
use model::signal::Code;
use wire::http::Response;

use super::*;
use crate::abuse::refused;

async fn founds(market: &Market, name: &str, owner: &str) -> ProjectView {
    let body = ProjectCreate {
        name: name.to_owned(),
        owner: Some(owner.to_owned()),
    };
    market.api().post("/v1/projects", &body).await.expect("a project")
}

fn wish(project: &ProjectView) -> AllocationCreate {
    AllocationCreate {
        project: Some(project.id),
        ssh_public_keys: vec![dev::slice::SSH_KEY.parse().expect("a key")],
        ..Market::wish()
    }
}

async fn rents(api: &Api, project: &ProjectView, key: &str) -> Result<AllocationView, Option<Code>> {
    let made = api.post_as(key, "/v1/allocations", &wish(project)).await;
    made.map_err(|error| error.downcast_ref::<Refused>().and_then(Refused::code))
}

async fn ends(api: &Api, project: &ProjectView) -> Response {
    let path = format!("/v1/projects/{}", project.id);
    api.call_if(Method::DELETE, &path, Some("\"1\""))
        .await
        .expect("an answer")
}

async fn counts(market: &Market, sql: &'static str, id: &str) -> i64 {
    let count = sqlx::query_scalar(sql).bind(id);
    let read = market.town.platform.apps[0].db.read();
    count.fetch_one(read).await.expect("a count")
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_listened_to_a_project_is_sent_away_when_it_ends() {
    let market = Market::open().await.unplug().await;
    let (_, owner) = market.town.person("owner", Scope::Project).await;
    let project = founds(&market, "hers", "owner").await;
    let all = owner.tail("/v1/events", None).await.expect("answered");
    let mut all = all.expect("a stream");
    assert_eq!(ends(&owner, &project).await.status, 204);
    assert_eq!(events::end(&mut all).await, Code::StreamAccessLost.as_str());
    market.close().await;
}
