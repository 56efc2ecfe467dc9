//! How a node comes to believe somebody, and how it vouches for itself afterwards.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use host::pretend::Profile;
use model::digest::Sha256;
use model::id::NodeId;
use model::node_api::CertificateKind;
use model::outcome::Outcome;
use model::signal::Code;
use model::socket::{Enrolled, FromAgent, FromExecutor};
use model::time::Timestamp;
use model::trust::{KeyStatus, Purpose};
use x509_parser::prelude::FromDer;

use crate::house::House;
use crate::place::{Agent, Place, read};
use crate::users::provision;

fn enrol(agent: &mut Agent, enrolled: Enrolled) -> Result<(), Code> {
    agent.send(&FromAgent::Enrolled {
        request_id: 5,
        enrolled: Box::new(enrolled),
    });
    agent.wait("an answer", |said| match said {
        FromExecutor::Ok { request_id: 5 } => Some(Ok(())),
        FromExecutor::Failed {
            request_id: 5, code, ..
        } => Some(Err(code)),
        _ => None,
    })
}

#[test]
fn enroll_pins_the_root_and_leaves_the_operators_words_alone() {
    let place = Place::empty(Profile::Cpu);
    let policy = place.dir.join("node.toml");
    let words = "# ours since 2024\nallowed_task_types = [\"diag.health_probe\"] # for now\n\n[agent]\nkey = 1\n";
    std::fs::write(&policy, words).expect("written");
    place.enroll();
    let token = place.house.token(true);
    let after = String::from_utf8(read(&policy)).expect("text");
    let line = format!("root_sha256 = \"{}\"\n", token.root_sha256);
    assert_eq!(after.replace(&line, ""), words, "one line was added");
    assert!(after.contains(&line));
    let handoff = place.dir.join("agent/enrolment");
    assert_eq!(read(&handoff), token.to_text().as_bytes());
    let (file, dir) = (
        std::fs::metadata(&handoff).expect("there"),
        std::fs::metadata(place.dir.join("agent")),
    );
    assert_eq!(
        (file.permissions().mode() & 0o777, file.uid()),
        (0o600, dir.expect("there").uid())
    );
    let keys = std::fs::metadata(place.dir.join("state/keys/device.pem")).expect("there");
    assert_eq!(keys.permissions().mode() & 0o777, 0o600);
    // Again, with another root: the line changes, the keys do not.
    let before = read(&place.dir.join("state/keys/result.key"));
    let other = House::new().token(true);
    executor::enroll(&other.to_text(), &place.options(), &place.dir.join("agent")).expect("enroll");
    assert!(
        String::from_utf8(read(&policy))
            .expect("text")
            .contains(&other.root_sha256.to_string())
    );
    assert_eq!(read(&place.dir.join("state/keys/result.key")), before);
}

#[test]
fn a_real_host_refuses_a_development_token() {
    let place = Place::empty(Profile::Cpu);
    let mut options = place.options();
    options.host = host::Host::real();
    let token = place.house.token(true).to_text();
    let error = executor::enroll(&token, &options, &place.dir.join("agent")).expect_err("refused");
    assert!(error.to_string().starts_with("dev_ca_refused"), "{error}");
    assert!(!place.dir.join("node.toml").exists() && !place.dir.join("agent/enrolment").exists());
    let token = place.house.token(false).to_text();
    executor::enroll(&token, &options, &place.dir.join("agent")).expect("a production token");
}

