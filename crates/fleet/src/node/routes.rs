//! What operators can do with nodes.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use base::Change;
use base::auth::Scope;
use base::http::{Access, Answer, ApiError, Body, Params, Route, Routes, Search};
use base::tx::Actor;
use http::StatusCode;
use model::api::{
    CertificateView, Enrolment, NodeCreate, NodeEnrol, NodeModeChange, NodeReason, NodeView, Page, TaskView,
};
use model::id::{NodeId, TaskId};
use model::signal::Code;
use model::state::{NodeMode, NodeState};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{NodeRow, state, store, view};
use crate::certificate::store::{self as certificates, CertificateRow};
use crate::{Fleet, enrol, held, machine, task};

const WRITE: Access = Access::Scopes(&[Scope::Operator]);
const READ: Access = Access::Scopes(&[Scope::Operator, Scope::Support, Scope::Auditor]);

pub fn routes() -> Routes<Fleet> {
    Routes::new([
        Route::post("/v1/nodes", WRITE, create)
            .summary("Add a node and get the token that lets its host in")
            .told_once("the enrolment token is kept nowhere")
            .takes::<NodeCreate>()
            .answers_with::<Enrolment>(StatusCode::CREATED),
        Route::get("/v1/nodes", READ, list)
            .summary("List nodes")
            .searches::<NodeQuery>()
            .answers::<Page<NodeView>>(),
        Route::get("/v1/nodes/{id}", READ, show)
            .summary("Show a node")
            .answers::<NodeView>(),
        Route::post("/v1/nodes/{id}/enroll", WRITE, enrol_again)
            .summary("A new enrolment token for a known host; its epoch will rise")
            .told_once("the enrolment token is kept nowhere")
            .takes::<NodeEnrol>()
            .answers_with::<Enrolment>(StatusCode::CREATED),
        Route::post("/v1/nodes/{id}/probe", WRITE, probe)
            .summary("Ask for a health probe")
            .answers_with::<TaskView>(StatusCode::ACCEPTED)
            .fails(&[Code::NodeNotReady, Code::NodeQuarantined, Code::NodeLacksTaskType]),
        Route::post("/v1/nodes/{id}/mode", WRITE, mode)
            .summary("Rent it out as slices or as a whole machine")
            .takes::<NodeModeChange>()
            .answers::<NodeView>()
            .fails(&[Code::ModeConflict]),
        Route::post("/v1/nodes/{id}/drain", WRITE, drain)
            .summary("Give out nothing new of it; what is on it stays until it is released")
            .takes::<NodeReason>()
            .answers::<NodeView>()
            .fails(&[Code::StateConflict]),
        Route::post("/v1/nodes/{id}/undrain", WRITE, undrain)
            .summary("Ready again once a probe succeeds and a discovery finds what was approved")
            .answers_with::<NodeView>(StatusCode::ACCEPTED)
            .fails(&[Code::StateConflict, Code::NodeNotReady]),
        Route::post("/v1/nodes/{id}/clean", WRITE, clean)
            .summary("Take away once more what the last tenant of the machine may have left")
            .answers_with::<TaskView>(StatusCode::ACCEPTED)
            .fails(&[Code::StateConflict, Code::NodeNotReady, Code::NodeQuarantined]),
        Route::post("/v1/nodes/{id}/quarantine", WRITE, quarantine)
            .summary("Give it no more tasks")
            .takes::<NodeReason>()
            .answers::<NodeView>(),
        Route::post("/v1/nodes/{id}/unquarantine", WRITE, unquarantine)
            .summary("Let it prove itself again")
            .takes::<NodeReason>()
            .answers::<NodeView>()
            .fails(&[Code::StateConflict, Code::NodeCloned]),
        Route::post("/v1/nodes/{id}/remove", WRITE, remove)
            .summary("End its certificates and forget it")
            .takes::<NodeReason>()
            .answers::<NodeView>(),
        Route::get("/v1/nodes/{id}/certificates", READ, list_certificates)
            .summary("Every certificate it was given")
            .searches::<base::http::PageQuery>()
            .answers::<Page<CertificateView>>(),
        Route::post("/v1/nodes/{id}/certificates/{serial}/revoke", WRITE, revoke)
            .summary("End one certificate now")
            .takes::<NodeReason>()
            .answers::<NodeView>(),
    ])
}

