//! Every public route with every scope, on an object that is there and on one that is not: who may not, is told the
//! same in both cases; what is not there looks the same to everybody; nothing is found by the beginning of its id; and
//! no body can say more than its route asks for.

use std::collections::BTreeMap;

use base::auth::Scope;
use base::http::{Access, RouteInfo};
use dev::api::Api;
use dev::town::Town;
use http::Method;
use model::api::{NodeView, TokenCreate};
use model::id::{AllocationId, KeyId, NodeId, ProjectId, SkuId, SlotId, TaskId, TokenId, UserId};
use model::signal::Code;
use serde_json::{Value, json};
use wire::http::Response;

use super::{audited, refused, snapshot};
use crate::EXE;
use crate::puppet::Puppet;
use crate::slots::found;

const TABLES: [&str; 7] = [
    "node",
    "slot",
    "task",
    "api_token",
    "app_user",
    "certificate",
    "enrolment",
];

/// Well formed, and nobody's.
const NO_KEY: &str = "00112233445566778899aabbccddeeff";

/// The ids that stand in for `{id}`, by the noun of the route.
struct Ids {
    node: String,
    task: String,
    slot: String,
    token: String,
    allocation: String,
    project: String,
    sku: String,
    key: String,
    user: String,
}

impl Ids {
    fn missing() -> Self {
        Self {
            node: NodeId::new().to_string(),
            task: TaskId::new().to_string(),
            slot: SlotId::new().to_string(),
            token: TokenId::new().to_string(),
            allocation: AllocationId::new().to_string(),
            project: ProjectId::new().to_string(),
            sku: SkuId::new().to_string(),
            key: KeyId::new().to_string(),
            user: UserId::new().to_string(),
        }
    }

    fn fill(&self, route: &RouteInfo) -> String {
        let id = match route.path.split('/').nth(2) {
            Some("nodes") => &self.node,
            Some("tasks") => &self.task,
            Some("slots") => &self.slot,
            Some("allocations") => &self.allocation,
            Some("projects") => &self.project,
            Some("skus") => &self.sku,
            Some("keys") => &self.key,
            Some("users") => &self.user,
            _ => &self.token,
        };
        let path = route.path.replace("{id}", id).replace("{serial}", "4f");
        let path = path.replace("{user_id}", &self.user).replace("{token_id}", &self.token);
        path.replace("{keyid}", NO_KEY)
    }