#[test]
fn nothing_is_believed_that_does_not_hang_on_the_pinned_root() {
    let mut place = Place::empty(Profile::Cpu);
    place.serve();
    let mut agent = place.connect();
    let csr = agent.keys().device_csr;
    let good = place.house.enrolled(&csr, 1);
    assert_eq!(
        enrol(&mut agent, good.clone()),
        Err(Code::RootMismatch),
        "no root is pinned yet"
    );
    let probe = place.house.probe();
    agent.offer_good(&place, &probe);
    assert_eq!(agent.not_taken(probe.task_id), Code::NotEnrolled);

    place.enroll();
    let stranger = House::new();
    let foreign = Enrolled {
        bundle: stranger.bundle(1),
        installation: stranger.installation,
        ..good.clone()
    };
    assert_eq!(enrol(&mut agent, foreign), Err(Code::RootMismatch));
    let named = Enrolled {
        node_id: NodeId::new(),
        ..good.clone()
    };
    assert_eq!(
        enrol(&mut agent, named),
        Err(Code::CertNameMismatch),
        "the certificate names another node"
    );
    let rival = rcgen::KeyPair::generate().expect("a key");
    let request = rcgen::CertificateParams::default()
        .serialize_request(&rival)
        .expect("a request");
    let theirs = place.house.enrolled(&request.pem().expect("text"), 1);
    assert_eq!(
        enrol(&mut agent, theirs),
        Err(Code::CertNameMismatch),
        "the certificate is for another key"
    );
    assert_eq!(agent.state().identity, None);

    assert_eq!(enrol(&mut agent, good.clone()), Ok(()));
    assert_eq!(
        enrol(&mut agent, good.clone()),
        Ok(()),
        "the agent may have died before it kept the answer"
    );
    let identity = agent.state().identity.expect("enrolled");
    assert_eq!((identity.node_id, identity.epoch), (place.house.node_id, 1));
    // Without somebody at the host the identity stays what it is.
    assert_eq!(enrol(&mut agent, place.house.enrolled(&csr, 2)), Err(Code::Forbidden));
    place.restart();
    let mut agent = place.connect();
    assert_eq!(agent.state().identity, Some(identity), "kept");
    place.enroll();
    assert_eq!(enrol(&mut agent, place.house.enrolled(&csr, 2)), Ok(()));
    assert_eq!(agent.state().identity.map(|identity| identity.epoch), Some(2));
}

#[test]
fn known_documents_with_a_spoilt_signature_are_not_kept() {
    let mut place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let mut bundle = place.house.bundle(1);
    bundle.delegation.signatures.clear();
    assert_eq!(agent.trust(bundle), Err(Code::ManifestRejected));
    // What an agent says must not keep the executor from starting again.
    place.restart();
    let result = place.connect().run(&place, &place.house.probe());
    assert_eq!(result.outcome, Outcome::Succeeded);
}

#[test]
fn trust_only_advances() {
    let mut place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let (one, three) = (
        place.house.bundle(1),
        place.house.bundle_with(3, |purpose| match purpose {
            Purpose::Diag => KeyStatus::Revoked,
            _ => KeyStatus::Active,
        }),
    );
    assert_eq!(agent.trust(three.clone()), Ok(3));
    assert_eq!(agent.trust(one), Err(Code::ManifestRejected), "rolled back");
    assert_eq!(
        agent.trust(place.house.bundle(3)),
        Err(Code::ManifestRejected),
        "another document, same number"
    );
    assert_eq!(
        agent.trust(House::new().bundle(4)),
        Err(Code::ManifestRejected),
        "another house"
    );
    place.restart();
    let mut agent = place.connect();
    assert_eq!(agent.state().manifest_version, 3, "kept");
    let probe = place.house.probe();
    let result = agent.run(&place, &probe);
    assert_eq!(
        (result.outcome, result.code),
        (Outcome::Refused, Some(Code::KeyRevoked)),
        "its key is revoked"
    );
}

#[test]
fn local_policy_narrows_what_is_compiled_in() {
    let place = Place::start(Profile::Cpu);
    let policy = place.dir.join("node.toml");
    let mut text = String::from_utf8(read(&policy)).expect("text");
    text.push_str("allowed_task_types = [\"diag.health_probe\"]\n");
    std::fs::write(&policy, &text).expect("written");
    let mut agent = place.connect();
    let payload = provision(&place, model::id::AllocationId::new());
    let result = agent.run(&place, &payload);
    assert_eq!(
        (result.outcome, result.code),
        (Outcome::Refused, Some(Code::TypeNotAllowedHere))
    );
    assert_eq!(agent.run(&place, &place.house.probe()).outcome, Outcome::Succeeded);
    // A policy that others can write is none.
    std::fs::set_permissions(&policy, PermissionsExt::from_mode(0o664)).expect("changed");
    let probe = place.house.probe();
    agent.offer_good(&place, &probe);
    assert_eq!(agent.not_taken(probe.task_id), Code::ConfigInvalid);
    std::fs::set_permissions(&policy, PermissionsExt::from_mode(0o644)).expect("changed");
    // A misspelt type allows nothing rather than something else.
    std::fs::write(&policy, text.replace("health_probe", "health_prob")).expect("written");
    let probe = place.house.probe();
    agent.offer_good(&place, &probe);
    assert_eq!(agent.not_taken(probe.task_id), Code::ConfigInvalid);
}