#[derive(Deserialize)]
struct PathId {
    id: NodeId,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NodeQuery {
    state: Option<NodeState>,
    after: Option<String>,
    limit: Option<u32>,
}

async fn create(
    State(fleet): State<Fleet>,
    actor: Actor,
    Body(body): Body<NodeCreate>,
) -> Answer<(StatusCode, Json<Enrolment>)> {
    let well_formed = body.name.len() <= 63
        && body
            .name
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && body
            .name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.');
    if !well_formed {
        return Err(ApiError::field(
            "name",
            "1 to 63 of a-z, 0-9, - and ., starting with a letter or digit",
        ));
    }
    check_serial(body.board_serial.as_deref())?;
    let id = NodeId::new();
    let mut change = fleet.app.db.change(&actor, "node.create", id).await?;
    match store::insert(&mut change, id, &body.name, body.mode.unwrap_or(NodeMode::Machine)).await {
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
            return Err(ApiError::new(Code::StateConflict)
                .message(format!("there is a node named {} already", body.name))
                .hint(format!("gpuaas node enroll {} gives it a new token", body.name)));
        }
        other => other?,
    }
    change.event("node.created", id, serde_json::json!({ "name": body.name }));
    let (token, expires_at) = enrol::issue(&fleet, &mut change, id, body.board_serial.as_deref()).await?;
    change.commit().await?;
    let node = shown(&fleet, id).await?;
    Ok((StatusCode::CREATED, Json(enrolment(node, &token.to_text(), expires_at))))
}

async fn enrol_again(
    State(fleet): State<Fleet>,
    Params(PathId { id }): Params<PathId>,
    actor: Actor,
    Body(body): Body<NodeEnrol>,
) -> Answer<(StatusCode, Json<Enrolment>)> {
    check_serial(body.board_serial.as_deref())?;
    let mut change = fleet.app.db.change(&actor, "node.enrol_again", id).await?;
    state::lock(&mut change, id).await?;
    let (token, expires_at) = enrol::issue(&fleet, &mut change, id, body.board_serial.as_deref()).await?;
    change.commit().await?;
    let node = shown(&fleet, id).await?;
    Ok((StatusCode::CREATED, Json(enrolment(node, &token.to_text(), expires_at))))
}

fn enrolment(node: NodeView, token: &str, expires_at: model::time::Timestamp) -> Enrolment {
    Enrolment {
        node,
        // Not with the token as an argument, which would stand in the host's process list.
        command: "gpuaas-node-executor enroll -".to_owned(),
        token: token.to_owned(),
        expires_at,
    }
}

fn check_serial(serial: Option<&str>) -> Answer<()> {
    match serial {
        Some(text) if text.is_empty() || text.len() > 128 => {
            Err(ApiError::field("board_serial", "1 to 128 characters"))
        }
        _ => Ok(()),
    }
}

