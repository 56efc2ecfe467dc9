//! Attacks by whoever can reach the socket or has got hold of a key. Each asserts the code, that nothing happened on
//! the host, and that the attack was really mounted.

use data_encoding::BASE64;
use host::pretend::{Profile, State};
use model::digest::Sha256;
use model::dsse::{self, Envelope};
use model::envelope::{TASK_TYPE, TaskPayload};
use model::id::{AllocationId, NodeId, TaskId};
use model::outcome::{Outcome, RESULT_TYPE};
use model::signal::Code;
use model::socket::FromAgent;
use model::trust::Purpose;

use crate::place::{Agent, Place};
use crate::users::provision;

/// An executor under attack, as it was before.
struct Siege {
    place: Place,
    agent: Agent,
    before: State,
    calls: usize,
    mounted: usize,
}

impl Siege {
    fn begin() -> Self {
        let place = Place::start(Profile::Cpu);
        let agent = place.connect();
        let (before, calls) = (place.pretend.snapshot(), place.pretend.calls());
        Self {
            place,
            agent,
            before,
            calls,
            mounted: 0,
        }
    }

    /// Offers it and gives the code of the signed refusal.
    fn refused(&mut self, task_id: TaskId, envelope: Envelope) -> Code {
        let bytes = envelope.payload_unverified().expect("base64");
        let end = self.agent.judged(&self.place, task_id, &envelope);
        let result = self.place.open(&end);
        assert_eq!((result.outcome, result.started_at), (Outcome::Refused, None));
        assert_eq!(
            result.payload_sha256,
            Sha256::of(&bytes),
            "it names the bytes it refuses"
        );
        self.mounted += 1;
        result.code.expect("a refusal has a code")
    }

    /// Nothing happened, and the honest form of the attack would have been taken.
    fn end(mut self, attacks: usize, honest: &TaskPayload) {
        assert_eq!(self.mounted, attacks);
        assert_eq!(self.place.pretend.snapshot(), self.before);
        assert_eq!(
            self.place.pretend.calls(),
            self.calls,
            "the host was not even looked at"
        );
        assert!(self.agent.state().tasks.is_empty(), "nothing is held");
        let result = self.agent.run(&self.place, honest);
        assert_eq!(result.outcome, Outcome::Succeeded, "{:?}", result.detail);
    }
}

#[test]
fn abuse_02_wrong_node() {
    let mut siege = Siege::begin();
    let good = siege.place.house.probe();
    let other_node = TaskPayload {
        node_id: NodeId::new(),
        ..good.clone()
    };
    let old_epoch = TaskPayload {
        node_epoch: 0,
        ..good.clone()
    };
    let new_epoch = TaskPayload {
        node_epoch: 2,
        ..good.clone()
    };
    let other_house = TaskPayload {
        aud: model::id::InstallationId::new(),
        ..good.clone()
    };
    for (spoiled, code) in [
        (other_node, Code::WrongNode),
        (old_epoch, Code::WrongEpoch),
        (new_epoch, Code::WrongEpoch),
        (other_house, Code::WrongAudience),
    ] {
        let envelope = siege.place.house.sign(&spoiled);
        assert_eq!(siege.refused(spoiled.task_id, envelope), code);
    }
    // Somebody else's task under our task's name.
    let another = siege.place.house.probe();
    let envelope = siege.place.house.sign(&another);
    assert_eq!(siege.refused(good.task_id, envelope), Code::PayloadMalformed);
    siege.end(5, &good);
}

