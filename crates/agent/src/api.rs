//! The node-facing API as the agent calls it: one method per route. The certificate is looked up when a connection
//! is made, so a renewal needs no restart; every answer tells the server's time, which is remembered.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use model::digest::Sha256;
use model::dsse::Envelope;
use model::id::{SessionId, TaskId};
use model::node_api::{
    CertificateAnswer, CertificateRequest, HeartbeatAnswer, HeartbeatRequest, NodeProbe, PingAnswer, ResultAnswer,
    ResultRequest, SessionAnswer, SessionRequest, WaitAnswer, header,
};
use model::signal::Code;
use model::telemetry::TelemetryRequest;
use model::time::Timestamp;
use model::trust::Bundle;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::http::{Client, Error, ErrorKind, RequestBuilder, Response};
use wire::tls::{TlsError, client_config};

use crate::clock::Clock;
use crate::identity::Identity;

/// Envelopes are at most 256 KiB, and a wait may bring several.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("no answer")]
    Transport(#[from] Error),
    #[error("refused with {status}{}", code.map(|code| format!(" {code}")).unwrap_or_default())]
    Refused {
        status: u16,
        code: Option<Code>,
        server_time: Option<Timestamp>,
        retry_after_s: Option<u32>,
    },
}

impl CallError {
    /// Could another certificate have made a difference?
    fn may_be_the_certificate(&self) -> bool {
        match self {
            Self::Transport(error) => matches!(
                error.kind,
                ErrorKind::Closed | ErrorKind::CertExpired | ErrorKind::CertRevoked | ErrorKind::CertUntrusted
            ),
            Self::Refused { code, .. } => {
                matches!(code, Some(Code::CertExpired | Code::CertRevoked | Code::CertUnknown))
            }
        }
    }