async fn list(State(fleet): State<Fleet>, Search(query): Search<NodeQuery>) -> Answer<Json<Page<NodeView>>> {
    let page = base::http::page(query.after.as_deref(), query.limit, "nodes", &fleet.app.cursors)?;
    let rows = store::list(fleet.app.db.read(), query.state, &page).await?;
    let list = page.answer(
        rows,
        "nodes",
        &fleet.app.cursors,
        |row| (row.created_at.into(), row.id),
        |row| row,
    );
    let ids: Vec<_> = list.items.iter().map(|row| row.id).collect();
    let working = certificates::newest_working(fleet.app.db.read(), &ids).await?;
    let mut working: HashMap<_, _> = working.into_iter().map(|row| (row.node_id, row)).collect();
    let held = held::of_nodes(fleet.app.db.read(), &ids).await?;
    let held: HashMap<_, _> = held.into_iter().map(|row| (row.node_id, row)).collect();
    let items = list
        .items
        .into_iter()
        .map(|row| {
            let certificate = working.remove(&Some(row.id));
            let held = held.get(&row.id);
            view(row, certificate, held)
        })
        .collect::<Answer<_>>()?;
    Ok(Json(Page { items, next: list.next }))
}

async fn show(State(fleet): State<Fleet>, Params(PathId { id }): Params<PathId>) -> Answer<Json<NodeView>> {
    shown(&fleet, id).await.map(Json)
}

async fn shown(fleet: &Fleet, id: NodeId) -> Answer<NodeView> {
    let pool = fleet.app.db.bookkeeping();
    let row = store::get(pool, id).await?.ok_or(Code::NotFound)?;
    let working = certificates::newest_working(pool, &[row.id]).await?.pop();
    let held = held::of_nodes(pool, &[row.id]).await?.pop();
    view(row, working, held.as_ref())
}

async fn probe(
    State(fleet): State<Fleet>,
    Params(PathId { id }): Params<PathId>,
    actor: Actor,
) -> Answer<(StatusCode, Json<TaskView>)> {
    let mut change = fleet.app.db.change(&actor, "node.probe", id).await?;
    let asked = task::enqueue_probe(&fleet, &mut change, id).await?;
    let row = asked.row(&mut change).await?;
    change.commit().await?;
    Ok((StatusCode::ACCEPTED, Json(task::view(row)?)))
}

async fn clean(
    State(fleet): State<Fleet>,
    Params(PathId { id }): Params<PathId>,
    actor: Actor,
) -> Answer<(StatusCode, Json<TaskView>)> {
    let mut change = fleet.app.db.change(&actor, "node.clean", id).await?;
    let row = state::lock(&mut change, id).await?;
    let task_id = machine::clean_again(&fleet, &mut change, &row).await?;
    asked(change, task_id).await
}

/// The task as it is committed: looked at before, where the connection is at hand.
async fn asked(mut change: Change, id: TaskId) -> Answer<(StatusCode, Json<TaskView>)> {
    let row = task::store::get(change.conn(), id).await?.ok_or(Code::NotFound)?;
    change.commit().await?;
    Ok((StatusCode::ACCEPTED, Json(task::view(row)?)))
}

async fn mode(
    State(fleet): State<Fleet>,
    Params(PathId { id }): Params<PathId>,
    actor: Actor,
    Body(body): Body<NodeModeChange>,
) -> Answer<Json<NodeView>> {
    let mut change = fleet.app.db.change(&actor, "node.mode", id).await?;
    let row = state::lock(&mut change, id).await?;
    state::set_mode(&mut change, &row, body.mode).await?;
    change.commit().await?;
    shown(&fleet, id).await.map(Json)
}

/// A reason is kept for ever: short, printable, there.
pub(crate) fn reason(body: &NodeReason) -> Answer<&str> {
    let text = body.reason.trim();
    let fine = (1..=200).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    if fine {
        Ok(text)
    } else {
        Err(ApiError::field("reason", "1 to 200 printable characters"))
    }
}

/// A verb that moves the node's state and keeps the reason.
async fn reasoned(
    fleet: &Fleet,
    id: NodeId,
    actor: &Actor,
    action: &'static str,
    body: &NodeReason,
    act: impl AsyncFnOnce(&mut Change, &NodeRow, &str) -> Answer<()>,
) -> Answer<Json<NodeView>> {
    let why = reason(body)?;
    let mut change = fleet.app.db.change(actor, action, id).await?;
    let row = state::lock(&mut change, id).await?;
    change.detail(serde_json::json!({ "reason": why }));
    act(&mut change, &row, why).await?;
    change.commit().await?;
    shown(fleet, id).await.map(Json)
}