#[test]
fn abuse_03_bit_flips() {
    let mut siege = Siege::begin();
    let probe = siege.place.house.probe();
    let account = provision(&siege.place, AllocationId::new());
    let mut expected = 0;
    for payload in [&probe, &account] {
        let good = siege.place.house.sign(payload);
        let bytes = good.payload_unverified().expect("base64");
        let signature = BASE64.decode(good.signatures[0].sig.as_bytes()).expect("base64");
        let keyid = good.signatures[0].keyid.to_string();
        for flipped in flips(&bytes) {
            let envelope = Envelope {
                payload: BASE64.encode(&flipped),
                ..good.clone()
            };
            assert_eq!(siege.refused(payload.task_id, envelope), Code::SignatureInvalid);
        }
        for flipped in flips(&signature) {
            let mut envelope = good.clone();
            envelope.signatures[0].sig = BASE64.encode(&flipped);
            assert_eq!(siege.refused(payload.task_id, envelope), Code::SignatureInvalid);
        }
        for flipped in flips(good.payload_type.as_bytes()) {
            let Ok(payload_type) = String::from_utf8(flipped) else {
                continue;
            };
            let envelope = Envelope {
                payload_type,
                ..good.clone()
            };
            assert_eq!(siege.refused(payload.task_id, envelope), Code::SignatureInvalid);
            expected += 1;
        }
        for flipped in flips(keyid.as_bytes()) {
            let Some(other) = String::from_utf8(flipped).ok().and_then(|text| text.parse().ok()) else {
                continue;
            };
            let mut envelope = good.clone();
            envelope.signatures[0].keyid = other;
            assert_eq!(siege.refused(payload.task_id, envelope), Code::KeyUnknown);
            expected += 1;
        }
        expected += (bytes.len() + signature.len()) * 8;
    }
    assert!(expected > 10_000, "{expected}");
    let honest = siege.place.house.probe();
    siege.end(expected, &honest);
}

/// Every copy with one bit flipped.
fn flips(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..bytes.len() * 8).map(|bit| {
        let mut copy = bytes.to_vec();
        copy[bit / 8] ^= 1 << (bit % 8);
        copy
    })
}

#[test]
fn abuse_04_duplicate_keys() {
    let mut siege = Siege::begin();
    let probe = siege.place.house.probe();
    let honest = serde_json::to_string(&probe).expect("text");
    let account = provision(&siege.place, AllocationId::new());
    let text = serde_json::to_string(&account).expect("text");
    let node = format!("\"node_id\":\"{}\"", probe.node_id);
    let diag = siege.place.house.key(Purpose::Diag).clone();
    let allocation = siege.place.house.key(Purpose::Allocation).clone();
    let corpus = [
        // A lax parser keeps the last, a strict one the first: whoever differs can be fooled.
        (
            &diag,
            &probe,
            honest.replacen('{', &format!("{{{node},"), 1),
            Code::PayloadMalformed,
        ),
        (
            &diag,
            &probe,
            honest.replacen('{', "{\"v\":1,", 1),
            Code::PayloadMalformed,
        ),
        (
            &diag,
            &probe,
            honest.replacen('{', "{\"command\":\"id\",", 1),
            Code::PayloadMalformed,
        ),
        (
            &diag,
            &probe,
            honest.replace("\"params\":{}", "\"params\":{\"x\":1}"),
            Code::ParamsInvalid,
        ),
        (
            &allocation,
            &account,
            text.replace("\"uid\":20001", "\"uid\":20001,\"uid\":20002"),
            Code::ParamsInvalid,
        ),
        (
            &allocation,
            &account,
            text.replace("\"uid\":20001", "\"uid\":20001,\"sudo\":true"),
            Code::ParamsInvalid,
        ),
        (
            &allocation,
            &account,
            text.replace("\"uid\":20001", "\"uid\":20001.0"),
            Code::ParamsInvalid,
        ),
    ];
    let attacks = corpus.len();
    for (key, payload, bytes, code) in corpus {
        assert!(bytes != honest && bytes != text, "the corpus has rotted");
        let envelope = dsse::sign(TASK_TYPE, bytes.as_bytes(), &[key]);
        assert_eq!(siege.refused(payload.task_id, envelope), code, "{bytes}");
    }
    // In the frame itself there is nothing to sign an answer for: it closes the connection.
    let (task_id, envelope) = (probe.task_id, siege.place.house.sign(&probe));
    let offer = FromAgent::Offer {
        task_id,
        fence: 1,
        envelope,
        server_time: siege.place.house.now(),
    };
    let frame = serde_json::to_string(&offer)
        .expect("text")
        .replace("\"fence\":1", "\"fence\":1,\"fence\":2");
    siege.agent.send_raw(&(frame.len() as u32).to_be_bytes());
    siege.agent.send_raw(frame.as_bytes());
    siege.agent.hung_up();
    siege.agent = siege.place.connect();
    siege.end(attacks, &probe);
}

