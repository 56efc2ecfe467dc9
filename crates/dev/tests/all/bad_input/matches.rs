//! `If-Match` on every route that takes it, by the document: another version is told and changes nothing, the right one
//! counts once, and strangers learn nothing of either. A route without a thing to try it on fails.

use control::openapi;
use dev::api::Api;
use dev::slice::SSH_KEY;
use dev::town::Town;
use http::{Method, StatusCode, header};
use model::api::{KeyCreate, KeyView, MemberView, SkuView};
use model::signal::Code;
use serde_json::{Value, json};

use crate::EXE;
use crate::abuse::refused;
use crate::allocations::events::{Person, project};

/// Something that has a version, and whose it is.
struct Thing {
    path: String,
    id: String,
    /// Where it stands for as long as it is there.
    list: String,
    version: i64,
}

async fn made(town: &Town, owner: &Person, route: &str, name: &str) -> Thing {
    let api = owner.at(town, 0);
    match route {
        "DELETE /v1/keys/{id}" => {
            let wish = KeyCreate {
                name: name.to_owned(),
                public_key: SSH_KEY.parse().expect("a key"),
            };
            let key: KeyView = api.post("/v1/keys", &wish).await.expect("stored");
            Thing {
                path: format!("/v1/keys/{}", key.id),
                id: key.id.to_string(),
                list: "/v1/keys".to_owned(),
                version: key.version,
            }
        }
        "DELETE /v1/projects/{id}/members/{user_id}" => {
            let of = project(town, &format!("of-{name}"), owner).await;
            let user = Person::of(town, name, &[]).await.user;
            let list = format!("/v1/projects/{of}/members");
            let mut version = 0;
            // By id, and twice, so that there was an older version.
            for role in ["viewer", "member"] {
                let body = json!({ "user": user, "role": role });
                let seated: MemberView = api.post(&list, &body).await.expect("seated");
                version = seated.version;
            }
            Thing {
                path: format!("{list}/{user}"),
                id: user.to_string(),
                list,
                version,
            }
        }
        "DELETE /v1/projects/{id}" => {
            let id = project(town, name, owner).await.to_string();
            Thing {
                path: format!("/v1/projects/{id}"),
                id,
                list: "/v1/projects".to_owned(),
                version: 1,
            }
        }
        other => panic!("{other} takes If-Match and is not tried here"),
    }
}

impl Thing {
    async fn stands(&self, api: &Api) -> bool {
        let list: Value = api.get(&self.list).await.expect("a list");
        list.to_string().contains(&self.id)
    }
}

/// Method and path of all that take `If-Match`.
fn routes() -> Vec<(Method, String)> {
    let document = openapi::public();
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, route) in methods.as_object().expect("methods") {
            let parameters = route["parameters"].as_array().into_iter().flatten();
            if parameters.into_iter().any(|one| one["name"] == "If-Match") {
                let method = method.to_ascii_uppercase().parse().expect("a method");
                found.push((method, path.clone()));
            }
        }
    }
    found
}

#[tokio::test]
async fn every_route_that_deletes_heeds_it() {
    let town = Town::start(EXE).await;
    let (ada, eve) = (
        Person::of(&town, "ada-t", &[]).await,
        Person::of(&town, "eve-t", &[]).await,
    );
    let (hers, foreign) = (ada.at(&town, 0), eve.at(&town, 1));
    let routes = routes().into_iter().filter(|(method, _)| *method == Method::DELETE);
    let routes: Vec<_> = routes.collect();
    assert!(routes.len() >= 2, "{routes:?}");
    for (n, (method, path)) in routes.into_iter().enumerate() {
        let route = format!("{method} {path}");
        let thing = made(&town, &ada, &route, &format!("one-{n}")).await;
        let call = async |api: &Api, version: i64| {
            let tag = format!("\"{version}\"");
            let answer = api.call_if(method.clone(), &thing.path, Some(&tag)).await;
            answer.expect("answered")
        };
        for stale in [thing.version + 1, thing.version - 1] {
            let error = refused(&call(&hers, stale).await, Code::VersionConflict);
            assert_eq!(error.details["version"], thing.version, "{route}");
            refused(&call(&foreign, stale).await, Code::NotFound);
        }
        refused(&call(&foreign, thing.version).await, Code::NotFound);
        assert!(thing.stands(&hers).await, "{route}: nothing was done");
        let done = call(&hers, thing.version).await;
        assert!(done.status.is_success(), "{route}: {done:?}");
        assert!(!thing.stands(&hers).await, "{route}");
        refused(&call(&hers, thing.version).await, Code::NotFound);

        let other = made(&town, &ada, &route, &format!("other-{n}")).await;
        let any = hers.call_if(method.clone(), &other.path, Some("*")).await;
        assert!(any.expect("answered").status.is_success(), "{route}: whatever there is");
        assert!(!other.stands(&hers).await, "{route}");
    }
    town.end().await;
}

/// The path of something in its first version, and what changes it.
async fn changeable(town: &Town, route: &str) -> (String, [Value; 2]) {
    match route {
        "PATCH /v1/skus/{id}" => {
            let wish = json!({
                "name": "s", "kind": "machine", "gpu_model": "x", "gpu_count": 1, "slots": 0, "vcpu": 1, "memory_mib": 1,
                "nvme_gib": 1, "fabric": false, "images": [], "price_micro_per_hour": 1, "currency": "USD",
            });
            let sku: SkuView = town.api().post("/v1/skus", &wish).await.expect("a SKU");
            let bodies = [false, true].map(|visible| json!({ "visible": visible }));
            (format!("/v1/skus/{}", sku.id), bodies)
        }
        other => panic!("{other} takes If-Match and is not tried here"),
    }
}

/// What is changed stays, and whoever comes next has to have seen the change.
#[tokio::test]
async fn every_route_that_changes_heeds_it() {
    let town = Town::start(EXE).await;
    let eve = Person::of(&town, "eve-t", &[]).await.at(&town, 1);
    let routes = routes().into_iter().filter(|(method, _)| *method != Method::DELETE);
    for (method, path) in routes {
        let route = format!("{method} {path}");
        let (path, [first, second]) = changeable(&town, &route).await;
        let (api, path) = (town.api(), path.as_str());
        let call = async |api: &Api, tag: &str, body: &Value| api.patch_if(path, tag, body).await.expect("answered");
        for stale in ["\"0\"", "\"2\""] {
            let error = refused(&call(&api, stale, &first).await, Code::VersionConflict);
            assert_eq!(error.details["version"], 1, "{route}");
        }
        refused(&call(&eve, "\"1\"", &first).await, Code::Forbidden);
        let done = call(&api, "\"1\"", &first).await;
        assert_eq!(
            (done.status, done.headers[header::ETAG].as_bytes()),
            (StatusCode::OK, &b"\"2\""[..])
        );
        let error = refused(&call(&api, "\"1\"", &second).await, Code::VersionConflict);
        assert_eq!(error.details["version"], 2, "{route}");
        let any = call(&api, "*", &second).await;
        assert_eq!(any.status, StatusCode::OK, "{route}: whatever there is");
    }
    town.end().await;
}
