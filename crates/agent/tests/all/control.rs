//! A control plane played by the test: the enrolment listener and the node listener with mutual TLS, a queue of
//! tasks, and a few ways to misbehave.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use agent::Clock;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use model::dsse;
use model::enrol::EnrolmentToken;
use model::id::{InstallationId, NodeId, TaskId};
use model::key::SigningKey;
use model::node_api::{
    CertificateAnswer, CertificateRequest, Endpoints, EnrolAnswer, EnrolRequest, ErrorAnswer, ErrorBody,
    HeartbeatAnswer, HeartbeatRequest, NodeProbe, OfferedTask, PingAnswer, ResultAnswer, ResultRequest, SessionAnswer,
    SessionRequest, WaitAnswer,
};
use model::signal::Code;
use model::time::Timestamp;
use model::trust::Bundle;
use rcgen::CertificateSigningRequestParams;
use rcgen::PublicKeyData;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use wire::serve::{Limits, Peer, serve};
use wire::spiffe::Spiffe;
use wire::stop::Stop;
use wire::tls::server_config;

use crate::journal::Journal;
use crate::pki::Ca;

pub(crate) struct Control {
    pub(crate) journal: Journal,
    pub(crate) ca: Ca,
    pub(crate) node_id: NodeId,
    installation: InstallationId,
    knobs: Mutex<Knobs>,
    queued: Notify,
    node_url: String,
    enrol_url: String,
    stop: Stop,
    clock: Clock,
}

/// What a test may turn.
pub(crate) struct Knobs {
    /// How long certificates live from now; negative ones have lapsed.
    pub(crate) life_ms: i64,
    /// Enrolments whose answer is lost.
    pub(crate) lose_enrolments: u32,
    /// Renewals that are told that their clock is wrong.
    pub(crate) skew: u32,
    /// Renewals whose answer is of no use.
    pub(crate) spoil: u32,
    /// Answers to results before the good one.
    pub(crate) results: VecDeque<u16>,
    pub(crate) manifest: u64,
    pub(crate) superseded: bool,
    tasks: Vec<OfferedTask>,
    generation: u64,
    sessions: bool,
}

type Town = State<Arc<Control>>;

impl Control {
    pub(crate) async fn start(ca_name: &str) -> Arc<Self> {
        let ca = Ca::new(ca_name);
        let (node, enrol) = (bind().await, bind().await);
        let url = |listener: &TcpListener| format!("https://{}", listener.local_addr().expect("address"));
        let control = Arc::new(Self {
            journal: Journal::default(),
            node_id: NodeId::new(),
            installation: InstallationId::new(),
            knobs: Mutex::new(Knobs {
                life_ms: 86_400_000,
                lose_enrolments: 0,
                spoil: 0,
                skew: 0,
                results: VecDeque::new(),
                manifest: 1,
                superseded: false,
                tasks: Vec::new(),
                generation: 0,
                sessions: false,
            }),
            queued: Notify::new(),
            node_url: url(&node),
            enrol_url: url(&enrol),
            stop: Stop::new(),
            clock: Clock::real(),
            ca,
        });
        let (chain, key) = control.ca.server();
        let tls = server_config(chain, key, Some(std::slice::from_ref(&control.ca.der))).expect("server");
        let limits = Limits {
            drain: Duration::from_millis(10),
            ..Limits::default()
        };
        tokio::spawn(serve(
            node,
            Some(tls),
            control.node_routes(),
            limits,
            control.stop.clone(),
        ));
        let (chain, key) = control.ca.server();
        let tls = server_config(chain, key, None).expect("server");
        tokio::spawn(serve(
            enrol,
            Some(tls),
            control.enrol_routes(),
            limits,
            control.stop.clone(),
        ));
        control
    }

    pub(crate) fn token(&self) -> String {
        EnrolmentToken {
            url: self.enrol_url.clone(),
            ca_sha256: self.ca.sha256(),
            root_sha256: self.ca.sha256(),
            secret: NodeId::new().to_string(),
            dev: false,
        }
        .to_text()
    }

