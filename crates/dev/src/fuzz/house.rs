//! An installation to be attacked: every kind of key that exists, good ones, old ones, revoked ones and weak ones, a
//! node that trusts them as far as its documents say, and one honest document of each kind that was ever signed.

use model::digest::Sha256;
use model::dsse::{self, Envelope};
use model::envelope::{Identity, TASK_TYPE, TaskPayload};
use model::id::{AllocationId, InstallationId, OpId, TaskId};
use model::intent::{INTENT_TYPE, Intent, IntentKind};
use model::key::{PublicKey, SigningKey};
use model::outcome::{Outcome, RESULT_TYPE, ResultPayload};
use model::signal::Code;
use model::task::{Task, TaskType, deprovision_user, health_probe, provision_user, topology_discover};
use model::time::Timestamp;
use model::trust::{
    Alg, Bundle, DELEGATION_TYPE, Delegation, KeyStatus, MANIFEST_TYPE, Manifest, ManifestKey, Purpose, Trust,
};
use serde::Serialize;
use uuid::Uuid;

use super::slices;
use super::tree::Tree;
use crate::dice::Dice;

pub(super) const EPOCH: u64 = 7;

/// Something that was honestly signed.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) payload_type: &'static str,
    pub(super) payload: Vec<u8>,
    /// The same, to be edited.
    pub(super) tree: Tree,
    pub(super) envelope: Envelope,
    pub(super) envelope_tree: Tree,
    /// Who may sign it.
    pub(super) signer: SigningKey,
    /// The task it is, if it is one.
    pub(super) task_id: TaskId,
}

impl Document {
    fn new<T: Serialize>(payload_type: &'static str, document: &T, signer: &SigningKey, task_id: TaskId) -> Self {
        let envelope = dsse::sign_json(payload_type, document, &[signer]);
        let payload = envelope.payload_unverified().expect("our own base64");
        Self {
            payload_type,
            tree: Tree::parse(&payload).expect("our own JSON"),
            payload,
            envelope_tree: Tree::parse(&envelope.to_bytes()).expect("our own JSON"),
            envelope,
            signer: signer.clone(),
            task_id,
        }
    }
}

pub(super) struct House {
    pub(super) now: Timestamp,
    pub(super) me: Identity,
    pub(super) trust: Trust,
    pub(super) pinned_root: Sha256,
    pub(super) intent_key: SigningKey,
    pub(super) result_key: SigningKey,
    /// Keys that may sign no task of the corpus: other purposes, other offices, too old, revoked, never heard of.
    pub(super) strangers: Vec<SigningKey>,
    /// Public keys for which a signature can be made up without any secret.
    pub(super) weak: Vec<PublicKey>,
    pub(super) tasks: Vec<Document>,
    pub(super) delegation: Document,
    pub(super) manifest: Document,
    pub(super) intent: Document,
    pub(super) result: Document,
}

pub(super) fn uuid(dice: &mut Dice) -> Uuid {
    Uuid::from_u64_pair(dice.roll(u64::MAX), dice.roll(u64::MAX))
}

fn key(dice: &mut Dice) -> SigningKey {
    let mut seed = [0; 32];
    for part in seed.chunks_exact_mut(8) {
        part.copy_from_slice(&dice.roll(u64::MAX).to_le_bytes());
    }
    SigningKey::from_seed(seed)
}

/// Points of small order: the identity, and those of order two and four.
const WEAK: [[u8; 32]; 3] = [
    weak(1, 0),
    [
        0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
    ],
    weak(0, 0),
];

const fn weak(first: u8, last: u8) -> [u8; 32] {
    let mut point = [0; 32];
    point[0] = first;
    point[31] = last;
    point
}

