//! Versions of objects: each answer carries one, and whoever deletes says which one they mean.

use control::routes::public_infos;
use dev::town::Town;
use http::{Method, StatusCode, header};
use model::api::{MemberView, Page};
use model::id::{KeyId, UserId};
use model::signal::Code;

use crate::EXE;
use crate::allocations::events::{Person, project, seats};

/// The path with something in its places that could be there.
fn filled(path: &str) -> String {
    path.replace("{id}", &KeyId::new().to_string())
        .replace("{user_id}", &UserId::new().to_string())
}

#[tokio::test]
async fn every_change_of_an_object_asks_which_version_is_meant() {
    let town = Town::start(EXE).await;
    let changes = |method: &Method| *method == Method::PATCH || *method == Method::DELETE;
    let mut tried = 0;
    for route in public_infos().into_iter().filter(|route| changes(&route.method)) {
        let path = filled(route.path);
        for (version, code) in [(None, Code::PreconditionRequired), (Some("seven"), Code::FieldInvalid)] {
            let refused = town
                .api()
                .call_if(route.method.clone(), &path, version)
                .await
                .expect("answered");
            assert_eq!(refused.error().map(|e| e.code), Some(code), "{} {path}", route.method);
        }
        tried += 1;
    }
    assert!(tried >= 2, "saw {tried}");
    town.end().await;
}

#[tokio::test]
async fn whoever_looked_at_an_older_one_is_told_the_present_one() {
    let town = Town::start(EXE).await;
    let (ada, bob) = (
        Person::of(&town, "ada-t", &[]).await,
        Person::of(&town, "bob-t", &[]).await,
    );
    let hers = project(&town, "hers", &ada).await;
    let api = ada.at(&town, 0);
    seats(&api, hers, "bob-t", "viewer").await;
    let members = format!("/v1/projects/{hers}/members");
    let seen: Page<MemberView> = api.get(&members).await.expect("a list");
    let seen = seen
        .items
        .iter()
        .find(|one| one.user_id == bob.user)
        .expect("he is in it")
        .version;
    seats(&api, hers, "bob-t", "admin").await;

    let path = format!("{members}/{}", bob.user);
    let stale = api
        .call_if(Method::DELETE, &path, Some(&format!("\"{seen}\"")))
        .await
        .expect("answered");
    assert_eq!(stale.status, StatusCode::PRECONDITION_FAILED);
    let error = stale.error().expect("an envelope");
    assert_eq!(
        (error.code, &error.details["version"]),
        (Code::VersionConflict, &(seen + 1).into())
    );
    let still: Page<MemberView> = api.get(&members).await.expect("a list");
    assert_eq!(still.items.len(), 2, "nothing was done");
    let gone = api
        .call_if(Method::DELETE, &path, Some(&format!("\"{}\"", seen + 1)))
        .await
        .expect("answered");
    assert_eq!(gone.status, StatusCode::NO_CONTENT);

    for path in [format!("/v1/projects/{hers}"), format!("/v1/projects/{hers}/quota")] {
        let shown = api.call(Method::GET, &path, None::<&()>).await.expect("answered");
        let version: serde_json::Value = shown.json().expect("an object");
        assert_eq!(
            shown.headers[header::ETAG],
            format!("\"{}\"", version["version"]),
            "{path}"
        );
    }
    let list = api
        .call(Method::GET, "/v1/projects", None::<&()>)
        .await
        .expect("answered");
    assert!(!list.headers.contains_key(header::ETAG), "a list has no version");
    town.end().await;
}