    pub(crate) fn knobs(&self) -> MutexGuard<'_, Knobs> {
        self.knobs.lock().expect("knobs")
    }

    pub(crate) fn queue(&self, task_type: &str) -> TaskId {
        let task_id = TaskId::new();
        let payload = format!("{{\"task_type\":\"{task_type}\"}}");
        let envelope = dsse::sign("test/task", payload.as_bytes(), &[&SigningKey::generate()]);
        self.knobs().tasks.push(OfferedTask {
            task_id,
            fence: 9,
            lease_s: 60,
            envelope,
        });
        self.queued.notify_waiters();
        task_id
    }

    fn node_routes(self: &Arc<Self>) -> Router {
        let nodes = Router::new()
            .route("/ping", get(ping))
            .route("/session", post(session))
            .route("/tasks/wait", get(wait))
            .route("/heartbeat", post(heartbeat))
            .route("/tasks/{task_id}/result", post(result))
            .route("/trust", get(trust))
            .route("/self-probe", post(self_probe));
        self.signed(Router::new().nest("/internal/v1/nodes/{id}", nodes))
    }

    fn enrol_routes(self: &Arc<Self>) -> Router {
        let routes = Router::new()
            .route("/internal/v1/enroll", post(enroll))
            .route("/internal/v1/nodes/{id}/certificates", post(certificates));
        self.signed(routes)
    }

    /// Every answer says that it is ours, what time it is and which manifest is the newest.
    fn signed(self: &Arc<Self>, routes: Router<Arc<Control>>) -> Router {
        let control = self.clone();
        let sign = move |mut response: Response| {
            let headers = [
                ("gpuaas-service", "api".to_owned()),
                ("gpuaas-time", control.clock.now().to_string()),
                ("gpuaas-manifest", control.knobs().manifest.to_string()),
            ];
            for (name, value) in headers {
                response.headers_mut().insert(name, value.parse().expect("header"));
            }
            std::future::ready(response)
        };
        let routes: Router = routes.with_state(self.clone());
        let sign = Arc::new(sign);
        routes.layer(axum::middleware::map_response(move |response: Response| sign(response)))
    }

    fn name(&self) -> Spiffe {
        Spiffe::Node {
            installation: self.installation,
            node_id: self.node_id,
            epoch: 1,
        }
    }

    fn certificate(&self, csr: &str) -> CertificateAnswer {
        let (life_ms, generation) = {
            let mut knobs = self.knobs();
            knobs.generation += 1;
            (knobs.life_ms, knobs.generation)
        };
        // A lapsed one was issued long ago; x509 counts in seconds.
        let now = self.clock.now();
        let (from, life) = match u64::try_from(life_ms) {
            Ok(life_ms) => (now, Duration::from_millis(life_ms)),
            Err(_) => (now.plus_s(-3600), Duration::from_millis((3_600_000 + life_ms) as u64)),
        };
        let chain = self.ca.sign(csr, &self.name(), from, life);
        CertificateAnswer {
            chain,
            ca_bundle: self.ca.pem(),
            generation,
            not_after: now.plus_ms(life_ms),
        }
    }

    fn bundle(&self) -> Bundle {
        let envelope = dsse::sign("test/trust", b"{}", &[&SigningKey::generate()]);
        Bundle {
            delegation: envelope.clone(),
            manifest: envelope,
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.trigger();
    }
}

async fn bind() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("bind")
}

fn refuse(code: Code, status: u16, details: serde_json::Value) -> Response {
    let error = ErrorBody {
        code,
        message: String::new(),
        hint: None,
        correlation_id: String::new(),
        details,
        retry_after_s: None,
    };
    (
        StatusCode::from_u16(status).expect("status"),
        Json(ErrorAnswer { error }),
    )
        .into_response()
}

async fn enroll(State(town): Town, Json(request): Json<EnrolRequest>) -> Response {
    let key = CertificateSigningRequestParams::from_pem(&request.working_csr)
        .expect("request")
        .public_key;
    town.journal
        .note(format!("enroll {:?}", model::digest::Sha256::of(key.der_bytes())));
    let lost = {
        let mut knobs = town.knobs();
        let lost = knobs.lose_enrolments > 0;
        knobs.lose_enrolments = knobs.lose_enrolments.saturating_sub(1);
        lost
    };
    if lost {
        return refuse(Code::Unavailable, 503, serde_json::Value::Null);
    }
    Json(EnrolAnswer {
        installation: town.installation,
        node_id: town.node_id,
        epoch: 1,
        device_chain: town.ca.sign(
            &request.device_csr,
            &town.name(),
            town.clock.now(),
            Duration::from_secs(365 * 86_400),
        ),
        working: town.certificate(&request.working_csr),
        bundle: town.bundle(),
        endpoints: Endpoints {
            node_api_url: town.node_url.clone(),
            node_api_resolve: None,
            enrol_url: town.enrol_url.clone(),
        },
        token_audiences: vec!["gpuaas".to_owned()],
    })
    .into_response()
}