impl House {
    pub(super) fn new(dice: &mut Dice) -> Self {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let aud = InstallationId::from(uuid(dice));
        let me = Identity {
            node_id: uuid(dice).into(),
            epoch: EPOCH,
        };
        let [root, manifest_key, intent_key, result_key] = [(); 4].map(|()| key(dice));
        let active = Purpose::ALL.map(|purpose| (purpose, key(dice)));
        let right = |purpose: Purpose| {
            active
                .iter()
                .find(|(other, _)| *other == purpose)
                .expect("all")
                .1
                .clone()
        };
        let weak: Vec<PublicKey> = WEAK.into_iter().map(PublicKey::from_bytes).collect();
        let mut keys: Vec<ManifestKey> = active
            .iter()
            .map(|(purpose, key)| listed(key.public(), &[*purpose], KeyStatus::Active, now))
            .collect();
        // A manifest key that was tricked into listing them must not be enough.
        keys.extend(
            weak.iter()
                .map(|key| listed(*key, &Purpose::ALL, KeyStatus::Active, now)),
        );
        let mut strangers = vec![
            root.clone(),
            manifest_key.clone(),
            intent_key.clone(),
            result_key.clone(),
        ];
        for purpose in [Purpose::Diag, Purpose::Allocation] {
            for status in [KeyStatus::Retired, KeyStatus::Revoked] {
                let key = key(dice);
                keys.push(listed(key.public(), &[purpose], status, now));
                strangers.push(key);
            }
            for shift_s in [-90 * 86_400, 90 * 86_400] {
                let key = key(dice);
                keys.push(listed(key.public(), &[purpose], KeyStatus::Active, now.plus_s(shift_s)));
                strangers.push(key);
            }
        }
        strangers.extend([(); 4].map(|()| key(dice)));
        strangers.extend(active.iter().map(|(_, key)| key.clone()));
        let delegation = Delegation {
            aud,
            version: 3,
            roots: vec![root.public()],
            threshold: 1,
            manifest_key: manifest_key.public(),
            catalogue_key: None,
            expires_at: now.plus_s(86_400),
        };
        let manifest = Manifest {
            aud,
            version: 9,
            issued_at: now.plus_s(-60),
            expires_at: now.plus_s(86_400),
            keys,
        };
        let none = TaskId::from(uuid(dice));
        let delegation = Document::new(DELEGATION_TYPE, &delegation, &root, none);
        let manifest = Document::new(MANIFEST_TYPE, &manifest, &manifest_key, none);
        let pinned_root = Sha256::of(root.public().as_bytes());
        let trust = Trust::establish(&pinned_root, &bundle(&delegation, &manifest)).expect("honest documents");
        let tasks: Vec<Document> = TaskType::ALL
            .iter()
            .map(|kind| {
                let wish = wished(*kind, uuid(dice).into());
                task(&wish, uuid(dice).into(), aud, me, now, &right(kind.spec().purpose))
            })
            .collect();
        Self {
            now,
            me,
            trust,
            pinned_root,
            intent: Document::new(INTENT_TYPE, &intent(aud, none.uuid(), now), &intent_key, none),
            result: Document::new(RESULT_TYPE, &result(aud, me, &tasks[0], now), &result_key, none),
            intent_key,
            result_key,
            strangers,
            weak,
            tasks,
            delegation,
            manifest,
        }
    }

    /// Keys that may not sign this one.
    pub(super) fn strangers_to(&self, document: &Document) -> Vec<&SigningKey> {
        let keyid = document.signer.keyid();
        self.strangers.iter().filter(|key| key.keyid() != keyid).collect()
    }

    /// The root key, as documents write it.
    pub(super) fn trust_root(&self) -> String {
        self.delegation.signer.public().to_string()
    }

    /// Would a signature even be looked at?
    pub(super) fn reaches_the_signature(&self, envelope: &Envelope) -> bool {
        match envelope.signatures.as_slice() {
            [one] => self.trust.key(&one.keyid, self.now).is_ok() && envelope.payload_unverified().is_ok(),
            _ => false,
        }
    }
}

