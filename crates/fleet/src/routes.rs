//! The node-facing routes. Every one lists the roles that may call it; the node's id comes from its certificate and
//! the one in the path must be the same.

mod identify;
mod stamp;
mod wait;

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router};
use base::auth::Role;
use base::http::{Access, Answer, ApiError, Body, Params, Peer, Route, Routes, Search, correlation_id};
use base::tx::Actor;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use model::dsse::Envelope;
use model::id::{NodeId, TaskId};
use model::node_api::{
    CertificateAnswer, CertificateRequest, EnrolAnswer, EnrolRequest, HeartbeatAnswer, HeartbeatRequest, NodeProbe,
    PingAnswer, ResultAnswer, ResultRequest, RoleCertificateAnswer, RoleCertificateRequest, SessionAnswer,
    SessionRequest, TaskAnswer, TaskRequest, WaitAnswer,
};
use model::signal::Code;
use model::task::Task;
use model::telemetry::TelemetryRequest;
use model::trust::Bundle;
use serde::Deserialize;

use crate::image::{ImagePath, PieceQuery, get_piece};
use crate::task::{Ask, Cover};
use crate::{Fleet, certificate, enrol, heartbeat, held, node, session, task, telemetry};

use identify::{Me, PathId, identify};
pub use stamp::stamped;
use wait::{WaitQuery, get_wait, session_of};

const NODE: Access = Access::Roles(&[Role::Node]);
/// Who may ask for tasks: those that run workflows. Each still needs an intent for each task.
const WORKERS: Access = Access::Roles(&[Role::ProvisioningWorker, Role::AppRuntimeWorker, Role::BillingWorker]);

/// Every process of ours that runs apart; nodes renew elsewhere, with more proof.
const APART: Access = Access::Roles(&[
    Role::TerminalGateway,
    Role::NodeLogGateway,
    Role::ProvisioningWorker,
    Role::BillingWorker,
    Role::WebhookWorker,
    Role::AppRuntimeWorker,
    Role::OutboxRelay,
    Role::NotificationRelay,
    Role::SlurmController,
    Role::Rke2Controller,
    Role::VettingOrchestrator,
]);

/// Behind mutual TLS.
pub fn node_routes() -> Routes<Fleet> {
    Routes::new([
        Route::post("/internal/v1/nodes/{id}/session", NODE, post_session)
            .summary("Open a session: who runs here and what it can do")
            .takes::<SessionRequest>()
            .answers::<SessionAnswer>()
            .fails(&[Code::AgentIncompatible, Code::SimulatedNodeRefused, Code::NodeCloned]),
        Route::get("/internal/v1/nodes/{id}/tasks/wait", NODE, get_wait)
            .summary("Wait for tasks; with probe=1, only prove that waiting would work")
            .searches::<WaitQuery>()
            .answers::<WaitAnswer>()
            .answers_nothing()
            .deadline(Duration::from_secs(60))
            .fails(&[
                Code::SessionRequired,
                Code::SessionSuperseded,
                Code::NodeQuarantined,
                Code::NodeCloned,
            ]),
        Route::get("/internal/v1/nodes/{id}/ping", NODE, get_ping)
            .summary("Prove the way in and out; claims nothing")
            .answers::<PingAnswer>(),
        Route::post("/internal/v1/nodes/{id}/heartbeat", NODE, post_heartbeat)
            .summary("Name what is held; keeps its leases")
            .takes::<HeartbeatRequest>()
            .answers::<HeartbeatAnswer>(),
        Route::post("/internal/v1/nodes/{id}/tasks/{task_id}/result", NODE, post_result)
            .summary("Land a signed result, once")
            .takes::<ResultRequest>()
            .answers::<ResultAnswer>()
            .body_limit(512 * 1024)
            .fails(&[
                Code::StaleFence,
                Code::ResultConflict,
                Code::ResultSignatureInvalid,
                Code::RefusalEarly,
            ]),
        Route::get("/internal/v1/nodes/{id}/trust", NODE, get_trust)
            .summary("The delegation and the newest manifest")
            .answers::<Bundle>(),
        Route::get("/internal/v1/nodes/{id}/catalogue", NODE, get_catalogue)
            .summary("The newest image catalogue, as operators have signed it")
            .answers::<Envelope>(),
        Route::get("/internal/v1/nodes/{id}/images/{sha256}", NODE, get_image)
            .summary("A piece of a listed image")
            .searches::<PieceQuery>()
            .answers_bytes()
            .fails(&[Code::ImageNotListed, Code::ImageUnserved]),
        Route::post("/internal/v1/nodes/{id}/self-probe", NODE, post_self_probe)
            .summary("What the node sees of its own hops")
            .takes::<NodeProbe>()
            .answers_nothing()
            .body_limit(512 * 1024)
            .fails(&[
                Code::HeldSignatureInvalid,
                Code::HeldForeign,
                Code::HeldStale,
                Code::HeldMalformed,
                Code::ClockSkew,
            ]),
        Route::post("/internal/v1/nodes/{id}/telemetry", NODE, post_telemetry)
            .summary("Numbers that guests have sent; shown, and used for nothing")
            .takes::<TelemetryRequest>()
            .answers_nothing()
            .fails(&[Code::TelemetryRefused, Code::TelemetryLimited]),
        Route::post("/internal/v1/tasks", WORKERS, post_task)
            .summary("Ask for a task under a stored intent")
            .takes::<TaskRequest>()
            .answers_with::<TaskAnswer>(StatusCode::ACCEPTED)
            .fails(&[Code::IntentMissing, Code::IntentWithdrawn, Code::NodeQueueFull]),
        Route::post("/internal/v1/certificate", APART, post_role_certificate)
            .summary("Another day for a process of ours, in the name that it shows")
            .takes::<RoleCertificateRequest>()
            .answers::<RoleCertificateAnswer>(),
    ])
}

