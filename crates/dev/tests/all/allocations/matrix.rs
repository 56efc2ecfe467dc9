//! Every route about a tenant's things, by everybody, on what is theirs, on what is another's and on what is not there.
//! Generated from the route table: a route without a line here fails. What is foreign and what is missing are one answer.

use std::collections::BTreeMap;

use base::auth::Scope;
use base::http::RouteInfo;
use http::{Method, StatusCode};
use model::api::{MemberAdd, ProjectCreate, ProjectView};
use model::id::{ProjectId, TokenId};
use model::signal::Code;
use model::state::ProjectRole;
use serde_json::Value;
use wire::http::Response;

use super::*;
use crate::abuse::{audited, refused};

/// Who may, beside those whose platform role the route names: the least role in the project.
fn needs(route: &RouteInfo) -> Option<ProjectRole> {
    let verb = format!("{} {}", route.method, route.path);
    match verb.as_str() {
        "GET /v1/allocations/{id}"
        | "GET /v1/allocations/{id}/events"
        | "GET /v1/allocations/{id}/phases"
        | "GET /v1/allocations/{id}/transitions"
        | "GET /v1/projects/{id}"
        | "GET /v1/projects/{id}/members"
        | "GET /v1/projects/{id}/quota" => Some(ProjectRole::Viewer),
        "POST /v1/allocations/{id}/again" => Some(ProjectRole::Member),
        // Not their own: for members that is too much.
        "POST /v1/allocations/{id}/cancel"
        | "POST /v1/allocations/{id}/release"
        | "POST /v1/allocations/{id}/reboot"
        | "POST /v1/allocations/{id}/stop"
        | "POST /v1/allocations/{id}/start"
        | "POST /v1/allocations/{id}/extend"
        | "POST /v1/allocations/{id}/repair"
        | "GET /v1/projects/{id}/tokens"
        | "POST /v1/projects/{id}/tokens"
        | "POST /v1/projects/{id}/tokens/{token_id}/revoke"
        | "POST /v1/projects/{id}/members"
        | "DELETE /v1/projects/{id}/members/{user_id}" => Some(ProjectRole::Admin),
        // What it has has not ended, so it stays.
        "DELETE /v1/projects/{id}" | "GET /v1/projects/{id}/audit" => Some(ProjectRole::Owner),
        "POST /v1/allocations/{id}/force-release"
        | "POST /v1/allocations/{id}/retry"
        | "POST /v1/projects/{id}/quota" => None,
        other => panic!("{other} has no line in this matrix"),
    }
}

fn body(route: &RouteInfo) -> Value {
    match route.path.rsplit('/').next() {
        Some("members") => json!({ "user": "bystander", "role": "viewer" }),
        Some("tokens") => json!({ "name": "ci", "role": "viewer", "days": 1 }),
        Some("release" | "force-release") => json!({ "reason": "the matrix" }),
        Some("extend") => json!({ "ttl_s": 3600 }),
        _ => json!({}),
    }
}

struct Caller {
    api: Api,
    role: Option<ProjectRole>,
    scope: Scope,
}

async fn callers(market: &Market, own: ProjectId) -> BTreeMap<String, Caller> {
    let mut callers = BTreeMap::new();
    for role in ProjectRole::ALL {
        let (_, api) = market.town.person(role.as_str(), Scope::Project).await;
        let body = MemberAdd {
            user: role.to_string(),
            role: *role,
        };
        let path = format!("/v1/projects/{own}/members");
        let _: Value = market.api().post(&path, &body).await.expect("a seat");
        callers.insert(
            role.to_string(),
            Caller {
                api,
                role: Some(*role),
                scope: Scope::Project,
            },
        );
    }
    for scope in [Scope::Operator, Scope::Support, Scope::Auditor, Scope::Finance] {
        let (_, api) = market.town.person(scope.as_str(), scope).await;
        callers.insert(scope.to_string(), Caller { api, role: None, scope });
    }
    let (_, api) = market.town.person("stranger", Scope::Project).await;
    let body = ProjectCreate {
        name: "elsewhere".to_owned(),
        owner: Some("stranger".to_owned()),
    };
    let _: ProjectView = market.api().post("/v1/projects", &body).await.expect("a project");
    callers.insert(
        "stranger".to_owned(),
        Caller {
            api,
            role: None,
            scope: Scope::Project,
        },
    );
    callers
}

