//! The provider's keys change, are asked for by strangers, and vanish.

use base::testing::issuer::{KeyKind, SigningKey};
use model::signal::Code;
use serde_json::json;

use super::Scene;

const MINUTE_MS: i64 = 60_000;

#[tokio::test]
async fn abuse_54_rotation() {
    let scene = Scene::new().await;
    scene.ask(&scene.token("ada")).await.expect("comes in");
    let before = scene.token("ada");
    // A new key beside the old one: both count, and nobody had to wait.
    scene.clock.advance(MINUTE_MS);
    scene.issuer.sign_with(SigningKey::new("second", KeyKind::Rsa), true);
    scene
        .ask(&scene.token("ada"))
        .await
        .expect("the new key is looked up at once");
    scene.ask(&before).await.expect("the old one still counts");
    assert_eq!(scene.issuer.key_reads(), 2);
    // The old one is taken back: what it signed opens nothing once the list was read again.
    scene.clock.advance(MINUTE_MS);
    scene
        .issuer
        .sign_with(SigningKey::new("third", KeyKind::Ed25519), false);
    scene.ask(&scene.token("ada")).await.expect("comes in");
    assert_eq!(scene.refused(&before).await, Code::TokenInvalid);
    assert_eq!(scene.issuer.key_reads(), 3);
    // Without a new name to look up, five minutes are the longest that a withdrawn key counts.
    let last = scene.token("ada");
    scene.issuer.sign_with(SigningKey::new("fourth", KeyKind::P256), false);
    scene.clock.advance(MINUTE_MS);
    scene.ask(&last).await.expect("not known yet");
    scene.clock.advance(4 * MINUTE_MS);
    let mut claims = scene.claims("ada");
    claims["exp"] = json!(scene.clock.now().millis() / 1000 + 600);
    scene.ask(&scene.issuer.access_token(&claims)).await.expect("comes in");
    assert_eq!(scene.refused(&last).await, Code::TokenInvalid);
}

/// Ten thousand names that no list has, all at once and before as well as after a minute is over; the readings are counted
/// where they are answered.
#[tokio::test]
async fn abuse_54_flood() {
    const NAMES: usize = 10_000;
    const AT_ONCE: usize = 50;
    let scene = Scene::new().await;
    scene.ask(&scene.token("ada")).await.expect("comes in");
    let stranger = SigningKey::new("x", KeyKind::Ed25519);
    let claims = scene.claims("ada");
    let mut refused = 0;
    for minute in 1..=4 {
        scene.clock.advance(MINUTE_MS);
        for first in (0..NAMES / 4).step_by(AT_ONCE) {
            let asking = (first..first + AT_ONCE).map(|n| {
                let header = json!({ "alg": "EdDSA", "kid": format!("kid-{minute}-{n}") });
                let token = stranger.sign_under(&header, &claims);
                let scene = &scene;
                async move { scene.refused(&token).await }
            });
            for code in futures_util::future::join_all(asking).await {
                assert_eq!(code, Code::TokenInvalid);
                refused += 1;
            }
        }
        assert_eq!(scene.issuer.key_reads(), 1 + minute, "one look a minute");
        scene
            .ask(&scene.token("ada"))
            .await
            .expect("an honest one is served meanwhile");
    }
    // The last moment of a minute is still the same minute.
    scene.clock.advance(MINUTE_MS - 1);
    let header = json!({ "alg": "EdDSA", "kid": "one more" });
    assert_eq!(
        scene.refused(&stranger.sign_under(&header, &claims)).await,
        Code::TokenInvalid
    );
    assert_eq!((refused, scene.issuer.key_reads(), scene.users().await), (NAMES, 5, 1));
}

#[tokio::test]
async fn abuse_54_outage() {
    let scene = Scene::new().await;
    scene.issuer.set_broken(true);
    assert_eq!(
        scene.refused(&scene.token("ada")).await,
        Code::IdentityUnavailable,
        "nothing is known yet"
    );
    let error = scene.ask(&scene.token("ada")).await.expect_err("refused");
    assert_eq!((error.status().as_u16(), error.retry_after_s), (503, Some(5)));
    scene.issuer.set_broken(false);
    scene.clock.advance(5_000);
    scene
        .ask(&scene.token("ada"))
        .await
        .expect("comes in as soon as it is back");
    // Away for most of a day: known keys count, unknown ones cannot be judged.
    scene.issuer.set_broken(true);
    for _ in 0..23 {
        scene.clock.advance(60 * MINUTE_MS);
        scene.ask(&scene.token("ada")).await.expect("its keys are known");
    }
    let new = SigningKey::new("new", KeyKind::P256);
    let token = new.sign("at+jwt", &scene.claims("ada"));
    assert_eq!(
        scene.refused(&token).await,
        Code::IdentityUnavailable,
        "it may be good: nobody can tell"
    );
    scene.clock.advance(60 * MINUTE_MS);
    assert_eq!(
        scene.refused(&scene.token("ada")).await,
        Code::IdentityUnavailable,
        "a day is the bound"
    );
    let reads = scene.issuer.key_reads();
    scene.issuer.set_broken(false);
    scene.clock.advance(5_000);
    scene.ask(&scene.token("ada")).await.expect("comes in again");
    assert_eq!((scene.users().await, scene.issuer.key_reads()), (1, reads + 1));
}
