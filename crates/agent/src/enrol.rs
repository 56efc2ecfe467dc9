//! From a handoff file to an identity. The working key is kept before the first call, so that a repeat after any
//! crash asks for the same thing with the same keys and gets the same answer. First contact trusts one hash and
//! nothing else; a development CA is refused by a machine that is real.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::digest::Sha256;
use model::enrol::EnrolmentToken;
use model::id::SessionId;
use model::node_api::{EnrolAnswer, EnrolRequest, PROTOCOL, Versions};
use model::signal::Code;
use model::socket::{Enrolled, EnrolmentKeys};
use rcgen::KeyPair;
use wire::http::Client;
use wire::stop::Stop;
use wire::tls::{PinnedCa, common_name, pinned_ca_client};

use crate::api::{Api, CallError, Overrides, accepted};
use crate::clock::Clock;
use crate::executor::{Executor, ExecutorError};
use crate::identity::{Certificate, Enrolling, Identity, Slots};
use crate::pace::Pace;
use crate::{VERSION, renew};

const HANDOFF: &str = "enrolment";
const DEV_CA: &str = "gpuaas DEV CA";

#[derive(Debug, thiserror::Error)]
enum EnrolError {
    /// Trying again cannot help: a new token is needed.
    #[error("refused: {0}")]
    Final(Code),
    #[error("control plane")]
    Call(#[from] CallError),
    #[error("executor")]
    Executor(#[from] ExecutorError),
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

pub(crate) struct Enrolment<'a> {
    pub(crate) executor: &'a Executor,
    pub(crate) slots: &'a Arc<Slots>,
    pub(crate) clock: &'a Clock,
    pub(crate) pace: &'a Pace,
}

impl Enrolment<'_> {
    /// Waits for handoffs and follows them. True: there is a new identity; false: stopped.
    pub(crate) async fn watch(&self, stop: &Stop) -> bool {
        let mut backoff = self.pace.backoff();
        loop {
            let pause = match stop.or(self.look()).await {
                None => return false,
                Some(Ok(true)) => return true,
                Some(Ok(false)) => self.pace.handoff,
                Some(Err(error)) => {
                    tracing::warn!(%error, reason = why(&error), "not enrolled yet");
                    backoff.draw()
                }
            };
            if stop.or(tokio::time::sleep(pause)).await.is_none() {
                return false;
            }
        }
    }

    /// One look at the handoff, and the whole enrolment if there is one.
    async fn look(&self) -> Result<bool, EnrolError> {
        let path = self.slots.dir().join(HANDOFF);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            read => read.map_err(anyhow::Error::from)?,
        };
        let token_sha256 = Sha256::of(text.trim().as_bytes());
        if self
            .slots
            .kept()
            .identity
            .is_some_and(|identity| identity.token_sha256 == token_sha256)
        {
            // Followed before; we were killed just before tidying up.
            remove(&path)?;
            return Ok(false);
        }
        let outcome = match text.parse::<EnrolmentToken>() {
            Ok(token) => self.follow(&token, token_sha256).await,
            Err(_) => Err(EnrolError::Final(Code::EnrollTokenInvalid)),
        };
        match outcome {
            Ok(()) => {
                remove(&path)?;
                Ok(true)
            }
            Err(EnrolError::Final(code)) => {
                tracing::error!(%code, recovery = code.recovery(), "enrolment refused; a new token is needed");
                remove(&path)?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn follow(&self, token: &EnrolmentToken, token_sha256: Sha256) -> Result<(), EnrolError> {
        self.executor.connected().await;
        let keys = self.executor.enrol_keys().await?;
        if token.dev && !keys.simulated {
            return Err(EnrolError::Final(Code::DevCaRefused));
        }
        let working_key = self.working_key(token_sha256).await?;
        let key = KeyPair::from_pem(&working_key).map_err(anyhow::Error::from)?;
        let simulated = keys.simulated;
        let request = request(token, keys, renew::csr(&key, None).map_err(anyhow::Error::from)?);
        let answer = self.call(token, simulated, &request).await?;
        let name = format!("{}/{}", answer.node_id, answer.epoch);
        let (identity, enrolled) = self.split(answer, working_key, token_sha256);
        // Nothing is told or kept that could not be used afterwards.
        Api::new(
            identity.clone(),
            Overrides::default(),
            SessionId::new(),
            self.clock.clone(),
        )
        .map_err(anyhow::Error::from)?;
        // The executor first: an identity that it does not share would claim tasks nobody can run.
        match self.executor.enrolled(enrolled).await {
            Err(ExecutorError::Refused {
                code: code @ Code::RootMismatch,
                ..
            }) => return Err(EnrolError::Final(code)),
            done => done?,
        }
        self.keep(move |kept| {
            *kept = crate::identity::Kept {
                identity: Some(identity),
                enrolling: None,
            }
        })
        .await?;
        tracing::info!(node = name, "enrolled");
        Ok(())
    }

    /// The key of this enrolment: the one of an earlier attempt with the same token, or a new one, kept first.
    async fn working_key(&self, token_sha256: Sha256) -> Result<String, EnrolError> {
        if let Some(enrolling) = self
            .slots
            .kept()
            .enrolling
            .filter(|enrolling| enrolling.token_sha256 == token_sha256)
        {
            return Ok(enrolling.working_key);
        }
        let working_key = KeyPair::generate().map_err(anyhow::Error::from)?.serialize_pem();
        let enrolling = Enrolling {
            token_sha256,
            working_key: working_key.clone(),
        };
        self.keep(move |kept| kept.enrolling = Some(enrolling)).await?;
        Ok(working_key)
    }

    async fn call(
        &self,
        token: &EnrolmentToken,
        simulated: bool,
        request: &EnrolRequest,
    ) -> Result<EnrolAnswer, EnrolError> {
        let (tls, pinned) = pinned_ca_client(token.ca_sha256).map_err(anyhow::Error::from)?;
        let client = Client::builder(&token.url)
            .map_err(CallError::from)?
            .tls(tls)
            .timeout(Duration::from_secs(30))
            .build();
        if !simulated {
            // Before the secret leaves this machine: any answer shows whose CA it is.
            client.get("/healthz").send().await.map(drop).or_else(|error| {
                if pinned.certificate().is_some() {
                    Ok(())
                } else {
                    Err(CallError::from(error))
                }
            })?;
            refuse_dev(&pinned)?;
        }
        let post = client
            .post("/internal/v1/enroll")
            .json(request)
            .map_err(CallError::from)?;
        let response = post.send().await.map_err(CallError::from)?;
        match accepted(response) {
            Ok(response) => Ok(response.json().map_err(CallError::from)?),
            Err(CallError::Refused { code: Some(code), .. }) if is_final(code) => Err(EnrolError::Final(code)),
            Err(error) => Err(error.into()),
        }
    }

    fn split(&self, answer: EnrolAnswer, working_key: String, token_sha256: Sha256) -> (Identity, Enrolled) {
        let received_at = self.clock.now();
        let identity = Identity {
            installation: answer.installation,
            node_id: answer.node_id,
            epoch: answer.epoch,
            working_key,
            working: Certificate {
                chain: answer.working.chain,
                generation: answer.working.generation,
                received_at,
            },
            device: Certificate {
                chain: answer.device_chain.clone(),
                generation: 1,
                received_at,
            },
            ca_bundle: answer.working.ca_bundle,
            endpoints: answer.endpoints,
            token_sha256,
        };
        let enrolled = Enrolled {
            installation: answer.installation,
            node_id: answer.node_id,
            epoch: answer.epoch,
            device_chain: answer.device_chain,
            token_audiences: answer.token_audiences,
            bundle: answer.bundle,
        };
        (identity, enrolled)
    }

    async fn keep(&self, change: impl FnOnce(&mut crate::identity::Kept) + Send + 'static) -> Result<(), EnrolError> {
        let slots = Arc::clone(self.slots);
        let kept = tokio::task::spawn_blocking(move || slots.change(change))
            .await
            .map_err(anyhow::Error::from)?;
        Ok(kept.map_err(anyhow::Error::from)?)
    }
}

fn request(token: &EnrolmentToken, keys: EnrolmentKeys, working_csr: String) -> EnrolRequest {
    EnrolRequest {
        secret: token.secret.clone(),
        device_csr: keys.device_csr,
        working_csr,
        result_public: keys.result_public,
        simulated: keys.simulated,
        hardware: keys.hardware,
        facts: keys.facts,
        versions: Versions {
            agent: VERSION.to_owned(),
            executor: keys.version,
            protocol: PROTOCOL,
        },
    }
}

/// The keys of a development CA lie around; whoever finds them could be any server to this machine.
fn refuse_dev(pinned: &PinnedCa) -> Result<(), EnrolError> {
    let name = pinned.certificate().and_then(common_name);
    match name.as_deref() {
        Some(DEV_CA) => Err(EnrolError::Final(Code::DevCaRefused)),
        Some(_) | None => Ok(()),
    }
}

/// The token or this machine is the reason, and both will be the same next time.
fn is_final(code: Code) -> bool {
    matches!(
        code,
        Code::EnrollTokenUsed
            | Code::EnrollTokenExpired
            | Code::EnrollTokenInvalid
            | Code::HardwareMismatch
            | Code::SimulatedNodeRefused
            | Code::DevCaRefused
            | Code::AgentIncompatible
            | Code::NodeRemoved
            | Code::CsrInvalid
    )
}

fn remove(path: &Path) -> Result<(), EnrolError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(anyhow::Error::from(error).into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn why(error: &EnrolError) -> String {
    match error {
        EnrolError::Final(code) => code.to_string(),
        EnrolError::Call(error) => error.word(),
        EnrolError::Executor(ExecutorError::Refused { code, .. }) => code.to_string(),
        EnrolError::Executor(_) => Code::ExecutorUnreachable.to_string(),
        EnrolError::Other(error) => format!("{error:#}"),
    }
}
