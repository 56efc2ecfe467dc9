//! What operators can do with slots, and the two verbs of nodes that are about them.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use base::Change;
use base::auth::Scope;
use base::http::{Access, Answer, Body, Params, Route, Routes, Search};
use base::tx::Actor;
use http::StatusCode;
use model::api::{NodeReason, Page, SlotProofView, SlotView, TaskView, TopologyView};
use model::id::{NodeId, SlotId, TaskId};
use model::signal::Code;
use model::state::SlotState;
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::store::{self, Filter, ProofRow, SlotRow};
use super::{approve, differences, rewipe, view, way_out};
use crate::node::routes::reason;
use crate::{Fleet, held, intent, node, task, telemetry};

const WRITE: Access = Access::Scopes(&[Scope::Operator]);
const READ: Access = Access::Scopes(&[Scope::Operator, Scope::Support, Scope::Auditor]);

pub fn routes() -> Routes<Fleet> {
    Routes::new([
        Route::post("/v1/nodes/{id}/discover", WRITE, discover)
            .summary("Look at its devices and propose slots")
            .answers_with::<TaskView>(StatusCode::ACCEPTED)
            .fails(&[Code::NodeNotReady, Code::NodeQuarantined, Code::NodeLacksTaskType]),
        Route::get("/v1/nodes/{id}/topology", READ, topology)
            .summary("The latest discovery, beside what was approved")
            .answers::<TopologyView>(),
        Route::get("/v1/slots", READ, list)
            .summary("List slots")
            .searches::<SlotQuery>()
            .answers::<Page<SlotView>>(),
        Route::get("/v1/slots/{id}", READ, show)
            .summary("Show a slot")
            .answers::<SlotView>(),
        Route::post("/v1/slots/{id}/approve", WRITE, post_approve)
            .summary("Put it into service as the latest discovery saw it")
            .answers::<SlotView>()
            .fails(&[
                Code::SlotBlocked,
                Code::SlotDevicesChanged,
                Code::SlotConflict,
                Code::SlotQuarantined,
            ]),
        Route::post("/v1/slots/{id}/reject", WRITE, post_reject)
            .summary("Take it out of service, or never into it")
            .takes::<NodeReason>()
            .answers::<SlotView>()
            .fails(&[Code::StateConflict, Code::SlotQuarantined]),
        Route::post("/v1/slots/{id}/quarantine", WRITE, post_quarantine)
            .summary("Give it to nobody until it is wiped with proof")
            .takes::<NodeReason>()
            .answers::<SlotView>()
            .fails(&[Code::StateConflict]),
        Route::post("/v1/slots/{id}/rewipe", WRITE, post_rewipe)
            .summary("Wipe a quarantined slot again, with whatever its last tenant left")
            .answers_with::<TaskView>(StatusCode::ACCEPTED)
            .fails(&[Code::StateConflict, Code::NodeNotReady, Code::NodeQuarantined]),
        Route::post("/v1/slots/{id}/unreserve", WRITE, post_unreserve)
            .summary("Give back what an allocation has reserved and nobody is making")
            .takes::<NodeReason>()
            .answers::<SlotView>()
            .fails(&[Code::StateConflict]),
        Route::post("/v1/slots/{id}/disk-gone", WRITE, post_disk_gone)
            .summary("Give up a quarantined slot whose disk was taken out, so that its other devices can be used")
            .takes::<NodeReason>()
            .answers::<SlotView>()
            .fails(&[Code::StateConflict, Code::DiskStillThere, Code::WipeUnproved]),
        Route::get("/v1/slots/{id}/proofs", READ, list_proofs)
            .summary("What was proved of it, newest first")
            .searches::<base::http::PageQuery>()
            .answers::<Page<SlotProofView>>(),
    ])
}

#[derive(Deserialize)]
struct NodePath {
    id: NodeId,
}

