//! Tokens and users.

use base::auth::{self, Scope, Whose};
use base::http::PageQuery;
use base::testing::TestDb;
use base::{Actor, App, Clock};
use http::{HeaderMap, HeaderValue};
use model::signal::Code;
use model::time::Timestamp;

fn bearer(secret: &str) -> HeaderMap {
    let value = HeaderValue::from_str(&format!("Bearer {secret}")).expect("ascii");
    HeaderMap::from_iter([(http::header::AUTHORIZATION, value)])
}

async fn code(app: &App, headers: &HeaderMap) -> Code {
    auth::authenticate(app, headers, None).await.expect_err("refused").code
}

async fn refusals(app: &App) -> Vec<(String, Option<String>)> {
    sqlx::query_as("select action, code from audit where outcome = 'refused' order by id")
        .fetch_all(app.db.read())
        .await
        .expect("readable")
}

#[tokio::test]
async fn the_first_administrator_is_made_once() {
    let test = TestDb::new().await;
    let app = test.app().await;
    let (one, two) = tokio::join!(
        auth::bootstrap_admin(&app.db, "ada"),
        auth::bootstrap_admin(&app.db, "bob")
    );
    assert!(one.is_ok() != two.is_ok(), "exactly one: {one:?} {two:?}");
    let token = one.or(two).expect("one of them");
    let principal = auth::authenticate(&app, &bearer(&token.secret.reveal()), None)
        .await
        .expect("works");
    assert!(principal.may(Scope::Operator) && principal.may(Scope::Admin));
    assert_eq!(
        auth::bootstrap_admin(&app.db, "eve").await.expect_err("too late").code,
        Code::StateConflict
    );
    let acts: Vec<String> =
        sqlx::query_scalar("select action from audit where action <> 'installation.create' order by id")
            .fetch_all(app.db.read())
            .await
            .expect("readable");
    assert_eq!(acts, ["user.bootstrap", "token.create"]);
    let stored: i64 = sqlx::query_scalar("select count(*) from audit where details_text like '%' || $1 || '%'")
        .bind(&token.secret.reveal()[10..])
        .fetch_one(app.db.read())
        .await
        .expect("readable");
    assert_eq!(stored, 0, "a secret in the audit");
}

#[tokio::test]
async fn a_token_ends_by_time_by_revocation_and_with_its_owner() {
    let clock = Clock::fixed(Timestamp::from_millis(1_700_000_000_000));
    let test = TestDb::with_clock(clock.clone()).await;
    let app = test.app().await;
    let actor = Actor::system("test");
    let user = auth::user_create(&app.db, &actor, "ada", &[Scope::Operator])
        .await
        .expect("creates");
    let make = async |name: &'static str| {
        let token = auth::token_create(&app.db, &actor, user, name, &[Scope::Operator, Scope::Auditor], 3600).await;
        token.expect("creates")
    };
    let (short, revoked, last) = (make("short").await, make("revoked").await, make("last").await);
    let principal = auth::authenticate(&app, &bearer(&short.secret.reveal()), None)
        .await
        .expect("works");
    assert!(
        principal.may(Scope::Operator) && !principal.may(Scope::Auditor),
        "no more than its owner"
    );

    auth::token_revoke(&app.db, &actor, Whose::Everybodys, revoked.id)
        .await
        .expect("revokes");
    auth::token_revoke(&app.db, &actor, Whose::Everybodys, revoked.id)
        .await
        .expect("twice is once");
    assert_eq!(code(&app, &bearer(&revoked.secret.reveal())).await, Code::TokenInvalid);

    clock.advance(3_599_999);
    auth::authenticate(&app, &bearer(&short.secret.reveal()), None)
        .await
        .expect("still works");
    clock.advance(1);
    assert_eq!(code(&app, &bearer(&short.secret.reveal())).await, Code::TokenExpired);

    clock.advance(-60_000);
    auth::user_disable(&app.db, &actor, user).await.expect("disables");
    assert_eq!(code(&app, &bearer(&last.secret.reveal())).await, Code::TokenInvalid);
    let expected =
        ["token_invalid", "token_expired", "token_invalid"].map(|code| ("token.use".to_owned(), Some(code.to_owned())));
    assert_eq!(refusals(&app).await, expected);
}