async fn drain(
    State(fleet): State<Fleet>,
    Params(PathId { id }): Params<PathId>,
    actor: Actor,
    Body(body): Body<NodeReason>,
) -> Answer<Json<NodeView>> {
    reasoned(&fleet, id, &actor, "node.drain", &body, state::drain).await
}

async fn undrain(
    State(fleet): State<Fleet>,
    Params(PathId { id }): Params<PathId>,
    actor: Actor,
) -> Answer<(StatusCode, Json<NodeView>)> {
    let mut change = fleet.app.db.change(&actor, "node.undrain", id).await?;
    let row = state::lock(&mut change, id).await?;
    state::undrain(&fleet, &mut change, &row).await?;
    change.commit().await?;
    Ok((StatusCode::ACCEPTED, Json(shown(&fleet, id).await?)))
}

async fn quarantine(
    State(fleet): State<Fleet>,
    Params(PathId { id }): Params<PathId>,
    actor: Actor,
    Body(body): Body<NodeReason>,
) -> Answer<Json<NodeView>> {
    reasoned(&fleet, id, &actor, "node.quarantine", &body, state::quarantine).await
}

async fn unquarantine(
    State(fleet): State<Fleet>,
    Params(PathId { id }): Params<PathId>,
    actor: Actor,
    Body(body): Body<NodeReason>,
) -> Answer<Json<NodeView>> {
    reasoned(&fleet, id, &actor, "node.unquarantine", &body, state::unquarantine).await
}

async fn remove(
    State(fleet): State<Fleet>,
    Params(PathId { id }): Params<PathId>,
    actor: Actor,
    Body(body): Body<NodeReason>,
) -> Answer<Json<NodeView>> {
    reasoned(&fleet, id, &actor, "node.remove", &body, state::remove).await
}

async fn list_certificates(
    State(fleet): State<Fleet>,
    Params(PathId { id }): Params<PathId>,
    Search(query): Search<base::http::PageQuery>,
) -> Answer<Json<Page<CertificateView>>> {
    let page = query.page("certificates", &fleet.app.cursors)?;
    store::get(fleet.app.db.read(), id).await?.ok_or(Code::NotFound)?;
    // A serial has sixteen bytes, as an id has; so a cursor can carry it.
    let after = page.after.map(|(at, serial)| (at.into(), serial.simple().to_string()));
    let rows = certificates::of_node(fleet.app.db.read(), id, after, page.fetch()).await?;
    let place = |row: &CertificateRow| (row.created_at.into(), row.serial.parse().unwrap_or_default());
    Ok(Json(page.answer(
        rows,
        "certificates",
        &fleet.app.cursors,
        place,
        super::view::certificate_view,
    )))
}

#[derive(Deserialize)]
struct CertificatePath {
    id: NodeId,
    serial: String,
}

async fn revoke(
    State(fleet): State<Fleet>,
    Params(path): Params<CertificatePath>,
    actor: Actor,
    Body(body): Body<NodeReason>,
) -> Answer<Json<NodeView>> {
    let why = reason(&body)?;
    let mut change = fleet.app.db.change(&actor, "certificate.revoke", path.id).await?;
    state::lock(&mut change, path.id).await?;
    let at = change.at();
    if !certificates::revoke(change.conn(), path.id, &path.serial, why, at).await? {
        return Err(Code::NotFound.into());
    }
    change.detail(serde_json::json!({ "serial": path.serial, "reason": why }));
    change.event(
        "certificate.revoked",
        path.id,
        serde_json::json!({ "serial": path.serial }),
    );
    change.wake(base::wake::Topic::Revoked);
    change.commit().await?;
    shown(&fleet, path.id).await.map(Json)
}