async fn certificates(State(town): Town, Json(request): Json<CertificateRequest>) -> Response {
    let told = town.clock.now().plus_s(600);
    let skewed = {
        let mut knobs = town.knobs();
        let skewed = knobs.skew > 0;
        knobs.skew = knobs.skew.saturating_sub(1);
        skewed
    };
    if skewed {
        town.journal.note("renewal skewed");
        return refuse(
            Code::ClockSkew,
            401,
            serde_json::json!({ "server_time": told.to_string() }),
        );
    }
    // The played executor's token is the time that it was asked to use.
    let used: Timestamp = request.token.parse().expect("time");
    let told = used.since_ms(town.clock.now()) > 300_000;
    town.journal.note(format!(
        "renewal generation {}{}",
        request.generation,
        if told { " as told" } else { "" }
    ));
    let mut answer = town.certificate(&request.csr);
    let mut knobs = town.knobs();
    if knobs.spoil > 0 {
        knobs.spoil -= 1;
        town.journal.note("renewal spoiled");
        answer.ca_bundle = "no certificate of anybody".to_owned();
    }
    Json(answer).into_response()
}

async fn ping(State(town): Town, Extension(peer): Extension<Peer>) -> Json<PingAnswer> {
    town.journal.note("ping");
    let certificate = peer.certificate.expect("mutual TLS");
    assert_eq!(certificate.spiffe, Some(town.name()));
    let (serial, not_after) = (certificate.serial.clone(), certificate.not_after);
    Json(PingAnswer {
        node_id: town.node_id,
        epoch: 1,
        serial: serial.to_string(),
        not_after,
    })
}

async fn session(State(town): Town, Json(request): Json<SessionRequest>) -> Json<SessionAnswer> {
    town.journal.note("session");
    town.knobs().sessions = true;
    Json(SessionAnswer {
        session_id: request.session_id,
        protocol: 1,
        heartbeat_s: 1,
        self_probe_s: 60,
    })
}

async fn wait(State(town): Town, headers: HeaderMap) -> Response {
    assert!(headers.contains_key("gpuaas-session"));
    if town.knobs().superseded {
        town.journal.note("wait superseded");
        return refuse(Code::SessionSuperseded, 409, serde_json::Value::Null);
    }
    if !town.knobs().sessions {
        return refuse(Code::SessionRequired, 428, serde_json::Value::Null);
    }
    town.journal.note("wait");
    let queued = town.queued.notified();
    tokio::pin!(queued);
    queued.as_mut().enable();
    if town.knobs().tasks.is_empty() {
        tokio::time::timeout(Duration::from_millis(600), queued).await.ok();
    }
    let tasks = std::mem::take(&mut town.knobs().tasks);
    if tasks.is_empty() {
        return StatusCode::NO_CONTENT.into_response();
    }
    Json(WaitAnswer { tasks, cancel: vec![] }).into_response()
}

async fn heartbeat(State(town): Town, Json(request): Json<HeartbeatRequest>) -> Json<HeartbeatAnswer> {
    for task in request.tasks {
        town.journal.note(format!("heartbeat {}", task.task_id));
    }
    Json(HeartbeatAnswer { cancel: vec![] })
}

async fn result(
    State(town): Town,
    Path((_, task_id)): Path<(NodeId, TaskId)>,
    Json(request): Json<ResultRequest>,
) -> Response {
    assert_eq!(request.fence, 9);
    let status = town.knobs().results.pop_front().unwrap_or(200);
    town.journal.note(format!("result {task_id} {status}"));
    match status {
        200 => Json(ResultAnswer { duplicate: false }).into_response(),
        status => refuse(Code::ResultConflict, status, serde_json::Value::Null),
    }
}

async fn trust(State(town): Town) -> Json<Bundle> {
    town.journal.note("trust");
    Json(town.bundle())
}

async fn self_probe(State(town): Town, Json(probe): Json<NodeProbe>) -> StatusCode {
    town.journal.note(format!("probe ok={}", probe.api.ok));
    StatusCode::NO_CONTENT
}