    fn shortened(&self) -> Vec<Self> {
        let cut = |id: &str, length: usize| id.get(..length).unwrap_or(id).to_owned();
        [8, 20]
            .into_iter()
            .map(|length| Self {
                node: cut(&self.node, length),
                task: cut(&self.task, length),
                slot: cut(&self.slot, length),
                token: cut(&self.token, length),
                allocation: cut(&self.allocation, length),
                project: cut(&self.project, length),
                sku: cut(&self.sku, length),
                key: cut(&self.key, length),
                user: cut(&self.user, length),
            })
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_55_escalation() {
    let town = Town::still(EXE).await;
    let node = Puppet::ready(&town, "there").await;
    let callers = callers(&town).await;
    let own = own(&town, &node).await;
    let before = snapshot(&town, &TABLES).await;
    let (mut stopped, mut missed, mut cut) = (0, 0, 0);
    for route in control::routes::public_infos() {
        let Access::Scopes(allowed) = route.access else {
            continue;
        };
        let mut absent = Vec::new();
        for (scope, [api, twin]) in &callers {
            let missing = Ids::missing();
            let may = allowed.contains(scope) || *scope == Scope::Admin;
            if !may {
                same_refusal(&town, &route, [api, twin], [&own, &missing]).await;
                stopped += 1;
            } else if route.path.contains("{id}") {
                for ids in own.shortened() {
                    refused(&call(api, &route, &ids.fill(&route)).await, Code::IdKindMismatch);
                    cut += 1;
                }
                absent.push(bare(&call(api, &route, &missing.fill(&route)).await));
                missed += 1;
            }
        }
        absent.dedup();
        assert!(
            absent.len() <= 1,
            "{}: what is missing looks the same to all: {absent:?}",
            route.path
        );
        assert!(
            absent.iter().all(|(status, _)| *status == 404),
            "{}: {absent:?}",
            route.path
        );
    }
    assert!(stopped >= 20 && missed >= 12 && cut >= 24, "{stopped} {missed} {cut}");
    assert_eq!(snapshot(&town, &TABLES).await, before, "nothing of it did anything");
    mass_assignment(&town, &own).await;
    more_than_oneself(&town, &callers).await;
    town.end().await;
}

/// Two people for each scope alone: one would be refused more often in this minute than is written down.
async fn callers(town: &Town) -> BTreeMap<Scope, [Api; 2]> {
    let mut callers = BTreeMap::new();
    for scope in Scope::ALL {
        let (_, api) = town.person(&format!("only-{scope}"), scope).await;
        let (_, twin) = town.person(&format!("twin-{scope}"), scope).await;
        callers.insert(scope, [api, twin]);
    }
    callers
}

async fn own(town: &Town, node: &Puppet) -> Ids {
    let view: NodeView = town.show_node(node.id()).await;
    let slots = node.discovers(town, &found(node.id())).await;
    let tasks: Value = town.api().get("/v1/tasks").await.expect("tasks");
    let tokens: Value = town.api().get("/v1/tokens").await.expect("tokens");
    let first = |page: &Value| page["items"][0]["id"].as_str().expect("an id").to_owned();
    Ids {
        node: view.id.to_string(),
        task: first(&tasks),
        slot: slots[0].id.to_string(),
        token: first(&tokens),
        // Tenants' things have a matrix of their own.
        ..Ids::missing()
    }
}

async fn call(api: &Api, route: &RouteInfo, path: &str) -> Response {
    let takes = matches!(route.method, Method::POST | Method::PATCH);
    let body = takes.then(|| honest(route.path));
    api.call(route.method.clone(), path, body.as_ref())
        .await
        .expect("an answer")
}

/// A body that its route takes, so that a refusal is about the caller or the object.
fn honest(path: &str) -> Value {
    match path {
        "/v1/nodes" => json!({ "name": "escalated" }),
        "/v1/tokens" => json!({ "name": "mine", "scopes": ["admin"], "days": 1 }),
        "/v1/nodes/{id}/mode" => json!({ "mode": "slice" }),
        "/v1/nodes/{id}/enroll" | "/v1/projects/{id}/quota" => json!({}),
        "/v1/projects" => json!({ "name": "escalated" }),
        "/v1/projects/{id}/tokens" => json!({ "name": "mine", "role": "owner", "days": 1 }),
        "/v1/users/{id}/grant" | "/v1/users/{id}/revoke" => json!({ "role": "admin" }),
        "/v1/users/{id}/disable" | "/v1/users/{id}/enable" => json!({}),
        "/v1/projects/{id}/members" => json!({ "user": "ada", "role": "owner" }),
        "/v1/keys" => json!({ "name": "mine", "public_key": dev::slice::SSH_KEY }),
        "/v1/skus" => json!(dev::demo::sku("escalated", 1).expect("a SKU")),
        "/v1/skus/{id}" => json!({ "visible": false }),
        "/v1/skus/{id}/price" => json!({ "price_micro_per_hour": 1 }),
        "/v1/allocations" => json!({ "sku": "slice.h100.1" }),
        "/v1/allocations/{id}/extend" => json!({ "ttl_s": 3600 }),
        path if ["/discover", "/undrain", "/clean", "/approve", "/rewipe"]
            .iter()
            .any(|verb| path.ends_with(verb)) =>
        {
            json!({})
        }
        path if path.ends_with("/probe") || path.ends_with("/cancel") || path == "/v1/tokens/{id}/revoke" => json!({}),
        _ => json!({ "reason": "a try" }),
    }
}

/// Status and body, without what differs with every request.
fn bare(answer: &Response) -> (u16, String) {
    let mut body: Value = answer.json().unwrap_or(Value::Null);
    if let Some(error) = body.get_mut("error").and_then(Value::as_object_mut) {
        error.remove("correlation_id");
    }
    (answer.status.as_u16(), body.to_string())
}

/// Whoever may not learns nothing from the difference between what is there and what is not.
async fn same_refusal(town: &Town, route: &RouteInfo, [api, twin]: [&Api; 2], [own, missing]: [&Ids; 2]) {
    let there = call(api, route, &own.fill(route)).await;
    let gone = call(twin, route, &missing.fill(route)).await;
    for answer in [&there, &gone] {
        let row = audited(town, &refused(answer, Code::Forbidden)).await;
        assert_eq!(row.target_id, format!("{} {}", route.method, route.path));
    }
    assert_eq!(bare(&there), bare(&gone), "{}", route.path);
    let length = |answer: &Response| answer.body.len();
    assert_eq!(length(&there), length(&gone), "{}", route.path);
}

/// Fields that exist on our objects, in bodies that do not take them.
async fn mass_assignment(town: &Town, own: &Ids) {
    let before = snapshot(town, &TABLES).await;
    let wishes = [
        ("state", json!("ready")),
        ("epoch", json!(99)),
        ("id", json!(own.node)),
        ("user_id", json!("user_00000000000000000000000000")),
        ("roles", json!(["admin"])),
        ("project_id", json!("x")),
        ("secret", json!("mine")),
        ("created_at", json!("2020-01-01T00:00:00Z")),
        ("__proto__", json!({ "admin": true })),
    ];
    let document = control::openapi::public();
    let mut tried = 0;
    for route in control::routes::public_infos() {
        let method = route.method.as_str().to_lowercase();
        if !document["paths"][route.path][&method]["requestBody"].is_object() {
            continue;
        }
        for (name, value) in &wishes {
            let body = json!({ *name: value });
            let path = own.fill(&route);
            let answer = town.api().call(route.method.clone(), &path, Some(&body)).await;
            let error = refused(&answer.expect("an answer"), Code::FieldInvalid);
            assert_eq!(error.details["field"], *name, "{}: {error:?}", route.path);
            tried += 1;
        }
    }
    assert!(tried >= 8 * wishes.len(), "{tried}");
    assert_eq!(snapshot(town, &TABLES).await, before);
}

/// No token makes a stronger one than itself.
async fn more_than_oneself(town: &Town, callers: &BTreeMap<Scope, [Api; 2]>) {
    let wish = TokenCreate {
        name: "stronger".to_owned(),
        scopes: Scope::ALL.to_vec(),
        days: 365,
    };
    for (scope, [api, _]) in callers {
        let answer = api
            .call(Method::POST, "/v1/tokens", Some(&wish))
            .await
            .expect("an answer");
        if *scope == Scope::Admin {
            assert_eq!(answer.status, 201, "{answer:?}");
        } else {
            audited(town, &refused(&answer, Code::Forbidden)).await;
        }
    }
}
