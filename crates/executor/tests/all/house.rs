//! A hand-made installation: root, manifest key, one task key per purpose, a device CA.

use executor::Clock;
use model::digest::Sha256;
use model::dsse::{self, Envelope};
use model::enrol::EnrolmentToken;
use model::envelope::TaskPayload;
use model::id::{InstallationId, NodeId, TaskId, derive_node_op, derive_task};
use model::key::SigningKey;
use model::socket::Enrolled;
use model::task::{Task, health_probe};
use model::time::Timestamp;
use model::trust::{
    Alg, Bundle, DELEGATION_TYPE, Delegation, KeyStatus, MANIFEST_TYPE, Manifest, ManifestKey, Purpose,
};
use rcgen::{CertificateParams, CertificateSigningRequestParams, DnType, Issuer, KeyPair, SanType};
use std::cell::Cell;

pub(crate) struct House {
    pub(crate) installation: InstallationId,
    pub(crate) node_id: NodeId,
    pub(crate) clock: Clock,
    root: SigningKey,
    manifest_key: SigningKey,
    /// The operators'.
    pub(crate) catalogue_key: SigningKey,
    task_keys: Vec<(Purpose, SigningKey)>,
    device_ca: Issuer<'static, KeyPair>,
    issued: Cell<u64>,
}

impl House {
    pub(crate) fn new() -> Self {
        let at: Timestamp = "2026-11-15T10:00:00Z".parse().expect("a time");
        let ca_key = KeyPair::generate().expect("a key");
        Self {
            installation: InstallationId::new(),
            node_id: NodeId::new(),
            clock: Clock::fixed(at),
            root: SigningKey::generate(),
            manifest_key: SigningKey::generate(),
            catalogue_key: SigningKey::generate(),
            task_keys: Purpose::ALL.map(|purpose| (purpose, SigningKey::generate())).to_vec(),
            device_ca: Issuer::new(CertificateParams::default(), ca_key),
            issued: Cell::new(0),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn key(&self, purpose: Purpose) -> &SigningKey {
        let found = self.task_keys.iter().find(|(other, _)| *other == purpose);
        &found.expect("one for each purpose").1
    }

    pub(crate) fn bundle(&self, version: u64) -> Bundle {
        self.bundle_with(version, |_| KeyStatus::Active)
    }

    pub(crate) fn bundle_with(&self, version: u64, status: impl Fn(Purpose) -> KeyStatus) -> Bundle {
        let (delegation, mut manifest) = self.documents(version);
        for key in &mut manifest.keys {
            key.status = status(key.purposes[0]);
        }
        self.seal(&delegation, &manifest)
    }

    /// Good documents, to be spoiled before they are sealed.
    pub(crate) fn documents(&self, version: u64) -> (Delegation, Manifest) {
        let (from, to) = (self.now().plus_s(-3600), self.now().plus_s(90 * 86_400));
        let aud = self.installation;
        let delegation = Delegation {
            aud,
            version: 1,
            roots: vec![self.root.public()],
            threshold: 1,
            manifest_key: self.manifest_key.public(),
            catalogue_key: Some(self.catalogue_key.public()),
            expires_at: to,
        };
        let key = |(purpose, key): &(Purpose, SigningKey)| ManifestKey {
            keyid: key.keyid(),
            alg: Alg::Ed25519,
            public: key.public(),
            purposes: vec![*purpose],
            not_before: from,
            not_after: to,
            status: KeyStatus::Active,
            since: from,
            added_in: 1,
        };
        let keys = self.task_keys.iter().map(key).collect();
        let (issued_at, expires_at) = (from, to);
        (
            delegation,
            Manifest {
                aud,
                version,
                issued_at,
                expires_at,
                keys,
            },
        )
    }

    pub(crate) fn seal(&self, delegation: &Delegation, manifest: &Manifest) -> Bundle {
        Bundle {
            delegation: dsse::sign_json(DELEGATION_TYPE, delegation, &[&self.root]),
            manifest: dsse::sign_json(MANIFEST_TYPE, manifest, &[&self.manifest_key]),
        }
    }

    pub(crate) fn token(&self, dev: bool) -> EnrolmentToken {
        EnrolmentToken {
            url: "https://127.0.0.1:9444".to_owned(),
            ca_sha256: Sha256::of(b"ca"),
            root_sha256: Sha256::of(self.root.public().as_bytes()),
            secret: "c2VjcmV0".to_owned(),
            dev,
        }
    }

    /// A device certificate for this request, as the control plane would issue it.
    pub(crate) fn device_chain(&self, csr: &str, uri: &str) -> String {
        let mut csr = CertificateSigningRequestParams::from_pem(csr).expect("a request");
        let second = |at: Timestamp| {
            let since = u64::try_from(at.millis() / 1000).expect("after 1970");
            rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(since)
        };
        csr.params.not_before = second(self.now().plus_s(-60));
        csr.params.not_after = second(self.now().plus_s(365 * 86_400));
        csr.params.subject_alt_names = vec![SanType::URI(uri.to_owned().try_into().expect("ascii"))];
        csr.params
            .distinguished_name
            .push(DnType::CommonName, self.node_id.to_string());
        csr.signed_by(&self.device_ca).expect("signed").pem()
    }

    pub(crate) fn uri(&self, epoch: u64) -> String {
        format!("spiffe://{}/node/{}/epoch/{epoch}", self.installation, self.node_id)
    }

    pub(crate) fn enrolled(&self, device_csr: &str, epoch: u64) -> Enrolled {
        Enrolled {
            installation: self.installation,
            node_id: self.node_id,
            epoch,
            device_chain: self.device_chain(device_csr, &self.uri(epoch)),
            token_audiences: vec!["gpuaas".to_owned(), "https://ca/1.0/sign#x5c/nodes".to_owned()],
            bundle: self.bundle(1),
        }
    }

    /// A good task; tests spoil a copy of it.
    pub(crate) fn payload(&self, task: &Task) -> TaskPayload {
        let issue = self.issued.get() + 1;
        self.issued.set(issue);
        let spec = task.task_type().spec();
        let op_id = derive_node_op(self.node_id, spec.name, issue);
        TaskPayload {
            v: 1,
            aud: self.installation,
            task_id: derive_task(op_id, 0),
            op_id,
            intent_sha256: None,
            node_id: self.node_id,
            node_epoch: 1,
            seq: issue,
            task_type: spec.name.to_owned(),
            type_version: spec.version,
            issued_at: self.now(),
            start_by: self.now().plus_s(600),
            max_runtime_s: spec.max_runtime_s,
            actor_ref: "operator/test".to_owned(),
            correlation_id: TaskId::new().uuid(),
            params: task.params(),
        }
    }

    /// Signed by the key that may.
    pub(crate) fn sign(&self, payload: &TaskPayload) -> Envelope {
        let purpose = match payload.task_type.split_once('.') {
            Some(("allocation", _)) => Purpose::Allocation,
            Some(("slice", _)) => Purpose::Slice,
            _ => Purpose::Diag,
        };
        payload.sign(self.key(purpose))
    }

    pub(crate) fn probe(&self) -> TaskPayload {
        self.payload(&Task::HealthProbe(health_probe::Params {}))
    }
}
