//! A node played by the test. It holds the keys of an agent and of an executor, enrols over the real listener with
//! the pinned CA, speaks the node protocol over real mutual TLS, and can lie in any field: whatever it sends is built
//! here, honest first, for the test to spoil.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use base::testing::eventually;
use dev::town::Town;
use http::{HeaderName, HeaderValue};
use model::digest::Sha256;
use model::dsse::Envelope;
use model::enrol::EnrolmentToken;
use model::envelope::TaskPayload;
use model::id::{NodeId, SessionId, TaskId};
use model::key::SigningKey;
use model::node_api::{
    CertificateAnswer, CertificateKind, CertificateRequest, EnrolAnswer, EnrolRequest, Facts, Hardware,
    HeartbeatRequest, HeldTask, OfferedTask, PROTOCOL, ResultRequest, SessionRequest, Versions, WaitAnswer, header,
};
use model::outcome::{Outcome, ResultPayload};
use model::time::Timestamp;
use rcgen::{CertificateParams, DistinguishedName, KeyPair, SanType};
use serde::Serialize;
use serde_json::value::RawValue;
use wire::http::{Client, ErrorKind, RequestBuilder, Response};

mod vouch;
pub(crate) use vouch::{Token, x5c};

/// What a host makes before it has ever been heard of.
pub(crate) struct Keys {
    pub(crate) device: KeyPair,
    pub(crate) working: KeyPair,
    pub(crate) result: SigningKey,
}

impl Keys {
    pub(crate) fn new() -> Self {
        Self {
            device: KeyPair::generate().expect("a key"),
            working: KeyPair::generate().expect("a key"),
            result: SigningKey::generate(),
        }
    }

    pub(crate) fn enrol_request(&self, token: &EnrolmentToken) -> EnrolRequest {
        EnrolRequest {
            secret: token.secret.clone(),
            device_csr: csr(&self.device, None),
            working_csr: csr(&self.working, None),
            result_public: self.result.public(),
            simulated: true,
            hardware: Hardware::default(),
            facts: Facts {
                hostname: "puppet".to_owned(),
                ..Facts::default()
            },
            versions: versions(),
        }
    }
}

fn versions() -> Versions {
    Versions {
        agent: "0.1.0".to_owned(),
        executor: "0.1.0".to_owned(),
        protocol: PROTOCOL,
    }
}

/// A certificate request, in a name or in none.
pub(crate) fn csr(key: &KeyPair, uri: Option<&str>) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.subject_alt_names = uri
        .map(|uri| SanType::URI(uri.try_into().expect("ASCII")))
        .into_iter()
        .collect();
    let request = params.serialize_request(key).expect("a request");
    request.pem().expect("PEM")
}

/// The enrolment listener, trusted by nothing but the hash in the token.
pub(crate) fn enrolment_door(token: &EnrolmentToken) -> Client {
    let (tls, _) = wire::tls::pinned_ca_client(token.ca_sha256).expect("TLS");
    Client::builder(&token.url).expect("a URL").tls(tls).build()
}

/// The node-facing listener, with this certificate in hand.
pub(crate) fn node_door(url: &str, chain: &str, key: &KeyPair, ca_bundle: &str) -> Client {
    let chain = wire::pem::certificates(chain).expect("a chain");
    let key = wire::pem::private_key(&key.serialize_pem()).expect("a key");
    let roots = wire::pem::certificates(ca_bundle).expect("CA certificates");
    let tls = wire::tls::client_config(Some((chain, key)), &roots).expect("TLS");
    Client::builder(url).expect("a URL").tls(tls).build()
}

pub(crate) async fn post(client: &Client, path: &str, body: &impl Serialize) -> Response {
    let request = client.post(path).json(body).expect("our own types");
    request.send().await.expect("an answer of ours")
}

pub(crate) async fn get(client: &Client, path: &str) -> Response {
    answered(|| client.get(path)).await
}

/// Asks for something that may be asked twice: a connection can be on its way out when the request is on its way in.
pub(crate) async fn answered<'a>(ask: impl Fn() -> RequestBuilder<'a>) -> Response {
    for _ in 0..8 {
        match ask().send().await {
            Err(error) if error.kind == ErrorKind::Closed => {}
            answer => return answer.expect("an answer of ours"),
        }
    }
    panic!("one connection after the other is closed without an answer")
}