/// Behind server TLS only: the token in the body is the identity.
pub fn enrol_routes() -> Routes<Fleet> {
    Routes::new([
        Route::post("/internal/v1/enroll", Access::Public, post_enrol)
            .summary("Let a host in, once")
            .takes::<EnrolRequest>()
            .answers::<EnrolAnswer>()
            .fails(&[
                Code::EnrollTokenInvalid,
                Code::EnrollTokenExpired,
                Code::EnrollTokenUsed,
                Code::SimulatedNodeRefused,
            ]),
        Route::post("/internal/v1/nodes/{id}/certificates", Access::Public, post_certificate)
            .summary("A new certificate, vouched for by the device credential")
            .takes::<CertificateRequest>()
            .answers::<CertificateAnswer>()
            .fails(&[
                Code::DeviceTokenInvalid,
                Code::CertNameMismatch,
                Code::CertRevoked,
                Code::ClockSkew,
                Code::NodeCloned,
            ]),
    ])
}

/// The router of the mutual-TLS listener: every request is identified anew before any gate is asked.
pub fn node_router(fleet: &Fleet) -> Router {
    node_routes()
        .router(&fleet.app)
        .with_state(fleet.clone())
        .layer(axum::middleware::from_fn_with_state(fleet.clone(), identify))
}

pub fn enrol_router(fleet: &Fleet) -> Router {
    enrol_routes().router(&fleet.app).with_state(fleet.clone())
}

async fn post_session(
    State(fleet): State<Fleet>,
    Me(me): Me,
    actor: Actor,
    Body(request): Body<SessionRequest>,
) -> Answer<Json<SessionAnswer>> {
    session::open(&fleet, &me, &actor, &request).await.map(Json)
}

async fn get_ping(Me(me): Me) -> Json<PingAnswer> {
    Json(PingAnswer {
        node_id: me.node_id,
        epoch: me.epoch,
        serial: me.serial.to_string(),
        not_after: me.not_after,
    })
}

async fn post_heartbeat(
    State(fleet): State<Fleet>,
    Me(me): Me,
    actor: Actor,
    headers: HeaderMap,
    Body(request): Body<HeartbeatRequest>,
) -> Answer<Json<HeartbeatAnswer>> {
    let session = session_of(&headers)?;
    session::check(&fleet, &me, &actor, session).await?;
    heartbeat::beat(&fleet, &me, &actor, session, &request).await.map(Json)
}