/// Status and body, without what differs with every request.
fn bare(answer: &Response) -> (u16, String) {
    let mut body: Value = answer.json().unwrap_or(Value::Null);
    if let Some(error) = body.get_mut("error").and_then(Value::as_object_mut) {
        error.remove("correlation_id");
    }
    (answer.status.as_u16(), body.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_by_everybody_on_their_own_on_foreign_and_on_missing_things() {
    let market = Market::open().await.unplug().await;
    let made = market.rents("one").await;
    let (bystander, _) = market.town.person("bystander", Scope::Project).await;
    let callers = callers(&market, made.project_id).await;
    let fill = |route: &RouteInfo, allocation: AllocationId, project: ProjectId| {
        let id = if route.path.starts_with("/v1/projects") {
            project.to_string()
        } else {
            allocation.to_string()
        };
        route
            .path
            .replace("{id}", &id)
            .replace("{user_id}", &bystander.to_string())
            .replace("{token_id}", &TokenId::new().to_string())
    };
    let mut seen = BTreeMap::new();
    let mut routes: Vec<RouteInfo> = control::routes::public_infos();
    routes
        .retain(|route| route.path.starts_with("/v1/allocations/{id}") || route.path.starts_with("/v1/projects/{id}"));
    // What only looks comes first: what acts changes what there is to see.
    routes.sort_by_key(|route| route.method != Method::GET);
    for route in &routes {
        let base::http::Access::Scopes(scopes) = route.access else {
            panic!("{} is not for people", route.path);
        };
        for (name, caller) in &callers {
            let call = async |path: String| {
                if route.is_stream() {
                    let begun = caller.api.tail(&path, None).await.expect("an answer");
                    return begun.err().unwrap_or_else(|| Response {
                        status: StatusCode::OK,
                        headers: http::HeaderMap::new(),
                        body: Default::default(),
                    });
                }
                let body = (route.method == Method::POST).then(|| body(route));
                caller
                    .api
                    .call(route.method.clone(), &path, body.as_ref())
                    .await
                    .expect("an answer")
            };
            let own = call(fill(route, made.id, made.project_id)).await;
            let missing = call(fill(route, AllocationId::new(), ProjectId::new())).await;
            let what = format!("{} {} by {name}: {own:?}", route.method, route.path);
            let named = scopes.contains(&caller.scope);
            let may = match (caller.role, needs(route)) {
                (Some(role), Some(least)) => role as u8 >= least as u8,
                (Some(_), None) => false,
                (None, _) => named && caller.scope != Scope::Project,
            };
            let kind = match own.status.as_u16() {
                403 => {
                    assert!(!may, "{what}");
                    // Where the gate stops them, what is missing looks the same.
                    assert!(named || bare(&own) == bare(&missing), "{what} {missing:?}");
                    let row = audited(&market.town, &refused(&own, Code::Forbidden)).await;
                    let about = fill(route, made.id, made.project_id);
                    assert_eq!(row.action, "route.call", "{what}");
                    assert!(!named || about.contains(&row.target_id), "{what}: {row:?}");
                    "refused"
                }
                404 if caller.role.is_none() && caller.scope == Scope::Project => {
                    assert_eq!(bare(&own), bare(&missing), "{what}");
                    assert_eq!(own.body.len(), missing.body.len(), "{what}");
                    "unseen"
                }
                404 => {
                    let of_nobody = route.path.contains("{token_id}");
                    assert!((route.method == Method::DELETE || of_nobody) && may, "{what}");
                    "allowed" // somebody took the bystander out before, and no token has this id
                }
                status => {
                    assert!(may && status < 500, "{what}");
                    "allowed"
                }
            };
            if named {
                assert_eq!(missing.status, 404, "{what}: {missing:?}");
            }
            *seen.entry(kind).or_insert(0) += 1;
        }
    }
    let all: usize = seen.values().sum();
    assert_eq!(all, routes.len() * callers.len());
    assert!(
        routes.len() >= 19 && seen["unseen"] >= 12 && seen["refused"] >= 40 && seen["allowed"] >= 60,
        "{seen:?}"
    );
    market.close().await;
}