#[tokio::test]
async fn guesses_are_refused_and_not_kept() {
    let test = TestDb::new().await;
    let app = test.app().await;
    auth::bootstrap_admin(&app.db, "ada").await.expect("creates");
    assert_eq!(code(&app, &HeaderMap::new()).await, Code::Unauthenticated);
    let unknown = auth::TokenSecret::random().reveal();
    for guess in ["", "x", "gpuaas_", unknown.as_str()] {
        assert_eq!(code(&app, &bearer(guess)).await, Code::TokenInvalid, "{guess}");
    }
    assert!(refusals(&app).await.is_empty());
}

#[tokio::test]
async fn bad_requests_for_tokens_change_nothing() {
    let test = TestDb::new().await;
    let app = test.app().await;
    let actor = Actor::system("test");
    let user = auth::user_create(&app.db, &actor, "ada", &[Scope::Operator])
        .await
        .expect("creates");
    let try_make = async |user, name: &'static str, scopes: &'static [Scope], life_s| {
        auth::token_create(&app.db, &actor, user, name, scopes, life_s)
            .await
            .expect_err("refused")
            .code
    };
    assert_eq!(try_make(user, "", &[Scope::Operator], 3600).await, Code::FieldInvalid);
    assert_eq!(try_make(user, "a", &[], 3600).await, Code::FieldInvalid);
    assert_eq!(try_make(user, "a", &[Scope::Operator], 59).await, Code::FieldInvalid);
    assert_eq!(
        try_make(user, "a", &[Scope::Operator], i64::MAX).await,
        Code::FieldInvalid
    );
    let nobody = model::id::UserId::new();
    assert_eq!(try_make(nobody, "a", &[Scope::Operator], 3600).await, Code::NotFound);
    assert_eq!(
        auth::user_create(&app.db, &actor, "ada", &[])
            .await
            .expect_err("taken")
            .code,
        Code::StateConflict
    );
    let page = PageQuery::default().page("tokens", &app.cursors).expect("valid");
    assert!(
        auth::token_list(&app.db, Whose::Everybodys, &page)
            .await
            .expect("lists")
            .is_empty()
    );
}

/// Two administrators who take it from each other at the same moment: one of them stays.
#[tokio::test]
async fn an_administrator_is_always_left() {
    let test = TestDb::new().await;
    let app = test.app().await;
    let system = Actor::system("test");
    auth::bootstrap_admin(&app.db, "ada").await.expect("the first");
    let ada: uuid::Uuid = sqlx::query_scalar("select id from app_user where name = 'ada'")
        .fetch_one(app.db.read())
        .await
        .expect("there");
    let bob = auth::user_create(&app.db, &system, "bob", &[Scope::Admin])
        .await
        .expect("made");
    let revoke = |id| auth::user_change_role(&app.db, &system, id, Scope::Admin, false, false);
    let (one, two) = tokio::join!(revoke(ada.into()), auth::user_disable(&app.db, &system, bob));
    assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
    let refused = one.and(two).expect_err("one of them");
    assert_eq!(refused.code, Code::StateConflict);
    // Whoever is no administrator any more may go.
    let (gone, left): (uuid::Uuid, uuid::Uuid) = sqlx::query_as(
        "select (select id from app_user where disabled_at is not null or platform_roles = '{}'),
                (select id from app_user where disabled_at is null and 'admin' = any(platform_roles))",
    )
    .fetch_one(app.db.read())
    .await
    .expect("one of each");
    auth::user_disable(&app.db, &system, gone.into())
        .await
        .expect("is none");
    let last = auth::user_disable(&app.db, &system, left.into()).await;
    assert_eq!(last.expect_err("is the last").code, Code::StateConflict);
}
