//! A node for benches: the node's side of the protocol over real mutual TLS, with real keys and signatures and no host
//! behind it, so that what is measured is the control plane.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use http::{HeaderName, HeaderValue};
use model::api::{Enrolment, NodeCreate};
use model::digest::Sha256;
use model::enrol::EnrolmentToken;
use model::id::{NodeId, SessionId};
use model::key::SigningKey;
use model::node_api::{
    EnrolAnswer, EnrolRequest, Facts, Hardware, OfferedTask, PROTOCOL, PingAnswer, ResultAnswer, ResultRequest,
    SessionRequest, Versions, WaitAnswer, header,
};
use model::outcome::{Outcome, ResultPayload};
use model::state::NodeMode;
use model::time::Timestamp;
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use serde_json::value::RawValue;
use wire::http::{Client, Response};

use crate::api::Api;

pub(super) struct Puppet {
    pub(super) id: NodeId,
    answer: EnrolAnswer,
    result_key: SigningKey,
    session: SessionId,
    door: Client,
    journal_seq: AtomicU64,
}

impl Puppet {
    /// Enrolled, with its session open: tasks can be asked of it.
    pub(super) async fn awake(api: &Api, name: &str) -> anyhow::Result<Self> {
        Self::awake_for(api, name, NodeMode::Machine).await
    }

    /// The same for slices or for whole machines.
    pub(super) async fn awake_for(api: &Api, name: &str, mode: NodeMode) -> anyhow::Result<Self> {
        let body = NodeCreate {
            name: name.to_owned(),
            mode: Some(mode),
            board_serial: None,
        };
        let enrolment: Enrolment = api.post("/v1/nodes", &body).await?;
        let token: EnrolmentToken = enrolment.token.parse()?;
        let (device, working, result_key) = (KeyPair::generate()?, KeyPair::generate()?, SigningKey::generate());
        let request = EnrolRequest {
            secret: token.secret.clone(),
            device_csr: csr(&device)?,
            working_csr: csr(&working)?,
            result_public: result_key.public(),
            simulated: true,
            hardware: Hardware::default(),
            facts: Facts {
                hostname: name.to_owned(),
                ..Facts::default()
            },
            versions: versions(),
        };
        let (tls, _) = wire::tls::pinned_ca_client(token.ca_sha256)?;
        let outside = Client::builder(&token.url)?.tls(tls).build();
        let answered = outside.post("/internal/v1/enroll").json(&request)?.send().await?;
        let answer: EnrolAnswer = good(&answered)?.json()?;
        let chain = wire::pem::certificates(&answer.working.chain)?;
        let key = wire::pem::private_key(&working.serialize_pem())?;
        let roots = wire::pem::certificates(&answer.working.ca_bundle)?;
        let tls = wire::tls::client_config(Some((chain, key)), &roots)?;
        let this = Self {
            id: answer.node_id,
            door: Client::builder(&answer.endpoints.node_api_url)?.tls(tls).build(),
            answer,
            result_key,
            session: SessionId::new(),
            journal_seq: AtomicU64::new(1),
        };
        this.open().await?;
        Ok(this)
    }

    async fn open(&self) -> anyhow::Result<()> {
        let request = SessionRequest {
            session_id: self.session,
            boot_id: "bench".to_owned(),
            hardware: Hardware::default(),
            versions: versions(),
            simulated: true,
            task_types: model::task::announced(),
            manifest_version: 1,
        };
        let request = self.door.post(&self.path("session")).json(&request)?;
        good(&self.signed_in(request).send().await?).map(drop)
    }

    fn path(&self, rest: &str) -> String {
        format!("/internal/v1/nodes/{}/{rest}", self.id)
    }

    fn signed_in<'a>(&self, request: wire::http::RequestBuilder<'a>) -> wire::http::RequestBuilder<'a> {
        let value = HeaderValue::from_str(&self.session.to_string()).expect("an id is ASCII");
        request.header(HeaderName::from_static(header::SESSION), value)
    }

    /// One held wait, whatever its answer is.
    pub(super) async fn hold(&self) -> anyhow::Result<Response> {
        let request = self.door.get(&self.path("tasks/wait"));
        Ok(self.signed_in(request).send().await?)
    }

    /// What one wait brings; nothing is an empty list.
    pub(super) async fn wait(&self) -> anyhow::Result<Vec<OfferedTask>> {
        let answer = self.hold().await?;
        if good(&answer)?.body.is_empty() {
            return Ok(Vec::new());
        }
        Ok(answer.json::<WaitAnswer>()?.tasks)
    }

    /// The serial of the certificate that it speaks with.
    pub(super) async fn serial(&self) -> anyhow::Result<String> {
        let answer = self.door.get(&self.path("ping")).send().await?;
        Ok(good(&answer)?.json::<PingAnswer>()?.serial)
    }

    /// Lands what an honest executor would sign once it has looked.
    pub(super) async fn land(&self, task: &OfferedTask, now: Timestamp) -> anyhow::Result<()> {
        self.land_with(task, now, LOOKED.to_owned()).await
    }

    /// The same with an output of one's own.
    pub(super) async fn land_with(&self, task: &OfferedTask, now: Timestamp, output: String) -> anyhow::Result<()> {
        let payload = task
            .envelope
            .payload_unverified()
            .map_err(|code| anyhow::anyhow!("{code}"))?;
        let result = ResultPayload {
            aud: self.answer.installation,
            task_id: task.task_id,
            op_id: None,
            node_id: self.id,
            node_epoch: self.answer.epoch,
            payload_sha256: Sha256::of(&payload),
            outcome: Outcome::Succeeded,
            code: None,
            detail: None,
            started_at: Some(now),
            ended_at: now,
            journal_seq: self.journal_seq.fetch_add(1, Ordering::Relaxed),
            timings: BTreeMap::new(),
            undone: Vec::new(),
            proofs: None,
            output: Some(RawValue::from_string(output)?),
        };
        let request = ResultRequest {
            fence: task.fence,
            envelope: result.sign(&self.result_key),
        };
        let path = self.path(&format!("tasks/{}/result", task.task_id));
        let answer = self.signed_in(self.door.post(&path).json(&request)?).send().await?;
        let landed: ResultAnswer = good(&answer)?.json()?;
        anyhow::ensure!(!landed.duplicate, "{} was landed before", task.task_id);
        Ok(())
    }
}

const LOOKED: &str = r#"{"kernel_version":"6.1.0-18-amd64","free_memory_mib":1031234,"kvm_present":true,
"vfio_modules":["vfio_pci","vfio_iommu_type1"],"gpus":[],"fabric_links":[],"root_free_bytes":912345678901,
"state_writable":true,"journal_used_pct":3,"clock_skew_ms":1}"#;

fn versions() -> Versions {
    Versions {
        agent: agent::VERSION.to_owned(),
        executor: agent::VERSION.to_owned(),
        protocol: PROTOCOL,
    }
}

fn csr(key: &KeyPair) -> anyhow::Result<String> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.serialize_request(key)?.pem().context("PEM")
}

fn good(answer: &Response) -> anyhow::Result<&Response> {
    let said = answer.error().map(|error| error.code.to_string());
    anyhow::ensure!(
        answer.status.is_success(),
        "{}: {}",
        answer.status,
        said.unwrap_or_default()
    );
    Ok(answer)
}
