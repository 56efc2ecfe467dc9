//! What a project's own token hears: its project, whatever else its maker may see, and nothing once it is over.

use base::Clock;
use base::auth::Scope;
use dev::api::Api;
use dev::tail::Tail;
use dev::town::Town;
use http::{Method, StatusCode};
use model::api::{ProjectTokenCreate, TokenCreated};
use model::id::{AllocationId, ProjectId, TokenId};
use model::signal::Code;
use model::state::ProjectRole;
use model::time::Timestamp;

use super::{Person, end, hears, project, seats, settled};
use crate::EXE;
use crate::abuse::refused;

/// A token of the project, as its maker got it.
async fn token(town: &Town, maker: &Person, of: ProjectId) -> (TokenId, Api) {
    let wish = ProjectTokenCreate {
        name: "ci".to_owned(),
        role: ProjectRole::Viewer,
        days: 1,
    };
    let path = format!("/v1/projects/{of}/tokens");
    let made: TokenCreated = maker.at(town, 0).post(&path, &wish).await.expect("a token");
    let api = Api::new(&town.platform.public_urls[1], &made.secret).expect("a URL");
    (made.token.id, api)
}

async fn listens(town: &Town, api: &Api, path: &str) -> Tail {
    settled(town).await;
    let tail = api.tail(path, None).await.expect("answered");
    tail.unwrap_or_else(|refused| panic!("{path}: {} {:?}", refused.status, refused.error()))
}

#[tokio::test]
async fn it_hears_its_project_and_not_what_its_maker_hears() {
    let town = Town::start(EXE).await;
    // Even if the maker runs the platform.
    let ada = Person::of(&town, "ada-t", &[Scope::Operator]).await;
    let bob = Person::of(&town, "bob-t", &[]).await;
    let (one, two) = (project(&town, "one", &ada).await, project(&town, "two", &ada).await);
    let foreign = project(&town, "foreign", &bob).await;
    let (_, ci) = token(&town, &ada, one).await;
    let mut all = listens(&town, &ci, "/v1/events").await;
    let mut named = listens(&town, &ci, &format!("/v1/events?project={one}")).await;
    let mut maker = ada
        .listens(&town, 0, "/v1/events?types=project.*,node.created", None)
        .await;

    seats(&ada.at(&town, 0), two, "bob-t", "viewer").await;
    town.add_node("somewhere").await;
    seats(&bob.at(&town, 0), foreign, "ada-t", "viewer").await;
    seats(&ada.at(&town, 0), one, "bob-t", "member").await;

    let first = hears(&mut all).await;
    assert_eq!(
        first.project_id,
        Some(one.to_string()),
        "neither the other two projects nor a node"
    );
    assert_eq!(first.data["role"], "member");
    assert_eq!(hears(&mut named).await, first);
    let mut heard = Vec::new();
    for _ in 0..4 {
        heard.push(hears(&mut maker).await);
    }
    assert_eq!(heard.last(), Some(&first), "there was more to hear: {heard:?}");

    let missing = ci.tail(&format!("/v1/events?project={}", ProjectId::new()), None).await;
    let missing = missing.expect("answered").err().expect("no stream");
    for project in [two, foreign] {
        let answer = ci.tail(&format!("/v1/events?project={project}"), None).await;
        let answer = answer.expect("answered").err().expect("no stream");
        refused(&answer, Code::NotFound);
        assert_eq!(answer.body.len(), missing.body.len(), "foreign is like missing");
    }
    let path = format!("/v1/allocations/{}/events", AllocationId::new());
    let answer = ci.tail(&path, None).await.expect("answered").err().expect("no stream");
    refused(&answer, Code::NotFound);
    town.end().await;
}

#[tokio::test]
async fn it_hears_nothing_once_revoked_or_once_its_maker_has_left() {
    let town = Town::start(EXE).await;
    let (ada, bob) = (
        Person::of(&town, "ada-t", &[]).await,
        Person::of(&town, "bob-t", &[]).await,
    );
    let hers = project(&town, "hers", &ada).await;
    seats(&ada.at(&town, 0), hers, "bob-t", "admin").await;
    let (id, revoked) = token(&town, &ada, hers).await;
    let (_, left_behind) = token(&town, &bob, hers).await;
    let (_, kept) = token(&town, &ada, hers).await;
    let mut to_revoked = listens(&town, &revoked, "/v1/events").await;
    let mut to_left = listens(&town, &left_behind, "/v1/events").await;
    let mut to_kept = listens(&town, &kept, "/v1/events").await;

    let path = format!("/v1/projects/{hers}/tokens/{id}/revoke");
    let (api, nothing) = (ada.at(&town, 0), serde_json::json!({}));
    let done = api.call(Method::POST, &path, Some(&nothing)).await;
    assert_eq!(done.expect("answered").status, StatusCode::NO_CONTENT);
    assert_eq!(end(&mut to_revoked).await, Code::StreamAccessLost.as_str());

    let path = format!("/v1/projects/{hers}/members/{}", bob.user);
    let gone = ada.at(&town, 0).call(Method::DELETE, &path, None::<&()>).await;
    assert_eq!(gone.expect("answered").status, StatusCode::NO_CONTENT);
    assert_eq!(end(&mut to_left).await, Code::StreamAccessLost.as_str());

    assert_eq!(hears(&mut to_kept).await.data["role"], serde_json::Value::Null);
    let again = revoked.tail("/v1/events", None).await.expect("answered");
    refused(&again.err().expect("no stream"), Code::TokenInvalid);
    town.end().await;
}

#[tokio::test]
async fn it_hears_nothing_after_its_last_day() {
    let clock = Clock::fixed(Timestamp::from_millis(1_800_000_000_000));
    let town = Town::at(EXE, clock.clone(), |_| {}).await;
    let ada = Person::of(&town, "ada-t", &[]).await;
    let hers = project(&town, "hers", &ada).await;
    let (_, ci) = token(&town, &ada, hers).await;
    let mut tail = listens(&town, &ci, "/v1/events").await;
    // Shorter than the token lasts, longer than the person's own.
    clock.advance(7_200_000);
    let mut young = listens(&town, &ci, "/v1/events").await;
    clock.advance(86_400_000);
    assert_eq!(end(&mut tail).await, Code::StreamAccessLost.as_str());
    assert_eq!(end(&mut young).await, Code::StreamAccessLost.as_str());
    let again = ci.tail("/v1/events", None).await.expect("answered");
    refused(&again.err().expect("no stream"), Code::TokenExpired);
    town.end().await;
}
