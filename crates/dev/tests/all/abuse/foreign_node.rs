//! The server's half of a task for another node: B's certificate on A's path. Not forbidden but not there, in the very
//! words for a node that never was, so that nobody learns which ids exist.

use base::http::{Access, RouteInfo};
use dev::town::Town;
use http::Method;
use model::id::{NodeId, TaskId};
use model::signal::Code;
use serde_json::{Value, json};
use wire::http::{Client, Response};

use super::{audited, refused, snapshot};
use crate::EXE;
use crate::puppet::{Puppet, get, post};

/// The routes of one node.
fn own_routes() -> Vec<RouteInfo> {
    let of_nodes = |route: &RouteInfo| route.path.contains("{id}") && matches!(route.access, Access::Roles(_));
    control::routes::node_infos().into_iter().filter(of_nodes).collect()
}

pub(super) fn filled(route: &RouteInfo, node: NodeId, task: TaskId) -> String {
    route
        .path
        .replace("{id}", &node.to_string())
        .replace("{task_id}", &task.to_string())
        .replace("{sha256}", &"0".repeat(64))
}

pub(super) async fn call(client: &Client, route: &RouteInfo, path: &str) -> Response {
    match route.method {
        Method::GET => get(client, path).await,
        _ => post(client, path, &json!({})).await,
    }
}

/// An answer without what differs between any two: the correlation id.
fn without_id(answer: &Response) -> (u16, Vec<String>, Value) {
    let mut body: Value = answer.json().expect("JSON");
    body["error"]["correlation_id"] = Value::Null;
    let mut headers: Vec<String> = answer.headers.keys().map(ToString::to_string).collect();
    headers.sort_unstable();
    (answer.status.as_u16(), headers, body)
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_02_foreign_path() {
    let town = Town::still(EXE).await;
    let a = Puppet::awake(&town, "a").await;
    let b = Puppet::awake(&town, "b").await;
    let task = a.claim().await;
    let tables = ["task", "certificate", "node"];
    let routes = own_routes();
    assert!(routes.len() >= 7, "{}", routes.len());
    // What B has is settled too before we compare.
    b.claim().await;
    let before = snapshot(&town, &tables).await;
    let mut knocks = Vec::new();
    for route in &routes {
        let foreign = call(&b.inside, route, &filled(route, a.id(), task.task_id)).await;
        let missing = call(&b.inside, route, &filled(route, NodeId::new(), task.task_id)).await;
        knocks.push(refused(&foreign, Code::NotFound));
        refused(&missing, Code::NotFound);
        assert_eq!(without_id(&foreign), without_id(&missing), "{}", route.path);
    }
    // With all that is needed but the right certificate, the work of A stays A's.
    let now = town.db.clock().now();
    let result = a.result(&task, now).sign(&a.keys.result);
    let body = model::node_api::ResultRequest {
        fence: task.fence,
        envelope: result.clone(),
    };
    let stolen = post(&b.inside, &a.path(&format!("tasks/{}/result", task.task_id)), &body).await;
    refused(&stolen, Code::NotFound);
    assert_eq!(snapshot(&town, &tables).await, before);
    // Whoever knocks at many doors leaves one row a minute, not one for each.
    let row = audited(&town, &knocks[0]).await;
    assert_eq!((row.action.as_str(), row.actor_id), ("node.call", b.id().to_string()));
    assert_eq!(row.target_id, a.id().to_string());
    let landed = a.land(task.task_id, task.fence, result).await;
    assert!(landed.status.is_success(), "A itself may: {landed:?}");
    town.end().await;
}