    /// The stable word for logs and probes.
    pub fn word(&self) -> String {
        match self {
            Self::Transport(error) => error.kind.to_string(),
            Self::Refused { code: Some(code), .. } => code.to_string(),
            Self::Refused { status, .. } => format!("http_{status}"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error("the kept keys and certificates cannot be used")]
    Tls(#[from] TlsError),
    #[error("the kept keys and certificates cannot be read")]
    Pem(#[from] wire::pem::PemError),
    #[error("the kept addresses cannot be used")]
    Address(#[from] Error),
}

/// Where to call instead of what enrolment said.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    pub api_url: Option<String>,
    pub api_resolve: Option<String>,
}

/// What came with an answer besides its body.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    pub server_time: Option<Timestamp>,
    pub manifest_version: Option<u64>,
    pub catalogue_version: Option<u64>,
}

/// The versions of the documents that the executor has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    pub manifest: Option<u64>,
    pub catalogue: Option<u64>,
}

#[derive(Debug)]
pub struct Api {
    current: RwLock<Arc<Calls>>,
    overrides: Overrides,
    session: SessionId,
    clock: Clock,
    /// Server's clock minus ours, as last heard.
    offset_ms: AtomicI64,
}

#[derive(Debug)]
struct Calls {
    identity: Identity,
    node: Client,
    enrol: Client,
}

impl Api {
    pub fn new(identity: Identity, overrides: Overrides, session: SessionId, clock: Clock) -> Result<Self, ApiError> {
        let current = RwLock::new(Arc::new(calls(identity, &overrides)?));
        Ok(Self {
            current,
            overrides,
            session,
            clock,
            offset_ms: AtomicI64::new(0),
        })
    }

    /// From now on in this identity. Requests under way finish in the old one, or are asked again in this one.
    pub fn replace(&self, identity: Identity) -> Result<(), ApiError> {
        let fresh = Arc::new(calls(identity, &self.overrides)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// Could we call in this identity? Asked before it is kept: what cannot be used must not be all we have.
    pub fn usable(&self, identity: &Identity) -> Result<(), ApiError> {
        calls(identity.clone(), &self.overrides).map(drop)
    }

    pub fn identity(&self) -> Identity {
        self.calls().identity.clone()
    }

    pub fn url(&self) -> String {
        self.calls().node.base().to_owned()
    }

    pub fn session_id(&self) -> SessionId {
        self.session
    }

    /// The server's time as far as we know it.
    pub fn server_time(&self) -> Timestamp {
        self.clock.now().plus_ms(self.offset_ms.load(Ordering::Relaxed))
    }

    pub async fn ping(&self) -> Result<PingAnswer, CallError> {
        self.answer(|calls| Ok(calls.get("ping").timeout(Duration::from_secs(10))))
            .await
    }

    pub async fn session(&self, request: &SessionRequest) -> Result<SessionAnswer, CallError> {
        self.post("session", request).await
    }

    /// None: nothing to do within the time it was held. A document that is newer than what is known ends the wait.
    pub async fn wait(&self, timeout: Duration, known: Known) -> Result<(Option<WaitAnswer>, Meta), CallError> {
        let (response, meta) = self
            .ask(|calls| {
                let mut request = self.in_session(calls.get("tasks/wait")).timeout(timeout);
                for (name, version) in [(header::MANIFEST, known.manifest), (header::CATALOGUE, known.catalogue)] {
                    if let Some(version) = version {
                        request = request.header(HeaderName::from_static(name), HeaderValue::from(version));
                    }
                }
                Ok(request)
            })
            .await?;
        let answer = if response.status == 204 {
            None
        } else {
            Some(response.json()?)
        };
        Ok((answer, meta))
    }

    pub async fn heartbeat(&self, request: &HeartbeatRequest) -> Result<HeartbeatAnswer, CallError> {
        self.post("heartbeat", request).await
    }

    pub async fn result(&self, task_id: TaskId, request: &ResultRequest) -> Result<ResultAnswer, CallError> {
        self.post(&format!("tasks/{task_id}/result"), request).await
    }

    pub async fn trust(&self) -> Result<Bundle, CallError> {
        self.answer(|calls| Ok(calls.get("trust"))).await
    }

    pub async fn catalogue(&self) -> Result<Envelope, CallError> {
        self.answer(|calls| Ok(calls.get("catalogue"))).await
    }

    /// A piece of an image, from this byte on.
    pub async fn image(&self, sha256: &Sha256, offset: u64, within: Duration) -> Result<Vec<u8>, CallError> {
        let route = format!("images/{sha256}?offset={offset}");
        let (response, _) = self.ask(|calls| Ok(calls.get(&route).timeout(within))).await?;
        Ok(response.body.to_vec())
    }

    pub async fn self_probe(&self, probe: &NodeProbe) -> Result<(), CallError> {
        self.ask(|calls| self.in_session(calls.post("self-probe")).json(probe))
            .await
            .map(drop)
    }

    pub async fn telemetry(&self, request: &TelemetryRequest) -> Result<(), CallError> {
        self.ask(|calls| self.in_session(calls.post("telemetry")).json(request))
            .await
            .map(drop)
    }

    /// On the enrolment listener: the token in the request is the identity there.
    pub async fn certificate(&self, request: &CertificateRequest) -> Result<CertificateAnswer, CallError> {
        let calls = self.calls();
        let request = calls.enrol.post(&calls.path("certificates")).json(request)?;
        Ok(self.send(request).await?.0.json()?)
    }

    async fn post<B: Serialize, A: DeserializeOwned>(&self, route: &str, body: &B) -> Result<A, CallError> {
        self.answer(|calls| self.in_session(calls.post(route)).json(body)).await
    }

    async fn answer<A: DeserializeOwned>(
        &self,
        ask: impl Fn(&Calls) -> Result<RequestBuilder<'_>, Error>,
    ) -> Result<A, CallError> {
        Ok(self.ask(ask).await?.0.json()?)
    }

    /// Every request of ours may be asked twice. One that failed with its certificate is asked again at once if there
    /// is a newer one by now: a renewal fails nothing, however long a request was under way.
    async fn ask(
        &self,
        ask: impl Fn(&Calls) -> Result<RequestBuilder<'_>, Error>,
    ) -> Result<(Response, Meta), CallError> {
        let calls = self.calls();
        let answer = self.send(ask(&calls)?).await;
        let newer = self.calls();
        match answer {
            Err(error) if error.may_be_the_certificate() && !Arc::ptr_eq(&calls, &newer) => {
                tracing::debug!(reason = error.word(), "asked again with the new certificate");
                self.send(ask(&newer)?).await
            }
            answer => answer,
        }
    }

    async fn send(&self, request: RequestBuilder<'_>) -> Result<(Response, Meta), CallError> {
        let response = request.send().await?;
        let meta = Meta {
            server_time: response.server_time(),
            manifest_version: response.manifest_version(),
            catalogue_version: response.catalogue_version(),
        };
        if let Some(server_time) = meta.server_time {
            self.offset_ms
                .store(server_time.since_ms(self.clock.now()), Ordering::Relaxed);
        }
        accepted(response).map(|response| (response, meta))
    }

    fn in_session<'a>(&self, request: RequestBuilder<'a>) -> RequestBuilder<'a> {
        let value = HeaderValue::try_from(self.session.to_string()).expect("ids are ASCII");
        request.header(HeaderName::from_static(header::SESSION), value)
    }

    fn calls(&self) -> Arc<Calls> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A success, or the refusal that the answer is.
pub(crate) fn accepted(response: Response) -> Result<Response, CallError> {
    if response.status.is_success() {
        return Ok(response);
    }
    let error = response.error();
    // A clock that is too far off is told the right time in the body as well.
    let told = error
        .as_ref()
        .and_then(|error| error.details.get("server_time")?.as_str()?.parse().ok());
    Err(CallError::Refused {
        status: response.status.as_u16(),
        code: error.as_ref().map(|error| error.code),
        server_time: told.or_else(|| response.server_time()),
        retry_after_s: error.and_then(|error| error.retry_after_s),
    })
}

impl Calls {
    fn path(&self, route: &str) -> String {
        format!("/internal/v1/nodes/{}/{route}", self.identity.node_id)
    }

    fn get(&self, route: &str) -> RequestBuilder<'_> {
        self.node.get(&self.path(route))
    }

    fn post(&self, route: &str) -> RequestBuilder<'_> {
        self.node.post(&self.path(route))
    }
}

fn calls(identity: Identity, overrides: &Overrides) -> Result<Calls, ApiError> {
    let roots = wire::pem::certificates(&identity.ca_bundle)?;
    let chain = wire::pem::certificates(&identity.working.chain)?;
    let key = wire::pem::private_key(&identity.working_key)?;
    let endpoints = &identity.endpoints;
    let url = overrides.api_url.as_deref().unwrap_or(&endpoints.node_api_url);
    let resolve = overrides
        .api_resolve
        .as_deref()
        .or(endpoints.node_api_resolve.as_deref());
    let node = Client::builder(url)?
        .resolve(resolve.filter(|address| !address.is_empty()))?
        .tls(client_config(Some((chain, key)), &roots)?)
        .max_body(MAX_ANSWER)
        .build();
    let enrol = Client::builder(&endpoints.enrol_url)?
        .tls(client_config(None, &roots)?)
        .build();
    Ok(Calls { node, enrol, identity })
}
