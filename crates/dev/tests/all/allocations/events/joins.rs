//! One who is let into a project while they listen hears all that happens there from then on.

use dev::town::Town;

use super::slow::{flood, number};
use super::{Person, hears, project, seats, settled};
use crate::EXE;

#[tokio::test]
async fn whoever_gets_a_project_hears_from_its_beginning() {
    let town = Town::start(EXE).await;
    let ada = Person::of(&town, "ada-t", &[]).await;
    let mut tail = ada.listens(&town, 0, "/v1/events", None).await;
    let hers = project(&town, "hers", &ada).await;
    seats(&ada.at(&town, 0), hers, "ada", "viewer").await;
    assert_eq!(hears(&mut tail).await.kind, "project.created");
    assert_eq!(hears(&mut tail).await.kind, "project.member");
    town.end().await;
}

/// She has much to catch up with, and is let in meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_let_in_while_behind_misses_nothing() {
    let town = Town::start(EXE).await;
    let (ada, bob) = (
        Person::of(&town, "ada-t", &[]).await,
        Person::of(&town, "bob-t", &[]).await,
    );
    let (hers, his) = (project(&town, "hers", &ada).await, project(&town, "his", &bob).await);
    let path = "/v1/events?types=quota.*";
    let place = ada.listens(&town, 0, path, None).await;
    let place = place.last_id().expect("a place").to_owned();
    let (before, after) = (10_000, 10);
    flood(&town, hers, before, 10).await;
    settled(&town).await;
    let mut tail = ada.listens(&town, 0, path, Some(&place)).await;
    seats(&bob.at(&town, 0), his, "ada-t", "viewer").await;
    flood(&town, his, after, 10).await;
    for n in (1..=i64::from(before)).chain(1..=i64::from(after)) {
        assert_eq!(number(&mut tail).await, Some(n), "everything, in order");
    }
    town.end().await;
}