#[test]
fn the_device_vouches_for_requests_under_its_own_name_only() {
    let place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let key = rcgen::KeyPair::generate().expect("a key");
    let csr = rcgen::CertificateParams::default()
        .serialize_request(&key)
        .expect("a request");
    let ask = |agent: &mut Agent, kind, working_csr| ask_at(agent, kind, working_csr, place.house.now().plus_s(90));
    let pem = csr.pem().expect("text");
    let (jwt, device_csr) = ask(&mut agent, CertificateKind::Working, Some(pem.clone())).expect("a token");
    assert_eq!(device_csr, None);
    let claims = claims_of(&jwt);
    assert_eq!(
        claims["cnf"]["x5rt#S256"],
        BASE64URL_NOPAD.encode(Sha256::of(csr.der()).as_bytes())
    );
    assert_eq!(
        (&claims["sub"], &claims["sans"][0]),
        (&place.house.uri(1).into(), &place.house.uri(1).into())
    );
    assert_eq!((&claims["aud"][0], &claims["iss"]), (&"gpuaas".into(), &"nodes".into()));
    let iat = place.house.now().plus_s(90).millis() / 1000;
    assert_eq!(claims["iat"], iat, "by the later of the two clocks");
    assert!(claims["exp"].as_i64().is_some_and(|exp| exp - iat <= 300));
    let (again, _) = ask(&mut agent, CertificateKind::Working, Some(pem)).expect("a token");
    assert_ne!(claims_of(&again)["jti"], claims["jti"]);

    let (jwt, device_csr) = ask(&mut agent, CertificateKind::Device, None).expect("a token");
    let device_csr = device_csr.expect("for its own key");
    let (_, parsed) = x509_parser::pem::parse_x509_pem(device_csr.as_bytes()).expect("pem");
    let digest = BASE64URL_NOPAD.encode(Sha256::of(&parsed.contents).as_bytes());
    assert_eq!(claims_of(&jwt)["cnf"]["x5rt#S256"], digest);
    for nonsense in [
        None,
        Some(String::new()),
        Some("-----BEGIN CERTIFICATE REQUEST-----".to_owned()),
    ] {
        assert_eq!(
            ask(&mut agent, CertificateKind::Working, nonsense),
            Err(Code::CsrInvalid)
        );
    }

    let mut renew = |chain: String| {
        agent.send(&FromAgent::DeviceChain { request_id: 4, chain });
        agent.wait("an answer", |said| match said {
            FromExecutor::Ok { request_id: 4 } => Some(Ok(())),
            FromExecutor::Failed {
                request_id: 4, code, ..
            } => Some(Err(code)),
            _ => None,
        })
    };
    assert_eq!(
        renew(place.house.device_chain(&device_csr, &place.house.uri(1))),
        Ok(())
    );
    assert_eq!(
        renew(place.house.device_chain(&device_csr, &place.house.uri(2))),
        Err(Code::CertNameMismatch)
    );
    assert_eq!(renew("nonsense".to_owned()), Err(Code::CertNameMismatch));
    let older = place.house.device_chain(&device_csr, &place.house.uri(1));
    place.house.clock.advance(60_000);
    let newer = place.house.device_chain(&device_csr, &place.house.uri(1));
    assert_eq!(renew(newer.clone()), Ok(()));
    assert_eq!(renew(newer), Ok(()), "the agent may not have heard that it was taken");
    assert_eq!(renew(older), Err(Code::CertNameMismatch), "it would end sooner");
}

fn ask_at(
    agent: &mut Agent,
    kind: CertificateKind,
    working_csr: Option<String>,
    server_time: Timestamp,
) -> Result<(String, Option<String>), Code> {
    agent.send(&FromAgent::RenewToken {
        request_id: 9,
        kind,
        working_csr,
        server_time,
    });
    agent.wait("a token", |said| match said {
        FromExecutor::Token {
            request_id: 9,
            jwt,
            device_csr,
        } => Some(Ok((jwt, device_csr))),
        FromExecutor::Failed {
            request_id: 9, code, ..
        } => Some(Err(code)),
        _ => None,
    })
}