pub(super) fn bundle(delegation: &Document, manifest: &Document) -> Bundle {
    Bundle {
        delegation: delegation.envelope.clone(),
        manifest: manifest.envelope.clone(),
    }
}

fn listed(public: PublicKey, purposes: &[Purpose], status: KeyStatus, around: Timestamp) -> ManifestKey {
    ManifestKey {
        keyid: public.keyid(),
        alg: Alg::Ed25519,
        public,
        purposes: purposes.to_vec(),
        not_before: around.plus_s(-86_400),
        not_after: around.plus_s(86_400),
        status,
        since: around,
        added_in: 1,
    }
}

/// One of each type. A new type has to say here what an honest one looks like.
fn wished(kind: TaskType, allocation_id: AllocationId) -> Task {
    let name = || "tenant-a".parse().expect("a name");
    let uid = || 20_001.try_into().expect("a uid");
    match kind {
        TaskType::HealthProbe => Task::HealthProbe(health_probe::Params {}),
        TaskType::TopologyDiscover => Task::TopologyDiscover(topology_discover::Params {}),
        TaskType::ProvisionUser => Task::ProvisionUser(provision_user::Params {
            allocation_id,
            username: name(),
            uid: uid(),
            ssh_public_keys: vec![KEY.parse().expect("a key")],
            gpu_access: true,
        }),
        TaskType::DeprovisionUser => Task::DeprovisionUser(deprovision_user::Params {
            allocation_id,
            username: name(),
            uid: uid(),
            remove_home: true,
        }),
        TaskType::VmProvision => Task::VmProvision(slices::provision(allocation_id)),
        TaskType::VmRelease => Task::VmRelease(slices::release(allocation_id)),
        TaskType::VmPower => Task::VmPower(slices::power(allocation_id)),
    }
}

pub(super) const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJx4JqEVOfGkwAkQkpLJZ4yOfB8qgcrvCcZHbpqgZqdb tenant";

fn task(task: &Task, task_id: TaskId, aud: InstallationId, me: Identity, now: Timestamp, key: &SigningKey) -> Document {
    let spec = task.task_type().spec();
    let payload = TaskPayload {
        v: 1,
        aud,
        task_id,
        op_id: OpId::from(task_id.uuid()),
        intent_sha256: task.allocation().map(|_| Sha256::of(b"an intent")),
        node_id: me.node_id,
        node_epoch: me.epoch,
        seq: 40,
        task_type: spec.name.to_owned(),
        type_version: spec.version,
        issued_at: now,
        start_by: now.plus_s(600),
        max_runtime_s: spec.max_runtime_s,
        actor_ref: "operator/ada".to_owned(),
        correlation_id: task_id.uuid(),
        params: task.params(),
    };
    Document::new(TASK_TYPE, &payload, key, task_id)
}

fn intent(aud: InstallationId, id: Uuid, now: Timestamp) -> Intent {
    Intent {
        aud,
        intent_id: id.into(),
        allocation_id: id.into(),
        kind: IntentKind::Create,
        generation: 1,
        project_id: id.into(),
        actor_ref: "user/ada".to_owned(),
        wish_sha256: Sha256::of(b"a wish"),
        issued_at: now,
        expires_at: now.plus_s(3600),
    }
}

fn result(aud: InstallationId, me: Identity, task: &Document, now: Timestamp) -> ResultPayload {
    ResultPayload {
        aud,
        task_id: task.task_id,
        op_id: None,
        node_id: me.node_id,
        node_epoch: me.epoch,
        payload_sha256: Sha256::of(&task.payload),
        outcome: Outcome::Failed,
        code: Some(Code::HostCommandFailed),
        detail: Some("the host said no".to_owned()),
        started_at: Some(now),
        ended_at: now.plus_s(1),
        journal_seq: 12,
        timings: [("probe_ms".to_owned(), 3)].into(),
        undone: vec!["probe".to_owned()],
        proofs: None,
        output: None,
    }
}
