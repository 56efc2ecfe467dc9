//! Who hears what.

use base::auth::Scope;
use base::testing::PATIENCE;
use dev::town::Town;
use http::StatusCode;
use model::signal::Code;

use super::{Person, hears, project, seats};
use crate::EXE;

#[tokio::test]
async fn tenants_hear_of_their_projects_and_operators_of_everything() {
    let town = Town::start(EXE).await;
    let ada = Person::of(&town, "ada-t", &[]).await;
    let bob = Person::of(&town, "bob-t", &[]).await;
    let eve = Person::of(&town, "eve-o", &[Scope::Operator]).await;
    let (hers, his) = (project(&town, "hers", &ada).await, project(&town, "his", &bob).await);
    let mut to_ada = ada.listens(&town, 0, "/v1/events", None).await;
    let mut to_bob = bob.listens(&town, 1, "/v1/events", None).await;
    let mut to_eve = eve
        .listens(&town, 1, "/v1/events?types=project.*,node.created", None)
        .await;
    let mut to_one = eve.listens(&town, 0, &format!("/v1/events?project={his}"), None).await;

    seats(&ada.at(&town, 1), hers, "eve-o", "viewer").await;
    town.add_node("somewhere").await;
    seats(&bob.at(&town, 0), his, "eve-o", "member").await;

    let first = hears(&mut to_ada).await;
    assert_eq!((first.kind.as_str(), first.version), ("project.member", 1));
    assert_eq!(first.project_id.as_deref(), Some(hers.to_string().as_str()));
    assert_eq!(
        (first.subject.kind.as_str(), first.subject.id.as_str()),
        ("project", hers.to_string().as_str())
    );
    assert_eq!(first.data["role"], "viewer");
    assert!(first.id.to_string().starts_with("evt_") && !first.correlation_id.is_empty());
    let only = hears(&mut to_bob).await;
    assert_eq!(only.project_id, Some(his.to_string()), "not hers, and no node");
    let all = [
        hears(&mut to_eve).await,
        hears(&mut to_eve).await,
        hears(&mut to_eve).await,
    ];
    assert_eq!(
        all.each_ref().map(|event| event.kind.as_str()),
        ["project.member", "node.created", "project.member"]
    );
    assert_eq!(
        [&all[0], &all[2]],
        [&first, &only],
        "the same for everybody who hears it"
    );
    assert_eq!(hears(&mut to_one).await, only, "and of one project nothing else");
    town.end().await;
}

#[tokio::test]
async fn who_hears_nothing_for_long_hears_that_somebody_is_there() {
    let town = Town::start(EXE).await;
    let ada = Person::of(&town, "ada-t", &[]).await;
    let mut tail = ada.listens(&town, 0, "/v1/events", None).await;
    let place = |tail: &dev::tail::Tail| tail.last_id().and_then(|id| id.parse::<i64>().ok());
    let begun = place(&tail);
    town.add_node("somewhere").await;
    // Nothing that she may hear of; but she need not go back behind it.
    while place(&tail) == begun {
        let more = tokio::time::timeout(PATIENCE, tail.more())
            .await
            .expect("a sign of life");
        assert!(more.expect("not cut"), "it goes on");
    }
    assert!(place(&tail) > begun);
    town.end().await;
}

#[tokio::test]
async fn what_cannot_be_heard_is_refused_before_the_stream_begins() {
    let town = Town::start(EXE).await;
    let (ada, bob) = (
        Person::of(&town, "ada-t", &[]).await,
        Person::of(&town, "bob-t", &[]).await,
    );
    let hers = project(&town, "hers", &ada).await;
    let foreign = model::id::ProjectId::new();
    for (path, status, code) in [
        (
            format!("/v1/events?project={hers}"),
            StatusCode::NOT_FOUND,
            Code::NotFound,
        ),
        (
            format!("/v1/events?project={foreign}"),
            StatusCode::NOT_FOUND,
            Code::NotFound,
        ),
        (
            "/v1/events?types=no.such".to_owned(),
            StatusCode::UNPROCESSABLE_ENTITY,
            Code::FieldInvalid,
        ),
        (
            "/v1/events?types=".to_owned(),
            StatusCode::UNPROCESSABLE_ENTITY,
            Code::FieldInvalid,
        ),
        (
            "/v1/events?typ=x".to_owned(),
            StatusCode::UNPROCESSABLE_ENTITY,
            Code::FieldInvalid,
        ),
        (
            format!("/v1/allocations/{}/events", model::id::AllocationId::new()),
            StatusCode::NOT_FOUND,
            Code::NotFound,
        ),
    ] {
        let refused = bob
            .at(&town, 0)
            .tail(&path, None)
            .await
            .expect("answered")
            .err()
            .expect("no stream");
        assert_eq!(
            (refused.status, refused.error().map(|e| e.code)),
            (status, Some(code)),
            "{path}"
        );
    }
    let wrong = bob
        .at(&town, 0)
        .tail("/v1/events", Some("soon"))
        .await
        .expect("answered")
        .err()
        .expect("no stream");
    assert_eq!(wrong.error().map(|e| e.code), Some(Code::FieldInvalid));
    town.end().await;
}
