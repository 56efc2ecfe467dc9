//! Names are chosen by those who bear them, so they open nothing: no seat waits for a name, and whoever takes another's
//! name, or their id for a name, is still nobody but themselves.

use base::testing::issuer::Issuer;
use dev::api::Api;
use dev::town::Town;
use http::Method;
use model::api::{MemberView, Page, ProjectCreate, ProjectView, WhoAmI};
use model::id::{ProjectId, UserId};
use model::signal::Code;
use serde_json::json;

use super::{AUDIENCE, town};
use crate::abuse::refused;

/// Somebody the provider knows by this subject, who calls themselves so.
async fn comes(town: &Town, issuer: &Issuer, subject: &str, name: &str) -> (WhoAmI, Api) {
    let mut claims = issuer.claims("bob", AUDIENCE);
    (claims["sub"], claims["preferred_username"]) = (json!(subject), json!(name));
    let api = Api::new(&town.platform.public_urls[0], &issuer.access_token(&claims)).expect("a URL");
    (api.get("/v1/me").await.expect("somebody"), api)
}

async fn adds(owner: &Api, of: ProjectId, user: &str) -> wire::http::Response {
    let path = format!("/v1/projects/{of}/members");
    let body = json!({ "user": user, "role": "viewer" });
    owner.call(Method::POST, &path, Some(&body)).await.expect("an answer")
}

async fn members(owner: &Api, of: ProjectId) -> Vec<UserId> {
    let page: Page<MemberView> = owner.get(&format!("/v1/projects/{of}/members")).await.expect("a list");
    let mut ids: Vec<UserId> = page.items.into_iter().map(|one| one.user_id).collect();
    ids.sort_by_key(|id| id.uuid());
    ids
}

async fn sees_nothing(api: &Api, of: ProjectId) {
    let seen: Page<ProjectView> = api.get("/v1/projects").await.expect("a list");
    assert!(seen.items.is_empty(), "{seen:?}");
    let path = format!("/v1/projects/{of}");
    let answer = api.call(Method::GET, &path, None::<&()>).await.expect("an answer");
    refused(&answer, Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_55_names() {
    let (town, issuer) = town().await;
    let (owner_is, owner) = comes(&town, &issuer, "s-owner", "owner").await;
    let wish = ProjectCreate {
        name: "hers".to_owned(),
        owner: Some(owner_is.user_id.to_string()),
    };
    let hers: ProjectView = town.api().post("/v1/projects", &wish).await.expect("a project");
    let hers = hers.id;

    // No seat is kept for a name: whoever comes under it later was not meant.
    let error = refused(&adds(&owner, hers, "carol").await, Code::NotFound);
    assert_eq!(error.details["field"], "user");
    let (first, impostor) = comes(&town, &issuer, "s-impostor", "carol").await;
    assert_eq!(first.user, "carol", "the name was free, and the attack is on");
    sees_nothing(&impostor, hers).await;

    // The one who was meant comes later, under the same name, and is let in by what nobody can choose.
    let (meant, carol) = comes(&town, &issuer, "s-carol", "carol").await;
    assert!(meant.user_id != first.user_id && meant.user != "carol", "{meant:?}");
    let seated = adds(&owner, hers, &meant.user_id.to_string()).await;
    assert!(seated.status.is_success(), "{seated:?}");
    carol
        .get::<ProjectView>(&format!("/v1/projects/{hers}"))
        .await
        .expect("hers to see");
    sees_nothing(&impostor, hers).await;

    // Names that read like another's name, or like another's id.
    let (dora, _) = comes(&town, &issuer, "s-dora", "dora").await;
    for (subject, wanted) in [
        ("s-1", "DORA"),
        ("s-2", " dora"),
        ("s-3", dora.user_id.to_string().as_str()),
    ] {
        let (got, _) = comes(&town, &issuer, subject, wanted).await;
        assert!(
            got.user != "dora" && got.user != wanted,
            "{wanted:?} became {}",
            got.user
        );
        assert_ne!(got.user_id, dora.user_id);
    }
    let seated = adds(&owner, hers, &dora.user_id.to_string()).await;
    let seated: MemberView = seated.json().expect("a member");
    assert_eq!((seated.user_id, seated.user.as_str()), (dora.user_id, "dora"));
    let mut all = vec![owner_is.user_id, meant.user_id, dora.user_id];
    all.sort_by_key(|id| id.uuid());
    assert_eq!(members(&owner, hers).await, all);

    // A name stays with whom it was first given to, whatever they call themselves later and whoever writes rows.
    let (again, _) = comes(&town, &issuer, "s-impostor", "owner").await;
    assert_eq!((again.user_id, again.user.as_str()), (first.user_id, "carol"));
    for statement in [
        "update app_user set name = 'x' where name = 'carol'",
        "delete from app_user where name = 'carol'",
        "update user_identity set user_id = (select id from app_user where name = 'owner')",
        "update user_identity set subject = 's-owner' where subject = 's-impostor'",
        "delete from user_identity",
    ] {
        let tried = sqlx::query(statement)
            .execute(town.platform.apps[0].db.bookkeeping())
            .await;
        let state = tried
            .expect_err(statement)
            .into_database_error()
            .expect("the database's");
        assert_eq!(state.code().as_deref(), Some("42501"), "{statement}: {state}");
    }
    town.end().await;
}
