//! Tokens of people and of projects, and what they do not reach.

use dev::api::Api;
use dev::town::Town;
use http::Method;
use model::api::{
    Page, ProjectCreate, ProjectTokenCreate, ProjectView, TokenCreate, TokenCreated, TokenView, UserView,
};
use model::api::{Scope, UserRole, Via, WhoAmI};
use model::signal::Code;
use model::state::ProjectRole;
use serde_json::{Value, json};

use super::town;
use crate::abuse::{audited, refused};

async fn as_person(town: &Town, issuer: &base::testing::issuer::Issuer, name: &str) -> Api {
    let token = issuer.access_token(&issuer.claims(name, super::AUDIENCE));
    let api = Api::new(&town.platform.public_urls[0], &token).expect("a URL");
    let me: WhoAmI = api.get("/v1/me").await.expect("somebody");
    assert_eq!(me.via, Via::Provider);
    api
}

async fn answered(api: &Api, method: Method, path: &str, body: Option<Value>) -> wire::http::Response {
    api.call(method, path, body.as_ref()).await.expect("an answer")
}

fn with(api: &Api, made: &TokenCreated) -> Api {
    Api::new(api.url(), &made.secret).expect("a URL")
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_has_their_own_tokens_and_nobody_elses() {
    let (town, issuer) = town().await;
    let (bob, eve) = (
        as_person(&town, &issuer, "bob").await,
        as_person(&town, &issuer, "eve").await,
    );
    let wish = |scopes: &[Scope]| TokenCreate {
        name: "mine".to_owned(),
        scopes: scopes.to_vec(),
        days: 1,
    };
    let made: TokenCreated = bob.post("/v1/tokens", &wish(&[Scope::Project])).await.expect("a token");
    let stronger = bob
        .call(
            Method::POST,
            "/v1/tokens",
            Some(&wish(&[Scope::Project, Scope::Operator])),
        )
        .await;
    audited(&town, &refused(&stronger.expect("an answer"), Code::Forbidden)).await;
    let mine: Page<TokenView> = eve.get("/v1/tokens").await.expect("a list");
    assert!(mine.items.is_empty(), "{mine:?}");
    let path = format!("/v1/tokens/{}/revoke", made.token.id);
    refused(
        &answered(&eve, Method::POST, &path, Some(json!({}))).await,
        Code::NotFound,
    );
    with(&bob, &made).get::<WhoAmI>("/v1/me").await.expect("still good");
    assert_eq!(
        answered(&bob, Method::POST, &path, Some(json!({})))
            .await
            .status
            .as_u16(),
        204
    );
    refused(
        &answered(&with(&bob, &made), Method::GET, "/v1/me", None).await,
        Code::TokenInvalid,
    );
    // An administrator sees all of them.
    let all: Page<TokenView> = town.api().get("/v1/tokens").await.expect("a list");
    assert!(
        all.items
            .iter()
            .any(|token| token.id == made.token.id && token.revoked_at.is_some())
    );
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_projects_token_works_there_and_nowhere_else() {
    let (town, issuer) = town().await;
    let bob = as_person(&town, &issuer, "bob").await;
    let operator = town.api();
    let mut projects = Vec::new();
    for name in ["one", "two"] {
        let body = ProjectCreate {
            name: name.to_owned(),
            owner: Some("bob".to_owned()),
        };
        projects.push(
            operator
                .post::<ProjectView>("/v1/projects", &body)
                .await
                .expect("a project"),
        );
    }
    let (one, two) = (projects[0].id, projects[1].id);
    let tokens = format!("/v1/projects/{one}/tokens");
    let wish = |role| ProjectTokenCreate {
        name: "ci".to_owned(),
        role,
        days: 1,
    };
    let made: TokenCreated = bob.post(&tokens, &wish(ProjectRole::Member)).await.expect("a token");
    let ci = with(&bob, &made);
    let seen: Page<ProjectView> = ci.get("/v1/projects").await.expect("a list");
    assert_eq!(seen.items.iter().map(|project| project.id).collect::<Vec<_>>(), [one]);
    ci.get::<ProjectView>(&format!("/v1/projects/{one}"))
        .await
        .expect("its project");
    ci.get::<Value>("/v1/allocations").await.expect("its allocations");
    // The other project of the same person is not there.
    for path in [format!("/v1/projects/{two}"), format!("/v1/allocations?project={two}")] {
        refused(&answered(&ci, Method::GET, &path, None).await, Code::NotFound);
    }
    // Nothing of the person's own, and nothing that would make it stronger.
    for (method, path, body) in [
        (Method::GET, "/v1/keys".to_owned(), None),
        (Method::GET, "/v1/tokens".to_owned(), None),
        (
            Method::POST,
            "/v1/tokens".to_owned(),
            Some(json!({ "name": "x", "scopes": ["project"], "days": 1 })),
        ),
        (Method::POST, tokens.clone(), Some(json!(wish(ProjectRole::Member)))),
        (
            Method::POST,
            format!("/v1/projects/{one}/members"),
            Some(json!({ "user": "eve", "role": "owner" })),
        ),
    ] {
        refused(&answered(&ci, method, &path, body).await, Code::Forbidden);
    }
    // What its maker may no longer do, it may not either.
    let owner: TokenCreated = bob.post(&tokens, &wish(ProjectRole::Owner)).await.expect("a token");
    let listed: Page<TokenView> = bob.get(&tokens).await.expect("a list");
    assert_eq!(listed.items.len(), 2);
    let path = format!("{tokens}/{}/revoke", made.token.id);
    assert_eq!(
        answered(&bob, Method::POST, &path, Some(json!({})))
            .await
            .status
            .as_u16(),
        204
    );
    refused(
        &answered(&ci, Method::GET, "/v1/projects", None).await,
        Code::TokenInvalid,
    );
    let me: WhoAmI = bob.get("/v1/me").await.expect("bob");
    let users: Page<UserView> = operator.get("/v1/users").await.expect("a list");
    assert!(
        users
            .items
            .iter()
            .any(|user| user.id == me.user_id && user.issuer.is_some()),
        "{users:?}"
    );
    let shut = answered(
        &operator,
        Method::POST,
        &format!("/v1/users/{}/disable", me.user_id),
        Some(json!({})),
    )
    .await;
    assert_eq!(shut.status.as_u16(), 204);
    refused(
        &answered(&with(&bob, &owner), Method::GET, "/v1/projects", None).await,
        Code::TokenInvalid,
    );
    refused(&answered(&bob, Method::GET, "/v1/me", None).await, Code::UserDisabled);
    // Where the provider's claim decides roles, nobody grants them here.
    let granted = UserRole { role: Scope::Operator };
    let path = format!("/v1/users/{}/grant", me.user_id);
    refused(
        &answered(&operator, Method::POST, &path, Some(json!(granted))).await,
        Code::StateConflict,
    );
    town.end().await;
}
