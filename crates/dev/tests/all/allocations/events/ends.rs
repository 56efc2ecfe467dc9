//! How a stream ends, and how many there may be.

use base::Actor;
use base::auth::{Whose, token_revoke};
use base::http::STREAMS_MOST;
use base::testing::eventually;
use dev::town::Town;
use http::{Method, StatusCode};
use model::signal::Code;

use super::{Person, end, hears, project, seats};
use crate::EXE;

#[tokio::test]
async fn a_lost_seat_and_a_revoked_token_end_it_within_seconds() {
    let town = Town::start(EXE).await;
    let (ada, bob) = (
        Person::of(&town, "ada-t", &[]).await,
        Person::of(&town, "bob-t", &[]).await,
    );
    let hers = project(&town, "hers", &ada).await;
    seats(&ada.at(&town, 0), hers, "bob-t", "member").await;
    let mut to_bob = bob.listens(&town, 1, "/v1/events", None).await;
    let mut to_ada = ada.listens(&town, 1, "/v1/events", None).await;

    let path = format!("/v1/projects/{hers}/members/{}", bob.user);
    let gone = ada
        .at(&town, 0)
        .call(Method::DELETE, &path, None::<&()>)
        .await
        .expect("answered");
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    seats(&ada.at(&town, 0), hers, "ada", "viewer").await;
    assert_eq!(end(&mut to_bob).await, Code::StreamAccessLost.as_str());
    // Whoever stays hears of both; whoever left heard of neither.
    assert_eq!(hears(&mut to_ada).await.data["role"], serde_json::Value::Null);
    assert_eq!(hears(&mut to_ada).await.data["role"], "viewer");

    let db = &town.platform.apps[0].db;
    token_revoke(db, &Actor::system("test"), Whose::Everybodys, ada.token)
        .await
        .expect("revoked");
    assert_eq!(end(&mut to_ada).await, Code::StreamAccessLost.as_str());
    let again = ada
        .at(&town, 1)
        .tail("/v1/events", None)
        .await
        .expect("answered")
        .err()
        .expect("refused");
    assert_eq!(again.status, StatusCode::UNAUTHORIZED);
    town.end().await;
}

#[tokio::test]
async fn nobody_has_more_than_eight() {
    let town = Town::start(EXE).await;
    let (ada, bob) = (
        Person::of(&town, "ada-t", &[]).await,
        Person::of(&town, "bob-t", &[]).await,
    );
    let mut open = Vec::new();
    for _ in 0..STREAMS_MOST {
        open.push(ada.listens(&town, 0, "/v1/events", None).await);
    }
    let refused = ada
        .at(&town, 0)
        .tail("/v1/events", None)
        .await
        .expect("answered")
        .err()
        .expect("one too many");
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.error().map(|e| e.code), Some(Code::TooManyStreams));
    assert!(refused.headers.contains_key("retry-after"));
    bob.listens(&town, 0, "/v1/events", None).await;
    open.pop();
    eventually("a place is free again", async || {
        let tail = ada.at(&town, 0).tail("/v1/events", None).await.expect("answered");
        tail.map(drop).map_err(|refused| refused.status)
    })
    .await;
    town.end().await;
}

#[tokio::test]
async fn a_replica_that_stops_says_so_and_another_goes_on() {
    let mut town = Town::start(EXE).await;
    let ada = Person::of(&town, "ada-t", &[]).await;
    let hers = project(&town, "hers", &ada).await;
    let mut tail = ada.listens(&town, 1, "/v1/events", None).await;
    seats(&ada.at(&town, 0), hers, "ada", "viewer").await;
    hears(&mut tail).await;
    let place = tail.last_id().expect("a place").to_owned();
    let stopped = town.platform.stop_replica(1);
    let (code, ()) = tokio::join!(end(&mut tail), stopped);
    assert_eq!(code, Code::Unavailable.as_str());
    seats(&ada.at(&town, 0), hers, "ada", "member").await;
    let mut on = ada.listens(&town, 0, "/v1/events", Some(&place)).await;
    assert_eq!(hears(&mut on).await.data["role"], "member");
    town.end().await;
}