pub(crate) struct Puppet {
    pub(crate) keys: Keys,
    pub(crate) answer: EnrolAnswer,
    pub(crate) session: SessionId,
    /// The enrolment listener.
    pub(crate) outside: Client,
    /// The node-facing listener, by its working certificate.
    pub(crate) inside: Client,
    journal_seq: AtomicU64,
}

impl Puppet {
    /// A node of the town, enrolled; it has said nothing yet.
    pub(crate) async fn enrol(town: &Town, name: &str) -> Self {
        Self::with_token(&town.add_node(name).await.token).await
    }

    /// Let in by a token that somebody else has asked for.
    pub(crate) async fn with_token(token: &str) -> Self {
        Self::claiming(token, |_| {}).await
    }

    /// Let in with something else to say of itself.
    pub(crate) async fn claiming(token: &str, change: impl FnOnce(&mut EnrolRequest)) -> Self {
        let token: EnrolmentToken = token.parse().expect("a token");
        let outside = enrolment_door(&token);
        let keys = Keys::new();
        let mut request = keys.enrol_request(&token);
        change(&mut request);
        let answered = post(&outside, "/internal/v1/enroll", &request).await;
        let answer: EnrolAnswer = answered.json().expect("it is let in");
        let inside = node_door(
            &answer.endpoints.node_api_url,
            &answer.working.chain,
            &keys.working,
            &answer.working.ca_bundle,
        );
        Self {
            keys,
            answer,
            session: SessionId::new(),
            outside,
            inside,
            journal_seq: AtomicU64::new(1),
        }
    }

    /// The same with an open session, so that tasks can be asked of it.
    pub(crate) async fn awake(town: &Town, name: &str) -> Self {
        let puppet = Self::enrol(town, name).await;
        let opened = puppet.post("session", &puppet.session_request()).await;
        assert!(opened.status.is_success(), "{opened:?}");
        puppet
    }

    pub(crate) fn id(&self) -> NodeId {
        self.answer.node_id
    }

    /// The name in its certificates.
    pub(crate) fn uri(&self) -> String {
        let EnrolAnswer {
            installation,
            node_id,
            epoch,
            ..
        } = &self.answer;
        format!("spiffe://{installation}/node/{node_id}/epoch/{epoch}")
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/internal/v1/nodes/{}/{rest}", self.id())
    }

    pub(crate) async fn get(&self, rest: &str) -> Response {
        get(&self.inside, &self.path(rest)).await
    }

    pub(crate) async fn post(&self, rest: &str, body: &impl Serialize) -> Response {
        self.post_in(Some(self.session), rest, body).await
    }

    pub(crate) async fn post_in(&self, session: Option<SessionId>, rest: &str, body: &impl Serialize) -> Response {
        let mut request = self.inside.post(&self.path(rest)).json(body).expect("our own types");
        if let Some(session) = session {
            request = request.header(session_header(), header_value(session));
        }
        request.send().await.expect("an answer of ours")
    }

    pub(crate) fn session_request(&self) -> SessionRequest {
        SessionRequest {
            session_id: self.session,
            boot_id: "boot-1".to_owned(),
            hardware: Hardware::default(),
            versions: versions(),
            simulated: true,
            task_types: model::task::announced(),
            manifest_version: 1,
        }
    }

    /// One wait; nothing offered is an empty list.
    pub(crate) async fn wait(&self) -> Vec<OfferedTask> {
        let request = self.inside.get(&self.path("tasks/wait"));
        let request = request.header(session_header(), header_value(self.session));
        let answer = request.send().await.expect("an answer of ours");
        assert!(answer.status.is_success(), "{answer:?}");
        if answer.body.is_empty() {
            return Vec::new();
        }
        answer.json::<WaitAnswer>().expect("a wait's answer").tasks
    }

    /// Waits until something is offered, and has it.
    pub(crate) async fn claim(&self) -> OfferedTask {
        eventually("a task is offered", async || self.wait().await.pop().ok_or("nothing")).await
    }

