//! Browsers that are signed in, and how that ends.

use base::auth::session::{cookie_name, session_begin, session_end};
use base::auth::{self, Credential, Principal, Scope};
use base::http::ApiError;
use base::{Actor, App};
use http::{HeaderMap, HeaderValue, header};
use model::signal::Code;

use super::Scene;

async fn ask(app: &App, secret: &str) -> Result<Principal, ApiError> {
    let text = format!("other=1; {}={secret}", cookie_name(&app.config, "session"));
    let value = HeaderValue::from_str(&text).expect("a header");
    auth::authenticate(app, &HeaderMap::from_iter([(header::COOKIE, value)]), None).await
}

#[tokio::test]
async fn a_session_ends_by_silence_by_age_by_leaving_and_with_its_person() {
    let scene = Scene::new().await;
    let (app, actor) = (&scene.app, Actor::system("test"));
    let user = auth::user_create(&app.db, &actor, "ada", &[Scope::Operator])
        .await
        .expect("creates");
    let begin = async || session_begin(app, &actor, user).await.expect("begins").reveal();
    let code = async |secret: &str| ask(app, secret).await.expect_err("over").code;
    let (silent, old, left, disabled) = (begin().await, begin().await, begin().await, begin().await);

    let principal = ask(app, &left).await.expect("signed in");
    assert!(principal.may(Scope::Operator) && principal.may(Scope::Project) && !principal.may(Scope::Admin));
    let Credential::Session(id) = principal.credential else {
        panic!("{principal:?}");
    };
    session_end(&app.db, &principal.actor(), id).await.expect("ends");
    session_end(&app.db, &principal.actor(), id)
        .await
        .expect("twice is once");
    assert_eq!(code(&left).await, Code::TokenInvalid);

    for _ in 0..3 {
        scene.clock.advance(7 * 3_600_000);
        ask(app, &old).await.expect("used again within eight hours");
    }
    assert_eq!(code(&silent).await, Code::TokenExpired);
    scene.clock.advance(3 * 3_600_000);
    assert_eq!(code(&old).await, Code::TokenExpired, "a day is the longest");

    let fresh = begin().await;
    auth::user_disable(&app.db, &actor, user).await.expect("disables");
    assert_eq!(
        (code(&fresh).await, code(&disabled).await),
        (Code::TokenInvalid, Code::TokenInvalid)
    );
    assert_eq!(code(&auth::TokenSecret::random().reveal()).await, Code::TokenInvalid);
    scene.clock.advance(9 * 86_400_000);
    begin().await;
    let kept: i64 = sqlx::query_scalar("select count(*) from browser_session")
        .fetch_one(app.db.read())
        .await
        .expect("readable");
    assert_eq!(kept, 1, "what ended long ago is forgotten");
}

/// What a browser holds is no token, and a token is no cookie.
#[tokio::test]
async fn a_session_and_a_token_are_not_each_others() {
    let scene = Scene::new().await;
    let actor = Actor::system("test");
    let user = auth::user_create(&scene.app.db, &actor, "ada", &[])
        .await
        .expect("creates");
    let session = session_begin(&scene.app, &actor, user).await.expect("begins").reveal();
    let token = auth::token_create(&scene.app.db, &actor, user, "t", &[Scope::Project], 3600).await;
    let token = token.expect("creates").secret.reveal();
    assert_eq!(scene.refused(&session).await, Code::TokenInvalid);
    assert_eq!(
        ask(&scene.app, &token).await.expect_err("no cookie").code,
        Code::TokenInvalid
    );
    ask(&scene.app, &session).await.expect("as a cookie it opens");
    scene.ask(&token).await.expect("as a token it opens");
}
