//! The node-facing routes. Every one lists the roles that may call it; the node's id comes from its certificate and
//! the one in the path must be the same.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router};
use base::auth::Role;
use base::http::{
    Access, Answer, ApiError, Body, Params, Peer, Route, Routes, Search, Subject, correlation_id, later, settle,
};
use base::tx::Actor;
use http::header::{CONNECTION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use model::dsse::Envelope;
use model::id::{NodeId, SessionId, TaskId};
use model::node_api::{
    CertificateAnswer, CertificateRequest, EnrolAnswer, EnrolRequest, HeartbeatAnswer, HeartbeatRequest, NodeProbe,
    PingAnswer, ResultAnswer, ResultRequest, RoleCertificateAnswer, RoleCertificateRequest, SessionAnswer,
    SessionRequest, TaskAnswer, TaskRequest, WaitAnswer, header,
};
use model::signal::Code;
use model::task::Task;
use model::telemetry::TelemetryRequest;
use model::trust::Bundle;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;
use tower::util::MapFutureLayer;
use wire::tls::PeerCertificate;

use crate::dispatch::Wait;
use crate::identity::{Caller, NodeCaller};
use crate::image::{ImagePath, PieceQuery, get_piece};
use crate::metrics::IDENTITY_REFUSED;
use crate::task::{Ask, Cover};
use crate::{Fleet, certificate, enrol, heartbeat, held, node, session, task, telemetry};

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

/// How long before the end of its certificate a wait is over.
const BEFORE_END_MS: i64 = 250;
/// When we stop, those who wait are sent away over this long.
const LEAVE_WITHIN_MS: u64 = 5000;

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
            .fails(&[Code::StaleFence, Code::ResultConflict, Code::ResultSignatureInvalid]),
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

async fn identify(State(fleet): State<Fleet>, mut request: Request, next: Next) -> Response {
    let certificate = request
        .extensions()
        .get::<wire::serve::Peer>()
        .and_then(|peer| peer.certificate.clone());
    match certificate {
        None => ApiError::new(Code::Unauthenticated).into_response(),
        Some(certificate) => match identified(&fleet, &certificate).await {
            Ok(caller) => {
                let peer = match &caller {
                    Caller::Node(node) => {
                        tracing::Span::current().record("node_id", tracing::field::display(node.node_id));
                        let manifest = version_of(request.headers(), header::MANIFEST);
                        fleet.presence.heard(node, fleet.app.clock.now(), manifest);
                        Peer {
                            role: Role::Node,
                            id: node.node_id.to_string(),
                        }
                    }
                    Caller::Role { role, instance } => Peer {
                        role: *role,
                        id: instance.clone(),
                    },
                };
                if let Caller::Node(node) = caller {
                    request.extensions_mut().insert(node);
                }
                request.extensions_mut().insert(peer);
                next.run(request).await
            }
            Err(error) => {
                metrics::counter!(IDENTITY_REFUSED, "code" => error.code.as_str()).increment(1);
                let name = certificate
                    .spiffe
                    .as_ref()
                    .map_or_else(|| certificate.serial.to_string(), ToString::to_string);
                // What we could not find out is no refusal, and a database that is away is not asked to note it. One who
                // only comes too often is counted.
                let noted = match error.status().is_client_error() && error.code != Code::RateLimited {
                    true => fleet.note_refused(&name, error.code).await,
                    false => Ok(()),
                };
                let mut answer = match noted {
                    Ok(()) => error.into_response(),
                    Err(broken) => ApiError::from(broken).into_response(),
                };
                // Nothing more will be heard on this connection; it is not kept for somebody who is nobody.
                if answer.status().is_client_error() {
                    answer
                        .headers_mut()
                        .insert(CONNECTION, HeaderValue::from_static("close"));
                }
                answer
            }
        },
    }
}

/// The certificate is one of ours, so it pays for its own requests, whatever the table says of it.
async fn identified(fleet: &Fleet, certificate: &PeerCertificate) -> Answer<Caller> {
    let subject = Subject::Certificate(certificate.serial.clone());
    fleet.app.rates.take(subject)?;
    fleet.identify(certificate).await
}

/// Around everything that a node-facing listener answers, what no route took included. This is where held requests
/// wait; so it is no middleware, which would keep room for the request meanwhile.
pub fn stamped(fleet: &Fleet, router: Router) -> Router {
    let fleet = fleet.clone();
    router.layer(MapFutureLayer::new(move |first| {
        let (fleet, answer) = (fleet.clone(), settle(Box::pin(first)));
        async move { answer.await.map(|answer: Response| stamp(&fleet, answer)) }
    }))
}

/// Time and manifest version ride on every answer, refusals and empty ones too, as of the moment when it goes out.
fn stamp(fleet: &Fleet, mut answer: Response) -> Response {
    let values = [
        (HeaderName::from_static(header::TIME), fleet.app.clock.now().to_string()),
        (
            HeaderName::from_static(header::MANIFEST),
            fleet.manifest_version().to_string(),
        ),
        (
            HeaderName::from_static(header::CATALOGUE),
            fleet.images().version().to_string(),
        ),
    ];
    for (name, value) in values {
        if let Ok(value) = HeaderValue::from_str(&value) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

/// The calling node, if the path names it. Another node's id looks like one that does not exist.
struct Me(NodeCaller);

#[derive(Deserialize)]
struct PathId {
    id: NodeId,
}

impl FromRequestParts<Fleet> for Me {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, fleet: &Fleet) -> Result<Self, ApiError> {
        let caller = parts
            .extensions
            .get::<NodeCaller>()
            .cloned()
            .ok_or(Code::Unauthenticated)?;
        let Params(PathId { id }) = Params::<PathId>::from_request_parts(parts, fleet).await?;
        if id != caller.node_id {
            fleet.note_foreign(&caller, id).await?;
            return Err(Code::NotFound.into());
        }
        Ok(Me(caller))
    }
}

async fn post_session(
    State(fleet): State<Fleet>,
    Me(me): Me,
    actor: Actor,
    Body(request): Body<SessionRequest>,
) -> Answer<Json<SessionAnswer>> {
    session::open(&fleet, &me, &actor, &request).await.map(Json)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WaitQuery {
    /// 1: answer at once and claim nothing.
    probe: Option<u8>,
}

async fn get_wait(
    State(fleet): State<Fleet>,
    Me(me): Me,
    Search(query): Search<WaitQuery>,
    actor: Actor,
    headers: HeaderMap,
) -> Answer<Response> {
    if query.probe == Some(1) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let session = session_of(&headers)?;
    let (manifest, catalogue) = (fleet.manifest_version(), fleet.images().version());
    let behind = |name, newest| version_of(&headers, name).is_some_and(|known| known < newest);
    if behind(header::MANIFEST, manifest) || behind(header::CATALOGUE, catalogue) {
        // It was between two waits when they came; it must not hear of a revocation only after this one.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    session::takes_tasks(&session::check(&fleet, &me, &actor, session).await?)?;
    let wait = fleet.dispatch.enter(me.node_id);
    let held = Held {
        me,
        address: actor.address,
        session,
        manifest,
        catalogue,
        wait,
    };
    Ok(later(async move { hold(&fleet, &held).await.into_response() }))
}

/// A request that is held: whose it is, and what it waits for.
struct Held {
    me: NodeCaller,
    address: Option<IpAddr>,
    session: SessionId,
    /// What was in force when it came.
    manifest: u64,
    catalogue: u64,
    wait: Wait,
}

/// What is left of a held request: a bell, a clock, and whom to ask for when either rings. Ten thousand of these are
/// there at any time, so the rest is made when it is needed.
async fn hold(fleet: &Fleet, held: &Held) -> Answer<Response> {
    let Held { me, wait, .. } = held;
    let session = held.session;
    let jitter_ms = rand::random_range(0..=fleet.limits.hold_ms / 4);
    // Over just before the certificate is: then it ends as any wait does, and nobody was refused.
    let left_ms = me.not_after.since_ms(fleet.app.clock.now()) - BEFORE_END_MS;
    let left_ms = u64::try_from(left_ms).unwrap_or(0);
    let over = tokio::time::sleep(Duration::from_millis((fleet.limits.hold_ms + jitter_ms).min(left_ms)));
    tokio::pin!(over);
    loop {
        let rung = wait.rung();
        tokio::pin!(rung);
        rung.as_mut().enable();
        if !session::known(fleet, me, session) {
            Box::pin(opened_again(fleet, held)).await?;
        }
        if wait.take_work()
            && let Some(answer) = Box::pin(work_for(fleet, me, session)).await?
        {
            return Ok(answer);
        }
        tokio::select! {
            biased;
            () = &mut over => return Ok(StatusCode::NO_CONTENT.into_response()),
            () = fleet.stop.cancelled() => {
                // Everybody will come back to another process: not all in the same moment.
                let left_ms = rand::random_range(0..=(fleet.limits.hold_ms / 4).min(LEAVE_WITHIN_MS));
                over.as_mut().reset(Instant::now() + Duration::from_millis(left_ms));
                over.await;
                return Ok(StatusCode::NO_CONTENT.into_response());
            }
            () = &mut rung => {}
        }
        // Revoked while it waited, or a new manifest: the connection is not asked again, so the table is.
        Box::pin(fleet.still_stands(me)).await?;
        if fleet.manifest_version() != held.manifest || fleet.images().version() != held.catalogue {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
}

/// Somebody may have opened another session since, or this process has never heard of it.
async fn opened_again(fleet: &Fleet, held: &Held) -> Answer<()> {
    let actor = Actor::node(held.me.node_id, correlation_id()).at(held.address);
    session::takes_tasks(&session::check(fleet, &held.me, &actor, held.session).await?)
}

/// What there is for this node and session right now.
async fn work_for(fleet: &Fleet, me: &NodeCaller, session: SessionId) -> Answer<Option<Response>> {
    let answer = task::claim::claim(fleet, me.node_id, me.epoch, session).await?;
    let something = !answer.tasks.is_empty() || !answer.cancel.is_empty();
    Ok(something.then(|| Json(answer).into_response()))
}

/// The version of a document that the node's executor has, if its agent says so.
fn version_of(headers: &HeaderMap, name: &'static str) -> Option<u64> {
    let version: u64 = headers.get(name)?.to_str().ok()?.parse().ok()?;
    i64::try_from(version).is_ok().then_some(version)
}

fn session_of(headers: &HeaderMap) -> Answer<SessionId> {
    let value = headers.get(header::SESSION).ok_or(Code::SessionRequired)?;
    value
        .to_str()
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Code::IdKindMismatch.into())
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
