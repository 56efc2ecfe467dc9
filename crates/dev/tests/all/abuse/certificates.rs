//! Node A wants a certificate in B's name. The path, the request, the token's subject and its names are tried in all
//! combinations, and then every other way to spoil a token.

use std::collections::BTreeSet;

use aws_lc_rs::hmac;
use dev::town::Town;
use fleet::certificate::Ca;
use model::node_api::{CertificateAnswer, CertificateKind, PingAnswer};
use model::signal::Code;
use model::time::Timestamp;
use rcgen::{CertificateParams, KeyPair, SanType};
use serde_json::json;
use wire::tls::PeerCertificate;

use super::{audited, refused, snapshot};
use crate::EXE;
use crate::puppet::{Puppet, Token, csr, get, node_door, x5c};

const TABLES: [&str; 2] = ["certificate", "renewal_token"];

#[tokio::test(flavor = "multi_thread")]
async fn abuse_40_foreign_names() {
    let town = Town::start(EXE).await;
    let a = Puppet::enrol(&town, "a").await;
    let b = Puppet::enrol(&town, "b").await;
    for kind in [CertificateKind::Working, CertificateKind::Device] {
        names(&town, &a, &b, kind).await;
    }
    borrowed_chains(&town, &a, &b).await;
    spoilt_tokens(&town, &a).await;
    used_twice(&town, &a).await;
    town.end().await;
}

/// Where a name of somebody can stand, and whose it is.
async fn names(town: &Town, a: &Puppet, b: &Puppet, kind: CertificateKind) {
    let (own, foreign) = (a.uri(), b.uri());
    let mut outcomes = BTreeSet::new();
    for path in [a.id(), b.id()] {
        for asked in [None, Some(&own), Some(&foreign)] {
            for sub in [&own, &foreign] {
                for sans in [vec![&own], vec![&foreign], vec![&own, &foreign]] {
                    let honest = path == a.id() && asked != Some(&foreign) && *sub == own && sans == [&own];
                    let key = KeyPair::generate().expect("a key");
                    let request = csr(&key, asked.map(String::as_str));
                    let token = a.token(&request, town.db.clock().now());
                    let token = token
                        .claim("sub", sub.as_str())
                        .claim("sans", json!(sans))
                        .claim("kind", json!(kind));
                    let before = snapshot(town, &TABLES).await;
                    let answer = a.renew(path, kind, &request, token.signed(&a.keys.device)).await;
                    outcomes.insert(honest);
                    if honest {
                        let issued: CertificateAnswer = answer.json().expect("its own name it may have");
                        assert_eq!(name_in(&issued.chain), own);
                        continue;
                    }
                    let row = audited(town, &refused(&answer, Code::CertNameMismatch)).await;
                    assert_eq!(
                        (row.action.as_str(), row.target_id),
                        ("certificate.renew", path.to_string())
                    );
                    assert_eq!(row.actor_id, a.id().to_string(), "the audit names who signed");
                    assert_eq!(snapshot(town, &TABLES).await, before, "nothing was issued");
                }
            }
        }
    }
    assert_eq!(outcomes.len(), 2, "both kinds were tried");
}

fn name_in(chain: &str) -> String {
    let chain = wire::pem::certificates(chain).expect("a chain");
    let leaf = PeerCertificate::parse(&chain[0]).expect("a certificate");
    leaf.spiffe.expect("a name of ours").to_string()
}

/// Certificates are no secrets: A may know B's, and can make some of its own.
async fn borrowed_chains(town: &Town, a: &Puppet, b: &Puppet) {
    let before = snapshot(town, &TABLES).await;
    let now = town.db.clock().now();
    let request = csr(&KeyPair::generate().expect("a key"), None);
    let foreign_ca = foreign_ca(town, now);
    let name = b.uri().parse().expect("a name");
    let from_foreign_ca = foreign_ca
        .issue_device(&csr(&a.keys.device, None), &name, 3600, now)
        .expect("a foreign CA signs anything");
    let mut own_making = CertificateParams::default();
    own_making.subject_alt_names = vec![SanType::URI(b.uri().as_str().try_into().expect("ASCII"))];
    let self_signed = own_making.self_signed(&a.keys.device).expect("self-signed").pem();
    let b_token = Token::new(
        &b.answer.device_chain,
        &request,
        &b.answer.token_audiences,
        &b.uri(),
        now,
    );
    // One certificate shown, another one's issuer behind it.
    let mut grafted = x5c(&self_signed);
    grafted.extend(x5c(&b.answer.device_chain));
    for (what, chain, key) in [
        (
            "B's certificate under A's key",
            x5c(&b.answer.device_chain),
            &a.keys.device,
        ),
        ("self-signed", x5c(&self_signed), &a.keys.device),
        ("self-signed before B's", grafted, &a.keys.device),
        (
            "of a foreign CA of the same name",
            x5c(&from_foreign_ca.pem),
            &a.keys.device,
        ),
        ("B's working certificate", x5c(&b.answer.working.chain), &b.keys.working),
        ("none", Vec::new(), &a.keys.device),
    ] {
        let token = b_token.clone().head("x5c", chain).signed(key);
        let answer = a.renew(b.id(), CertificateKind::Working, &request, token).await;
        let error = refused(&answer, Code::DeviceTokenInvalid);
        let row = audited(town, &error).await;
        assert_eq!(
            (row.action.as_str(), row.actor_id.as_str()),
            ("certificate.renew", "unverified"),
            "{what}"
        );
    }
    assert_eq!(snapshot(town, &TABLES).await, before);
    let honest = b
        .renew(
            b.id(),
            CertificateKind::Working,
            &request,
            b_token.signed(&b.keys.device),
        )
        .await;
    assert!(honest.status.is_success(), "B itself may: {honest:?}");
}