#[test]
fn a_clock_far_ahead_is_believed_only_where_our_own_is_provably_wrong() {
    let place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let mut issued_at = |server_time: Timestamp| {
        let (jwt, _) = ask_at(&mut agent, CertificateKind::Device, None, server_time).expect("a token");
        claims_of(&jwt)["iat"].as_i64().expect("a number")
    };
    let seconds = |at: Timestamp| at.millis() / 1000;
    let right = place.house.now();
    assert_eq!(issued_at(right.plus_s(300)), seconds(right.plus_s(300)));
    assert_eq!(issued_at(right.plus_s(301)), seconds(right));
    assert_eq!(issued_at(right.plus_s(365 * 86_400)), seconds(right));
    assert_eq!(issued_at(right.plus_s(-86_400)), seconds(right));
    // Before our own certificate began: then it is our clock that is wrong.
    place.house.clock.advance(-86_400_000);
    assert_eq!(issued_at(right), seconds(right));
}

#[test]
fn the_door_that_enroll_opens_closes_after_an_hour() {
    let mut place = Place::empty(Profile::Cpu);
    place.enroll();
    place.serve();
    let mut agent = place.connect();
    let csr = agent.keys().device_csr;
    place.house.clock.advance(3_600_001);
    assert_eq!(enrol(&mut agent, place.house.enrolled(&csr, 1)), Err(Code::Forbidden));
    assert_eq!(agent.state().identity, None);
    place.enroll();
    place.house.clock.advance(3_600_000);
    assert_eq!(enrol(&mut agent, place.house.enrolled(&csr, 1)), Ok(()));
}

#[test]
fn another_root_in_the_policy_stops_everything_new() {
    let place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let done = place.house.probe();
    let first = agent.run(&place, &done);
    assert_eq!(first.outcome, Outcome::Succeeded);
    let policy = place.dir.join("node.toml");
    let before = String::from_utf8(read(&policy)).expect("text");
    let ours = place.house.token(true).root_sha256.to_string();
    let theirs = House::new().token(true).root_sha256.to_string();
    let calls = place.pretend.calls();
    let probe = place.house.probe();
    for text in [before.replace(&ours, &theirs), String::new()] {
        std::fs::write(&policy, text).expect("written");
        agent.offer_good(&place, &probe);
        assert_eq!(agent.not_taken(probe.task_id), Code::RootMismatch);
    }
    // A limit that this build does not know is not simply left out.
    std::fs::write(&policy, format!("{before}allowed_task_type = []\n")).expect("written");
    agent.offer_good(&place, &probe);
    assert_eq!(agent.not_taken(probe.task_id), Code::ConfigInvalid);
    assert_eq!(place.pretend.calls(), calls);
    assert_eq!(
        agent.run(&place, &done).journal_seq,
        first.journal_seq,
        "what is done is known"
    );
    std::fs::write(&policy, format!("{before}\n[agent]\nanything = 1\n")).expect("written");
    assert_eq!(agent.run(&place, &probe).outcome, Outcome::Succeeded);
}

/// The claims, once the signature verifies under the key of the certificate in the header.
fn claims_of(jwt: &str) -> serde_json::Value {
    let parts: Vec<&str> = jwt.split('.').collect();
    let decode = |part: &str| BASE64URL_NOPAD.decode(part.as_bytes()).expect("base64url");
    let header: serde_json::Value = serde_json::from_slice(&decode(parts[0])).expect("json");
    assert_eq!(header["alg"], "ES256");
    let leaf = BASE64
        .decode(header["x5c"][0].as_str().expect("text").as_bytes())
        .expect("base64");
    let (_, leaf) = x509_parser::certificate::X509Certificate::from_der(&leaf).expect("a certificate");
    let key = UnparsedPublicKey::new(
        &ECDSA_P256_SHA256_FIXED,
        leaf.public_key().subject_public_key.data.as_ref(),
    );
    let message = format!("{}.{}", parts[0], parts[1]);
    key.verify(message.as_bytes(), &decode(parts[2]))
        .expect("signed by the device key");
    serde_json::from_slice(&decode(parts[1])).expect("json")
}
