//! Keys that must not count: weak, unknown, retired, revoked, or listed by whoever may not list them.

use data_encoding::BASE64;
use host::pretend::Profile;
use model::dsse::{self, Envelope, Signature};
use model::envelope::TASK_TYPE;
use model::key::{PublicKey, SigningKey};
use model::outcome::Outcome;
use model::signal::Code;
use model::trust::{Alg, DELEGATION_TYPE, KeyStatus, MANIFEST_TYPE, ManifestKey, Purpose};

use crate::place::Place;

/// Points of small order: under the lax equation the right constant signs every message for them.
const WEAK: [[u8; 32]; 2] = {
    let (mut identity, mut order_two) = ([0; 32], [0xff; 32]);
    identity[0] = 1;
    (order_two[0], order_two[31]) = (0xec, 0x7f);
    [identity, order_two]
};

#[test]
fn abuse_10_weak_keys() {
    let place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let (delegation, mut manifest) = place.house.documents(2);
    let template = manifest.keys[0].clone();
    for bytes in WEAK {
        let public = PublicKey::from_bytes(bytes);
        let (keyid, purposes) = (public.keyid(), vec![Purpose::Diag]);
        manifest.keys.push(ManifestKey {
            keyid,
            public,
            purposes,
            ..template.clone()
        });
    }
    // Even if the control plane lists them, and that is the worst that can happen.
    assert_eq!(agent.trust(place.house.seal(&delegation, &manifest)), Ok(2));
    let calls = place.pretend.calls();
    let mut mounted = 0;
    for public in WEAK.map(PublicKey::from_bytes) {
        for r in WEAK {
            let payload = place.house.probe();
            let bytes = serde_json::to_vec(&payload).expect("text");
            let mut signature = [0; 64];
            signature[..32].copy_from_slice(&r);
            let signatures = vec![Signature {
                keyid: public.keyid(),
                sig: BASE64.encode(&signature),
            }];
            let (payload_type, encoded) = (TASK_TYPE.to_owned(), BASE64.encode(&bytes));
            agent.offer(
                &place,
                payload.task_id,
                Envelope {
                    payload_type,
                    payload: encoded,
                    signatures,
                },
            );
            let result = place.open(&agent.done(payload.task_id));
            assert_eq!(
                (result.outcome, result.code),
                (Outcome::Refused, Some(Code::SignatureInvalid))
            );
            mounted += 1;
        }
    }
    assert_eq!((mounted, place.pretend.calls()), (4, calls));
    assert_eq!(agent.run(&place, &place.house.probe()).outcome, Outcome::Succeeded);
}

#[test]
fn abuse_11_keys_and_manifests() {
    let place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let calls = place.pretend.calls();
    let stranger = SigningKey::generate();
    let mut refused = |envelope: Envelope, task_id| {
        let result = place.open(&agent.judged(&place, task_id, &envelope));
        assert_eq!(result.outcome, Outcome::Refused);
        result.code.expect("a code")
    };
    let probe = place.house.probe();
    assert_eq!(refused(probe.sign(&stranger), probe.task_id), Code::KeyUnknown);

    let (delegation, good) = place.house.documents(5);
    let spoil = |change: &dyn Fn(&mut model::trust::Delegation, &mut model::trust::Manifest)| {
        let (mut delegation, mut manifest) = (delegation.clone(), good.clone());
        change(&mut delegation, &mut manifest);
        place.house.seal(&delegation, &manifest)
    };
    let foreign_key = model::trust::Bundle {
        delegation: dsse::sign_json(DELEGATION_TYPE, &delegation, &[place.house.key(Purpose::Diag)]),
        manifest: dsse::sign_json(MANIFEST_TYPE, &good, &[place.house.key(Purpose::Diag)]),
    };
    let new_root = spoil(&|d, _| (d.version, d.roots) = (2, vec![stranger.public()]));
    let corpus = [
        foreign_key,
        new_root,
        spoil(&|d, _| (d.version, d.threshold) = (2, 0)),
        spoil(&|d, _| (d.version, d.threshold) = (2, 9)),
        spoil(&|d, _| (d.version, d.roots) = (2, vec![d.roots[0], d.roots[0]])),
        spoil(&|_, m| m.keys.push(m.keys[0].clone())),
        spoil(&|_, m| m.keys[0].public = stranger.public()),
        spoil(&|_, m| m.aud = model::id::InstallationId::new()),
        spoil(&|_, m| m.version = 0),
    ];
    for (n, bundle) in corpus.into_iter().enumerate() {
        assert_eq!(agent.trust(bundle), Err(Code::ManifestRejected), "{n}");
    }
    assert_eq!(agent.state().manifest_version, 1, "nothing of it was kept");

    for (version, status, code) in [
        (6, KeyStatus::Retired, Code::KeyNotUsable),
        (7, KeyStatus::Revoked, Code::KeyRevoked),
    ] {
        let bundle = place.house.bundle_with(version, |purpose| match purpose {
            Purpose::Diag => status,
            _ => KeyStatus::Active,
        });
        assert_eq!(agent.trust(bundle), Ok(version));
        let probe = place.house.probe();
        let result = agent.run(&place, &probe);
        assert_eq!(
            (result.outcome, result.code),
            (Outcome::Refused, Some(code)),
            "{status:?}"
        );
    }
    assert_eq!(place.pretend.calls(), calls);
    assert_eq!(agent.trust(place.house.bundle(8)), Ok(8));
    assert_eq!(agent.run(&place, &place.house.probe()).outcome, Outcome::Succeeded);
    assert_eq!(
        good.keys[0].alg,
        Alg::Ed25519,
        "the only one: it comes from the manifest, never from an envelope"
    );
}

#[test]
fn under_an_expired_manifest_the_node_only_looks() {
    let place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let (delegation, manifest) = place.house.documents(2);
    let over = place.house.now().plus_s(-1);
    let mut ends = [(delegation.clone(), manifest.clone()), (delegation, manifest)];
    ends[0].1.expires_at = over;
    // The delegation's end counts as well.
    (ends[1].0.expires_at, ends[1].0.version, ends[1].1.version) = (over, 2, 3);
    let calls = || place.pretend.snapshot();
    let clean = calls();
    for (delegation, manifest) in &ends {
        let bundle = place.house.seal(delegation, manifest);
        assert_eq!(agent.trust(bundle), Ok(manifest.version));
        let account = crate::users::provision(&place, model::id::AllocationId::new());
        let result = agent.run(&place, &account);
        assert_eq!(
            (result.outcome, result.code),
            (Outcome::Refused, Some(Code::ManifestExpired))
        );
        assert_eq!(agent.run(&place, &place.house.probe()).outcome, Outcome::Succeeded);
    }
    assert_eq!(calls(), clean, "no account was made");
}
