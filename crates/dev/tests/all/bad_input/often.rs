//! One who asks too often is told to wait, and for how long; nobody else notices.

use base::Actor;
use base::auth::{Scope, token_create, user_create};
use base::config::Config;
use base::testing::eventually;
use dev::api::Api;
use dev::town::Town;
use http::Method;
use model::signal::Code;
use wire::http::Response;

use crate::EXE;
use crate::puppet::Puppet;

/// What somebody may look up in a minute, and at once.
const BURST: usize = 60;

fn slow(config: &mut Config) {
    config.wait_hold_s = 1;
    config.rate_reads_per_min = BURST as u64;
    config.rate_address_per_s = 1_000;
}

async fn list(api: &Api) -> Response {
    api.call(Method::GET, "/v1/nodes", None::<&()>)
        .await
        .expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_too_often_waits_alone() {
    let town = Town::tuned(EXE, slow).await;
    let api = town.api();
    let (db, actor) = (&town.platform.apps[0].db, Actor::system("often"));
    let bea = user_create(db, &actor, "bea", &[Scope::Support]).await.expect("a user");
    let other = token_create(db, &actor, bea, "other", &[Scope::Support], 3600).await;
    let other = Api::new(api.url(), &other.expect("a token").secret.reveal()).expect("a URL");
    let mut refused = None;
    for _ in 0..=2 * BURST {
        let answer = list(&api).await;
        if !answer.status.is_success() {
            refused = Some(answer);
            break;
        }
    }
    let answer = refused.expect("twice the burst is too much");
    assert_eq!(answer.status.as_u16(), 429);
    assert_eq!(answer.error().map(|error| error.code), Some(Code::RateLimited));
    let wait = answer
        .headers
        .get("retry-after")
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    assert_eq!(wait, Some(1), "it says for how long");

    // Somebody else opens the same door at the same time.
    assert!(list(&other).await.status.is_success());
    // And whoever waited is served again.
    eventually("the bucket fills", async || match list(&api).await.status {
        status if status.is_success() => Ok(()),
        status => Err(status),
    })
    .await;
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_asks_too_often_waits_alone() {
    let town = Town::tuned(EXE, |config| {
        config.wait_hold_s = 1;
        config.rate_node_per_s = 2;
    })
    .await;
    let (loud, calm) = (Puppet::ready(&town, "loud").await, Puppet::ready(&town, "calm").await);
    let mut statuses = Vec::new();
    for _ in 0..60 {
        statuses.push(loud.get("ping").await.status.as_u16());
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    assert!(calm.get("ping").await.status.is_success());
    town.end().await;
}
