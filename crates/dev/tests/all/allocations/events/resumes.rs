//! Where a stream begins.

use base::Clock;
use dev::town::Town;
use model::time::Timestamp;

use super::{Person, hears, message, project, seats};
use crate::EXE;

#[tokio::test]
async fn a_stream_goes_on_at_another_replica_where_it_was_cut() {
    let town = Town::start(EXE).await;
    let ada = Person::of(&town, "ada-t", &[]).await;
    let hers = project(&town, "hers", &ada).await;
    let api = ada.at(&town, 0);
    let mut first = ada.listens(&town, 0, "/v1/events", None).await;
    seats(&api, hers, "ada", "viewer").await;
    let mut heard = vec![hears(&mut first).await];
    let cut = first.last_id().expect("a place").to_owned();
    drop(first);
    // Longer than one look at the table.
    for n in 0..230 {
        seats(&api, hers, "ada", if n % 2 == 0 { "member" } else { "viewer" }).await;
    }
    let mut second = ada.listens(&town, 1, "/v1/events", Some(&cut)).await;
    for _ in 0..230 {
        heard.push(hears(&mut second).await);
    }
    seats(&api, hers, "ada", "admin").await;
    heard.push(hears(&mut second).await);
    let roles: Vec<_> = heard
        .iter()
        .map(|event| event.data["role"].as_str().unwrap_or_default())
        .collect();
    let turns = ["viewer", "member"].into_iter().cycle().take(231);
    assert_eq!(roles, turns.chain(["admin"]).collect::<Vec<_>>());
    town.end().await;
}

#[tokio::test]
async fn what_is_too_long_ago_or_was_never_told_is_one_reset() {
    let clock = Clock::fixed(Timestamp::from_millis(1_800_000_000_000));
    let town = Town::at(EXE, clock.clone(), |_| {}).await;
    let ada = Person::of(&town, "ada-t", &[]).await;
    let hers = project(&town, "hers", &ada).await;
    let mut first = ada.listens(&town, 0, "/v1/events", None).await;
    seats(&ada.at(&town, 0), hers, "ada", "viewer").await;
    hears(&mut first).await;
    let seen = first.last_id().expect("a place").to_owned();
    // Behind nothing is from the first one on, as long as that can be told.
    let mut all = ada.listens(&town, 1, "/v1/events", Some("0")).await;
    assert_ne!(message(&mut all).await.expect("what was before").event, "reset");
    // Within an hour, so that the token still counts.
    clock.advance(3_000_000);
    let mut young = ada.listens(&town, 1, "/v1/events", Some(&seen)).await;
    seats(&ada.at(&town, 0), hers, "ada", "member").await;
    assert_eq!(hears(&mut young).await.data["role"], "member", "no reset");
    clock.advance(86_400_000);
    let later = Person::of(&town, "ada-again", &[]).await;
    for asked in [seen.as_str(), "999999999", "0"] {
        let mut old = later.listens(&town, 1, "/v1/events", Some(asked)).await;
        let reset = message(&mut old).await.expect("a reset");
        assert_eq!((reset.event.as_str(), reset.id.is_some()), ("reset", true), "{asked}");
        assert!(reset.data.contains(asked), "{}", reset.data);
    }
    town.end().await;
}
