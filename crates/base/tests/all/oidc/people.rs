//! First sight makes a user, and only issuer and subject say who somebody is.

use base::auth::{self, Scope};
use base::testing::issuer::{Issuer, Person};
use base::{Actor, Clock};
use model::signal::Code;
use serde_json::json;

use super::{AUDIENCE, Scene};

#[tokio::test]
async fn somebody_new_is_made_once_and_known_again() {
    let scene = Scene::new().await;
    let token = scene.token("ada");
    let (one, two) = tokio::join!(scene.ask(&token), scene.ask(&token));
    let (one, two) = (one.expect("comes in"), two.expect("comes in"));
    assert_eq!((one.user_id, one.user_name.as_str()), (two.user_id, "ada"));
    assert_eq!(
        one.scopes(),
        [Scope::Project],
        "the provider's groups mean nothing unless told"
    );
    assert_eq!(scene.users().await, 1);
    scene.clock.advance(3_600_000);
    let later = scene.ask(&scene.token("ada")).await.expect("comes in");
    assert_eq!(later.user_id, one.user_id);
    let acts: Vec<String> = sqlx::query_scalar("select action from audit where action like 'user.%'")
        .fetch_all(scene.app.db.read())
        .await
        .expect("readable");
    assert_eq!(acts, ["user.sign_up"]);
}

#[tokio::test]
async fn a_name_that_is_taken_opens_nobody_elses_account() {
    let scene = Scene::new().await;
    let admin = auth::user_create(&scene.app.db, &Actor::system("test"), "ada", &[Scope::Admin]).await;
    let admin = admin.expect("creates");
    let stranger = scene.ask(&scene.token("ada")).await.expect("comes in");
    assert_ne!(stranger.user_id, admin);
    assert!(stranger.user_name.starts_with("ada-"), "{}", stranger.user_name);
    assert!(!stranger.may(Scope::Admin));
    // The same subject of another issuer is another person, and this one is believed by nobody.
    let other = Issuer::start(vec![Person::new("ada", &[])], Clock::real())
        .await
        .expect("a port");
    assert_eq!(
        scene.refused(&other.access_token(&scene.claims("ada"))).await,
        Code::TokenInvalid
    );
}

#[tokio::test]
async fn a_disabled_person_stays_out() {
    let scene = Scene::new().await;
    let ada = scene.ask(&scene.token("ada")).await.expect("comes in");
    auth::user_disable(&scene.app.db, &Actor::system("test"), ada.user_id)
        .await
        .expect("disables");
    scene.clock.advance(60_000);
    assert_eq!(scene.refused(&scene.token("ada")).await, Code::UserDisabled);
    assert_eq!(scene.users().await, 1);
    let rows: i64 =
        sqlx::query_scalar("select count(*) from audit where action = 'user.sign_in' and code = 'user_disabled'")
            .fetch_one(scene.app.db.read())
            .await
            .expect("readable");
    assert_eq!(rows, 1);
}

#[tokio::test]
async fn mapped_groups_are_roles_and_an_older_token_does_not_bring_them_back() {
    let scene = Scene::with(|config| {
        config.oidc_role_claim = Some("realm_access.roles".to_owned());
        config.oidc_role_map = vec!["cn=gpu-admins=admin".to_owned(), "noc=operator".to_owned()];
    })
    .await;
    let with = |roles: serde_json::Value| {
        let mut claims = scene.claims("ada");
        claims["realm_access"] = json!({ "roles": roles });
        scene.issuer.access_token(&claims)
    };
    let strong = with(json!(["cn=gpu-admins", "other"]));
    let ada = scene.ask(&strong).await.expect("comes in");
    assert!(ada.may(Scope::Admin));
    scene.clock.advance(5_000);
    let weak = with(json!(["noc"]));
    let ada = scene.ask(&weak).await.expect("comes in");
    assert_eq!(ada.scopes(), [Scope::Operator, Scope::Project]);
    let ada = scene.ask(&strong).await.expect("still a valid token");
    assert_eq!(
        ada.scopes(),
        [Scope::Operator, Scope::Project],
        "the newest word counts"
    );
    scene.clock.advance(5_000);
    for nothing in [json!("noc-like"), json!({ "noc": true }), json!(null), json!([["noc"]])] {
        scene.clock.advance(1_000);
        assert_eq!(
            scene.ask(&with(nothing)).await.expect("comes in").scopes(),
            [Scope::Project]
        );
    }
}

#[tokio::test]
async fn without_an_audience_the_providers_tokens_open_nothing() {
    let scene = Scene::with(|config| config.oidc_audience = None).await;
    let token = scene.issuer.access_token(&scene.issuer.claims("ada", AUDIENCE));
    assert_eq!(scene.refused(&token).await, Code::TokenInvalid);
    let scene = Scene::with(|config| config.oidc_issuer = None).await;
    assert_eq!(scene.refused(&scene.token("ada")).await, Code::TokenInvalid);
}