#[test]
fn abuse_05_type_swaps() {
    let mut siege = Siege::begin();
    let probe = siege.place.house.probe();
    let account = provision(&siege.place, AllocationId::new());
    let diag = siege.place.house.key(Purpose::Diag).clone();
    let allocation = siege.place.house.key(Purpose::Allocation).clone();
    let manifest = siege.place.house.bundle(1).manifest;
    // Each bears a name of its own: bytes that were refused are not looked at again.
    let [mislabelled, relabelled, twice] = [(); 3].map(|()| siege.place.house.probe());
    let bytes = |payload: &TaskPayload| serde_json::to_vec(payload).expect("text");
    let relabelled_envelope = Envelope {
        payload_type: TASK_TYPE.to_owned(),
        ..dsse::sign(RESULT_TYPE, &bytes(&relabelled), &[&diag])
    };
    let removal = TaskPayload {
        task_type: "allocation.deprovision_user".to_owned(),
        ..account.clone()
    };
    let by_slice_key = siege.place.house.probe();
    for (envelope, task_id, code) in [
        // A key for one purpose signs for another.
        (account.sign(&diag), account.task_id, Code::KeyNotUsable),
        (probe.sign(&allocation), probe.task_id, Code::KeyNotUsable),
        (
            by_slice_key.sign(siege.place.house.key(Purpose::Slice)),
            by_slice_key.task_id,
            Code::KeyNotUsable,
        ),
        // Another kind of document, under its own name or under a task's.
        (
            dsse::sign(RESULT_TYPE, &bytes(&mislabelled), &[&diag]),
            mislabelled.task_id,
            Code::PayloadTypeMismatch,
        ),
        (relabelled_envelope, relabelled.task_id, Code::SignatureInvalid),
        (manifest, probe.task_id, Code::KeyUnknown),
        // One type's parameters as another's.
        (removal.sign(&allocation), removal.task_id, Code::ParamsInvalid),
        // Two signatures: which would count?
        (
            dsse::sign(TASK_TYPE, &bytes(&twice), &[&diag, &allocation]),
            twice.task_id,
            Code::EnvelopeMalformed,
        ),
    ] {
        assert_eq!(siege.refused(task_id, envelope), code);
    }
    // What was refused stays refused, in an honest wrapping too.
    for payload in [&probe, &twice] {
        let envelope = siege.place.house.sign(payload);
        siege.refused(payload.task_id, envelope);
    }
    let honest = siege.place.house.probe();
    siege.end(10, &honest);
}

#[test]
fn abuse_08_unknown_type() {
    let mut siege = Siege::begin();
    let good = siege.place.house.probe();
    let mut attacks = 0;
    let long = "x".repeat(10_000);
    for name in [
        "",
        "shell.exec",
        "diag.health_probe ",
        "Diag.health_probe",
        "slice.vm_migrate",
        "../x",
        "\u{0}",
        &long,
    ] {
        let spoiled = TaskPayload {
            task_type: name.to_owned(),
            ..good.clone()
        };
        let envelope = siege.place.house.sign(&spoiled);
        assert_eq!(
            siege.refused(spoiled.task_id, envelope),
            Code::UnsupportedType,
            "{name:?}"
        );
        attacks += 1;
    }
    for version in [0, 2, u32::MAX] {
        let spoiled = TaskPayload {
            type_version: version,
            ..good.clone()
        };
        let envelope = siege.place.house.sign(&spoiled);
        assert_eq!(
            siege.refused(spoiled.task_id, envelope),
            Code::UnsupportedType,
            "{version}"
        );
        attacks += 1;
    }
    siege.end(attacks, &good);
}