/// Another installation's authority, in the same words as ours.
fn foreign_ca(town: &Town, now: Timestamp) -> Ca {
    let dir = town.dir().join("foreign");
    std::fs::create_dir(&dir).expect("a directory");
    Ca::create(&dir, true, now).expect("a CA");
    Ca::load(&dir).expect("a CA")
}

async fn spoilt_tokens(town: &Town, a: &Puppet) {
    let before = snapshot(town, &TABLES).await;
    let key = KeyPair::generate().expect("a key");
    let (request, other) = (csr(&key, None), csr(&KeyPair::generate().expect("a key"), None));
    let now = town.db.clock().now();
    let now_s = now.millis() / 1000;
    let token = a.token(&request, now);
    let device = &a.keys.device;
    // The public key of the certificate as an HMAC secret: what confused verifiers fell for.
    let hs256 = |message: &[u8]| {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, device.public_key_raw());
        hmac::sign(&secret, message).as_ref().to_vec()
    };
    let claim = |key: &str, value: serde_json::Value| token.clone().claim(key, value).signed(device);
    for (what, spoilt, code) in [
        (
            "alg none",
            token.clone().head("alg", "none").sealed_by(|_| Vec::new()),
            Code::DeviceTokenInvalid,
        ),
        (
            "alg HS256",
            token.clone().head("alg", "HS256").sealed_by(hs256),
            Code::DeviceTokenInvalid,
        ),
        ("HS256 as ES256", token.sealed_by(hs256), Code::DeviceTokenInvalid),
        (
            "no signature",
            token.sealed_by(|_| Vec::new()),
            Code::DeviceTokenInvalid,
        ),
        ("working key", token.signed(&a.keys.working), Code::DeviceTokenInvalid),
        (
            "another request",
            a.token(&other, now).signed(device),
            Code::DeviceTokenInvalid,
        ),
        (
            "another audience",
            claim("aud", json!(["gpuaas:elsewhere:renew"])),
            Code::DeviceTokenInvalid,
        ),
        (
            "a token for a device credential",
            claim("kind", json!("device")),
            Code::DeviceTokenInvalid,
        ),
        ("no audience", claim("aud", json!([])), Code::DeviceTokenInvalid),
        (
            "audience as text",
            claim("aud", token.claims["aud"][0].clone()),
            Code::DeviceTokenInvalid,
        ),
        ("no kind", claim("kind", json!(null)), Code::DeviceTokenInvalid),
        ("no jti", claim("jti", json!("")), Code::DeviceTokenInvalid),
        ("no expiry", claim("exp", json!(null)), Code::DeviceTokenInvalid),
        (
            "an hour long",
            claim("exp", json!(now_s + 3600)),
            Code::DeviceTokenInvalid,
        ),
        (
            "longer than numbers",
            token.clone().claim("exp", i64::MAX).claim("iat", -1).signed(device),
            Code::DeviceTokenInvalid,
        ),
        (
            "ends before it begins",
            claim("exp", json!(now_s - 1)),
            Code::DeviceTokenInvalid,
        ),
        ("expired", token.clone().shifted(-3600).signed(device), Code::ClockSkew),
        (
            "not yet valid",
            token.clone().shifted(3600).signed(device),
            Code::ClockSkew,
        ),
        ("nothing", String::new(), Code::DeviceTokenInvalid),
        (
            "four parts",
            format!("{}.x", token.signed(device)),
            Code::DeviceTokenInvalid,
        ),
    ] {
        let answer = a.renew(a.id(), CertificateKind::Working, &request, spoilt).await;
        assert!(!answer.status.is_success(), "{what}: {answer:?}");
        let error = refused(&answer, code);
        // A wrong clock is no attempt on anybody; it is told what time it is.
        if code == Code::ClockSkew {
            assert!(error.details["server_time"].is_string(), "{error:?}");
        } else {
            audited(town, &error).await;
        }
    }
    assert_eq!(snapshot(town, &TABLES).await, before);
    let honest = a
        .renew(a.id(), CertificateKind::Working, &request, token.signed(device))
        .await;
    assert!(honest.status.is_success(), "the unspoilt one is taken: {honest:?}");
}

async fn used_twice(town: &Town, a: &Puppet) {
    let key = KeyPair::generate().expect("a key");
    let request = csr(&key, None);
    let token = a.token(&request, town.db.clock().now());
    let first = a
        .renew(a.id(), CertificateKind::Working, &request, token.signed(&a.keys.device))
        .await;
    let issued: CertificateAnswer = first.json().expect("once it works");
    let before = snapshot(town, &TABLES).await;
    // Signed anew, so that only the id in it is the same.
    for _ in 0..2 {
        let again = a
            .renew(a.id(), CertificateKind::Working, &request, token.signed(&a.keys.device))
            .await;
        audited(town, &refused(&again, Code::DeviceTokenInvalid)).await;
    }
    // Nor does a token for the one kind bring the other.
    let fresh = a.token(&request, town.db.clock().now()).signed(&a.keys.device);
    let device = a.renew(a.id(), CertificateKind::Device, &request, fresh).await;
    audited(town, &refused(&device, Code::DeviceTokenInvalid)).await;
    assert_eq!(snapshot(town, &TABLES).await, before);
    let inside = node_door(&town.platform.node_url, &issued.chain, &key, &issued.ca_bundle);
    let ping: PingAnswer = get(&inside, &a.path("ping")).await.json().expect("the new one works");
    assert_eq!(ping.node_id, a.id());
}