    pub(crate) fn heartbeat(&self, task: &OfferedTask, started_at: Option<Timestamp>) -> HeartbeatRequest {
        HeartbeatRequest {
            tasks: vec![HeldTask {
                task_id: task.task_id,
                fence: task.fence,
                phase: "probe".to_owned(),
                started_at,
                progress: None,
            }],
            results_pending: 0,
            disk: None,
            trouble: None,
        }
    }

    /// What an honest executor would sign once it has done this task.
    pub(crate) fn result(&self, task: &OfferedTask, now: Timestamp) -> ResultPayload {
        let bytes = task.envelope.payload_unverified().expect("base64");
        let signed: TaskPayload = model::dsse::parse_payload(&bytes).expect("a task");
        ResultPayload {
            aud: self.answer.installation,
            task_id: task.task_id,
            op_id: Some(signed.op_id),
            node_id: self.id(),
            node_epoch: self.answer.epoch,
            payload_sha256: Sha256::of(&bytes),
            outcome: Outcome::Succeeded,
            code: None,
            detail: None,
            started_at: Some(now),
            ended_at: now,
            journal_seq: self.journal_seq.fetch_add(1, Ordering::SeqCst),
            timings: BTreeMap::new(),
            undone: Vec::new(),
            proofs: None,
            output: Some(RawValue::from_string(PROBED.to_owned()).expect("JSON")),
        }
    }

    pub(crate) async fn land(&self, task: TaskId, fence: u64, envelope: Envelope) -> Response {
        self.post(&format!("tasks/{task}/result"), &ResultRequest { fence, envelope })
            .await
    }

    /// An honest renewal token for this request, ready to be spoilt.
    pub(crate) fn token(&self, csr_pem: &str, now: Timestamp) -> Token {
        Token::new(
            &self.answer.device_chain,
            csr_pem,
            &self.answer.token_audiences,
            &self.uri(),
            now,
        )
    }

    /// Asks for a certificate of `node`, whoever that is.
    pub(crate) async fn renew(&self, node: NodeId, kind: CertificateKind, csr: &str, token: String) -> Response {
        let request = CertificateRequest {
            kind,
            csr: csr.to_owned(),
            token,
            generation: 1,
        };
        post(
            &self.outside,
            &format!("/internal/v1/nodes/{node}/certificates"),
            &request,
        )
        .await
    }

    /// Asks for a certificate of its own, from the generation that it says it holds.
    pub(crate) async fn renew_from(
        &self,
        generation: u64,
        kind: CertificateKind,
        csr: &str,
        token: String,
    ) -> Response {
        let request = CertificateRequest {
            kind,
            csr: csr.to_owned(),
            token,
            generation,
        };
        post(&self.outside, &self.path("certificates"), &request).await
    }

    /// From now on with this certificate.
    pub(crate) fn wears(&mut self, working: &CertificateAnswer, key: KeyPair) {
        let url = &self.answer.endpoints.node_api_url;
        self.inside = node_door(url, &working.chain, &key, &working.ca_bundle);
        self.keys.working = key;
        self.answer.working = working.clone();
    }

    /// Everything that it holds, in a second pair of hands; with a session of its own.
    pub(crate) fn copied(&self) -> Self {
        let again = |key: &KeyPair| KeyPair::from_pem(&key.serialize_pem()).expect("a key");
        let keys = Keys {
            device: again(&self.keys.device),
            working: again(&self.keys.working),
            result: self.keys.result.clone(),
        };
        let (answer, working) = (self.answer.clone(), &self.answer.working);
        let url = &self.answer.endpoints.node_api_url;
        Self {
            inside: node_door(url, &working.chain, &keys.working, &working.ca_bundle),
            outside: self.outside.clone(),
            session: SessionId::new(),
            journal_seq: AtomicU64::new(1),
            keys,
            answer,
        }
    }
}

const PROBED: &str = r#"{"kernel_version":"6.1","free_memory_mib":1,"kvm_present":false,"vfio_modules":[],"gpus":[],
"fabric_links":[],"root_free_bytes":1,"state_writable":true,"journal_used_pct":0,"clock_skew_ms":0}"#;

fn session_header() -> HeaderName {
    HeaderName::from_static(header::SESSION)
}

fn header_value(session: SessionId) -> HeaderValue {
    HeaderValue::from_str(&session.to_string()).expect("ASCII")
}
