//! A process of ours that runs apart from the api. It holds no signing key: it asks the api for tasks, in its own name
//! and under the same rules as everybody. Its certificate lives for a day and is renewed long before; the key that
//! came with the first one has travelled, and is replaced as soon as the process is there.

mod papers;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base::http::{Answer, ApiError, CORRELATION_HEADER};
use http::HeaderValue;
use model::id::{InstallationId, TaskId};
use model::node_api::{RoleCertificateAnswer, RoleCertificateRequest, TaskAnswer, TaskRequest};
use model::signal::Code;
use rcgen::KeyPair;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use wire::http::Client;
use wire::tls::client_config;

pub use papers::{Papers, grant};

/// Three times in the life of a certificate, so that two failures harm nobody.
const RENEW_EVERY: Duration = Duration::from_secs(8 * 3600);
const RETRY_EVERY: Duration = Duration::from_secs(20);
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// The way to the api.
pub struct Apart {
    /// Where renewed papers are kept.
    kept: PathBuf,
    current: RwLock<Arc<Door>>,
}

struct Door {
    papers: Papers,
    client: Client,
}

impl Door {
    fn open(papers: Papers) -> anyhow::Result<Self> {
        let chain = wire::pem::certificates(&papers.chain)?;
        let key = wire::pem::private_key(&papers.key)?;
        let authorities = wire::pem::certificates(&papers.authorities)?;
        let client = Client::builder(&papers.api_url)?
            .tls(client_config(Some((chain, key)), &authorities)?)
            .timeout(ANSWER_WITHIN)
            .build();
        Ok(Self { papers, client })
    }
}

impl Apart {
    /// With the papers that were given, or with those that were renewed from them since.
    pub fn open(given: &Path, state_dir: &Path, installation: InstallationId) -> anyhow::Result<Self> {
        let papers = Papers::read(given)?;
        anyhow::ensure!(
            papers.installation == installation,
            "{} is from another installation",
            given.display()
        );
        let kept = state_dir.join(format!("{}.{}.json", papers.role, papers.instance));
        let papers = match Papers::read(&kept) {
            Ok(renewed) if renewed.follows(&papers) => renewed,
            // Others were given since.
            Ok(_) => papers,
            Err(error) => {
                if kept.exists() {
                    tracing::warn!(error = %format!("{error:#}"), "renewed papers are there and of no use");
                }
                papers
            }
        };
        let current = RwLock::new(Arc::new(Door::open(papers)?));
        Ok(Self { kept, current })
    }

    /// Signed by the api if the intent covers it. The same operation again is the same task.
    pub async fn ask(&self, request: &TaskRequest, correlation_id: Uuid) -> Answer<TaskId> {
        let door = self.door();
        let correlation = HeaderValue::try_from(correlation_id.to_string()).map_err(ApiError::internal)?;
        let asked = door.client.post("/internal/v1/tasks").json(request);
        let asked = asked
            .map_err(ApiError::internal)?
            .header(CORRELATION_HEADER, correlation);
        let answer = asked.send().await.map_err(no_answer)?;
        if let Some(refused) = answer.error().filter(|_| !answer.status.is_success()) {
            return Err(ApiError::new(refused.code).message(refused.message));
        }
        let answer: TaskAnswer = answer.json().map_err(no_answer)?;
        Ok(answer.task_id)
    }

    /// At once, and then as long as the process runs.
    pub async fn keep_renewed(self: Arc<Self>, stop: CancellationToken) {
        let mut pause = Duration::ZERO;
        while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            pause = match self.renew().await {
                Ok(()) => RENEW_EVERY,
                Err(error) => {
                    tracing::warn!(error = %format!("{error:#}"), "our certificate was not renewed");
                    RETRY_EVERY
                }
            };
        }
    }

    /// A new key and a certificate for it, on the disk before they are used.
    pub async fn renew(&self) -> anyhow::Result<()> {
        let door = self.door();
        let key = KeyPair::generate()?;
        let request = RoleCertificateRequest {
            csr_pem: papers::csr(&key)?,
        };
        let answer = door
            .client
            .post("/internal/v1/certificate")
            .json(&request)?
            .send()
            .await?;
        if let Some(refused) = answer.error().filter(|_| !answer.status.is_success()) {
            anyhow::bail!("{}: {}", refused.code, refused.message);
        }
        let answer: RoleCertificateAnswer = answer.json()?;
        let papers = door.papers.renewed(&key, answer);
        let fresh = Door::open(papers)?;
        fresh.papers.write(&self.kept)?;
        tracing::info!(not_after = %fresh.papers.not_after, "our certificate was renewed");
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
        Ok(())
    }

    fn door(&self) -> Arc<Door> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The api is away, or what answers is something else: whoever asked tries again.
fn no_answer(error: wire::http::Error) -> ApiError {
    ApiError::new(Code::ServerUnreachable).message(error.to_string())
}