#[derive(Deserialize)]
struct SlotPath {
    id: SlotId,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SlotQuery {
    node: Option<NodeId>,
    state: Option<SlotState>,
    after: Option<String>,
    limit: Option<u32>,
}

async fn discover(
    State(fleet): State<Fleet>,
    Params(NodePath { id }): Params<NodePath>,
    actor: Actor,
) -> Answer<(StatusCode, Json<TaskView>)> {
    let mut change = fleet.app.db.change(&actor, "node.discover", id).await?;
    let task = task::enqueue_discovery(&fleet, &mut change, id).await?;
    change.commit().await?;
    accepted(&fleet, task).await
}

async fn accepted(fleet: &Fleet, id: model::id::TaskId) -> Answer<(StatusCode, Json<TaskView>)> {
    let row = task::store::get(fleet.app.db.bookkeeping(), id)
        .await?
        .ok_or(Code::NotFound)?;
    Ok((StatusCode::ACCEPTED, Json(task::view(row)?)))
}

async fn topology(State(fleet): State<Fleet>, Params(NodePath { id }): Params<NodePath>) -> Answer<Json<TopologyView>> {
    let node = node::store::get(fleet.app.db.read(), id).await?.ok_or(Code::NotFound)?;
    let Some((topology, at)) = store::topology(fleet.app.db.read(), id).await? else {
        return Err(view::undiscovered(&node.name));
    };
    let slots = store::of_node(fleet.app.db.read(), id).await?;
    let in_service: Vec<SlotRow> = slots
        .into_iter()
        .filter(|slot| slot.counts().is_ok_and(|counts| counts))
        .collect();
    Ok(Json(TopologyView {
        node_id: id,
        node_name: node.name,
        simulated: node.simulated,
        discovered_at: at.into(),
        differences: differences(&in_service),
        topology,
    }))
}

async fn list(State(fleet): State<Fleet>, Search(query): Search<SlotQuery>) -> Answer<Json<Page<SlotView>>> {
    let page = base::http::page(query.after.as_deref(), query.limit, "slots", &fleet.app.cursors)?;
    let filter = Filter {
        node: query.node,
        state: query.state,
    };
    let rows = store::list(fleet.app.db.read(), &filter, &page).await?;
    let place = |row: &SlotRow| (row.created_at.into(), row.id);
    let list = page.answer(rows, "slots", &fleet.app.cursors, place, |row| row);
    let items = viewed(&fleet, list.items).await?;
    Ok(Json(Page { items, next: list.next }))
}

async fn show(State(fleet): State<Fleet>, Params(SlotPath { id }): Params<SlotPath>) -> Answer<Json<SlotView>> {
    shown(&fleet, id).await
}

async fn shown(fleet: &Fleet, id: SlotId) -> Answer<Json<SlotView>> {
    let row = store::get(fleet.app.db.bookkeeping(), id)
        .await?
        .ok_or(Code::NotFound)?;
    let one = viewed(fleet, vec![row]).await?.pop();
    one.map(Json).ok_or_else(|| Code::NotFound.into())
}

/// With what their nodes hold, and what their guests say.
async fn viewed(fleet: &Fleet, rows: Vec<SlotRow>) -> Answer<Vec<SlotView>> {
    let pool = fleet.app.db.bookkeeping();
    let nodes: Vec<Uuid> = rows.iter().map(|row| row.node_id).collect();
    let allocations: Vec<Uuid> = rows.iter().filter_map(|row| row.allocation_id).collect();
    let held = held::of_nodes(pool, &nodes).await?;
    let held: HashMap<_, _> = held.into_iter().map(|row| (row.node_id, row)).collect();
    let guests = telemetry::of_allocations(pool, &allocations).await?;
    let guests: HashMap<_, _> = guests.into_iter().map(|row| (Some(row.allocation_id), row)).collect();
    let now = fleet.app.clock.now();
    let views = rows.into_iter().map(|row| {
        let (held, guest) = (held.get(&row.node_id), guests.get(&row.allocation_id));
        view::view(row, held, guest, now)
    });
    views.collect()
}

/// A verb on a slot, under its node's lock.
async fn act(
    fleet: &Fleet,
    id: SlotId,
    actor: &Actor,
    action: &'static str,
    act: impl AsyncFnOnce(&mut Change, &SlotRow) -> Answer<()>,
) -> Answer<Json<SlotView>> {
    let mut change = fleet.app.db.change(actor, action, id).await?;
    let slot = locked(fleet, &mut change, id).await?;
    act(&mut change, &slot).await?;
    change.commit().await?;
    shown(fleet, id).await
}

/// A verb that keeps its reason.
async fn reasoned(
    fleet: &Fleet,
    id: SlotId,
    actor: &Actor,
    action: &'static str,
    body: &NodeReason,
    does: impl AsyncFnOnce(&mut Change, &SlotRow, &str) -> Answer<()>,
) -> Answer<Json<SlotView>> {
    let why = reason(body)?;
    act(fleet, id, actor, action, async |change, slot| {
        change.detail(serde_json::json!({ "reason": why }));
        does(change, slot, why).await
    })
    .await
}

/// The slot as it is once its node is locked.
async fn locked(fleet: &Fleet, change: &mut Change, id: SlotId) -> Answer<SlotRow> {
    let seen = store::get(fleet.app.db.read(), id).await?.ok_or(Code::NotFound)?;
    node::state::lock(change, seen.node()).await?;
    let slot = store::these(change.conn(), seen.node(), &[id.uuid()]).await?.pop();
    slot.ok_or_else(|| Code::NotFound.into())
}

async fn post_approve(
    State(fleet): State<Fleet>,
    Params(SlotPath { id }): Params<SlotPath>,
    actor: Actor,
) -> Answer<Json<SlotView>> {
    act(&fleet, id, &actor, "slot.approve", async |change, slot| {
        approve::approve(change, slot).await
    })
    .await
}

async fn post_reject(
    State(fleet): State<Fleet>,
    Params(SlotPath { id }): Params<SlotPath>,
    actor: Actor,
    Body(body): Body<NodeReason>,
) -> Answer<Json<SlotView>> {
    reasoned(&fleet, id, &actor, "slot.reject", &body, async |change, slot, why| {
        approve::reject(change, slot, why).await
    })
    .await
}

async fn post_quarantine(
    State(fleet): State<Fleet>,
    Params(SlotPath { id }): Params<SlotPath>,
    actor: Actor,
    Body(body): Body<NodeReason>,
) -> Answer<Json<SlotView>> {
    reasoned(
        &fleet,
        id,
        &actor,
        "slot.quarantine",
        &body,
        async |change, slot, why| approve::quarantine(change, slot, why).await,
    )
    .await
}

async fn post_unreserve(
    State(fleet): State<Fleet>,
    Params(SlotPath { id }): Params<SlotPath>,
    actor: Actor,
    Body(body): Body<NodeReason>,
) -> Answer<Json<SlotView>> {
    reasoned(&fleet, id, &actor, "slot.give_back", &body, async |change, slot, _| {
        way_out::give_back(change, slot).await
    })
    .await
}

async fn post_disk_gone(
    State(fleet): State<Fleet>,
    Params(SlotPath { id }): Params<SlotPath>,
    actor: Actor,
    Body(body): Body<NodeReason>,
) -> Answer<Json<SlotView>> {
    reasoned(
        &fleet,
        id,
        &actor,
        "slot.disk_gone",
        &body,
        async |change, slot, why| way_out::disk_gone(change, slot, why).await,
    )
    .await
}

async fn post_rewipe(
    State(fleet): State<Fleet>,
    Params(SlotPath { id }): Params<SlotPath>,
    actor: Actor,
) -> Answer<(StatusCode, Json<TaskView>)> {
    let task = rewipe_by(&fleet, id, &actor).await?;
    accepted(&fleet, task).await
}

/// The same for whoever decides it.
pub async fn rewipe_by(fleet: &Fleet, id: SlotId, actor: &Actor) -> Answer<TaskId> {
    let mut change = fleet.app.db.change(actor, "slot.rewipe", id).await?;
    let slot = locked(fleet, &mut change, id).await?;
    match rewipe::rewipe(fleet, &mut change, &slot).await {
        Ok(task) => {
            change.commit().await?;
            Ok(task)
        }
        Err(error) => {
            drop(change);
            Err(intent::refused(fleet, actor, "slot.rewipe", id, error).await)
        }
    }
}

async fn list_proofs(
    State(fleet): State<Fleet>,
    Params(SlotPath { id }): Params<SlotPath>,
    Search(query): Search<base::http::PageQuery>,
) -> Answer<Json<Page<SlotProofView>>> {
    let page = query.page("proofs", &fleet.app.cursors)?;
    store::get(fleet.app.db.read(), id).await?.ok_or(Code::NotFound)?;
    let rows = store::proofs(fleet.app.db.read(), id, &page).await?;
    // A cursor carries sixteen bytes; a proof's number is eight of them.
    let place = |row: &ProofRow| (row.created_at.into(), Uuid::from_u128(row.no as u128));
    Ok(Json(page.answer(
        rows,
        "proofs",
        &fleet.app.cursors,
        place,
        view::proof_view,
    )))
}