#[derive(Deserialize)]
struct ResultPath {
    #[serde(rename = "id")]
    _id: NodeId,
    task_id: TaskId,
}

async fn post_result(
    State(fleet): State<Fleet>,
    Me(me): Me,
    Params(path): Params<ResultPath>,
    actor: Actor,
    Body(request): Body<ResultRequest>,
) -> Answer<Json<ResultAnswer>> {
    tracing::Span::current().record("task_id", tracing::field::display(path.task_id));
    task::result::land(&fleet, &me, &actor, path.task_id, request)
        .await
        .map(Json)
}

async fn get_trust(State(fleet): State<Fleet>, Me(_): Me) -> Response {
    ([(CONTENT_TYPE, "application/json")], fleet.keyring().written.clone()).into_response()
}

async fn get_catalogue(State(fleet): State<Fleet>, Me(_): Me) -> Answer<Response> {
    let images = fleet.images();
    images.catalogue().ok_or(Code::NotFound)?;
    Ok(([(CONTENT_TYPE, "application/json")], images.written.clone()).into_response())
}

async fn get_image(
    state: State<Fleet>,
    Me(_): Me,
    Params(path): Params<ImagePath>,
    Search(query): Search<PieceQuery>,
) -> Answer<Response> {
    get_piece(state, path, query).await
}

async fn post_self_probe(
    State(fleet): State<Fleet>,
    Me(me): Me,
    actor: Actor,
    Body(mut probe): Body<NodeProbe>,
) -> Answer<StatusCode> {
    let held = probe.held.take();
    node::store::self_probed(fleet.app.db.bookkeeping(), me.node_id, &probe, fleet.app.clock.now()).await?;
    if let Some(envelope) = held {
        held::land(&fleet, &me, &actor, &envelope).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn post_telemetry(
    State(fleet): State<Fleet>,
    Me(me): Me,
    actor: Actor,
    Body(request): Body<TelemetryRequest>,
) -> Answer<StatusCode> {
    telemetry::land(&fleet, &me, &actor, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn post_task(
    State(fleet): State<Fleet>,
    actor: Actor,
    Body(request): Body<TaskRequest>,
) -> Answer<(StatusCode, Json<TaskAnswer>)> {
    let task = Task::parse(&request.task_type, request.type_version, &request.params)
        .map_err(|(code, why)| ApiError::new(code).message(why))?;
    let mut change = fleet.app.db.change(&actor, "task.ask", request.node_id).await?;
    let cover = Cover::Intent {
        sha256: request.intent_sha256,
        op: request.op_id,
    };
    let ask = Ask {
        node: request.node_id,
        task,
        cover,
    };
    match task::enqueue(&fleet, &mut change, &ask).await {
        Ok(task_id) => {
            change.commit().await?;
            Ok((StatusCode::ACCEPTED, Json(TaskAnswer { task_id })))
        }
        Err(error) => {
            drop(change);
            if matches!(
                error.code,
                Code::IntentMissing | Code::IntentInvalid | Code::IntentWithdrawn | Code::NodeQueueFull
            ) {
                fleet
                    .app
                    .db
                    .refusal(&actor, "task.ask", request.node_id, error.code)
                    .await?;
            }
            Err(error)
        }
    }
}

async fn post_role_certificate(
    State(fleet): State<Fleet>,
    Extension(peer): Extension<Peer>,
    actor: Actor,
    Body(request): Body<RoleCertificateRequest>,
) -> Answer<Json<RoleCertificateAnswer>> {
    certificate::renew_role(&fleet, &actor, &peer, &request.csr_pem)
        .await
        .map(Json)
}

async fn post_enrol(State(fleet): State<Fleet>, Body(request): Body<EnrolRequest>) -> Answer<Json<EnrolAnswer>> {
    enrol::enrol(&fleet, request).await.map(Json)
}

async fn post_certificate(
    State(fleet): State<Fleet>,
    Params(PathId { id }): Params<PathId>,
    Body(request): Body<CertificateRequest>,
) -> Answer<Json<CertificateAnswer>> {
    tracing::debug!(node_id = %id, correlation_id = %correlation_id(), "renewal asked for");
    certificate::renew(&fleet, id, request).await.map(Json)
}
