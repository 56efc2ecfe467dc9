//! Somebody asks, and is gone before the provider has answered.

use base::testing::eventually;
use base::testing::issuer::{KeyKind, SigningKey};

use super::Scene;

const MINUTE_MS: i64 = 60_000;

#[tokio::test]
async fn abuse_54_hanging_up() {
    let scene = Scene::new().await;
    scene.ask(&scene.token("ada")).await.expect("comes in");
    scene.clock.advance(MINUTE_MS);
    scene.issuer.sign_with(SigningKey::new("second", KeyKind::P256), false);
    let (token, before) = (scene.token("ada"), scene.issuer.visits());
    let held = scene.issuer.hold().await;
    let asked = eventually("the provider is asked", async || match scene.issuer.visits() {
        visits if visits > before => Ok(()),
        visits => Err(visits),
    });
    tokio::select! {
        early = scene.ask(&token) => panic!("answered without a word of the provider: {early:?}"),
        () = asked => {}
    }
    // Whoever asked is gone by now. Their question counts for this minute, so its answer has to.
    drop(held);
    scene.ask(&token).await.expect("the new key was read all the same");
    assert_eq!(scene.issuer.key_reads(), 2);
}
