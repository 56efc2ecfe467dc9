//! Tokens that try to be what they are not. Each is a good token with one thing changed, so that nothing but the change
//! can be what was refused.

use base::testing::issuer::{KeyKind, SigningKey};
use data_encoding::BASE64URL_NOPAD;
use model::signal::Code;
use serde_json::{Value, json};

use super::Scene;

/// A scene whose provider signs with this key, and the key itself.
async fn signed_by(kind: KeyKind) -> (Scene, SigningKey) {
    let scene = Scene::new().await;
    let key = SigningKey::new("current", kind);
    let again = SigningKey::new("other", kind);
    scene.issuer.sign_with(again, false);
    scene.issuer.sign_with(key, true);
    let stranger = SigningKey::new("current", kind);
    scene.ask(&scene.token("bob")).await.expect("the honest one comes in");
    (scene, stranger)
}

fn part(value: &Value) -> String {
    BASE64URL_NOPAD.encode(value.to_string().as_bytes())
}

#[tokio::test]
async fn abuse_53_claims() {
    let scene = Scene::new().await;
    scene.ask(&scene.token("bob")).await.expect("the honest one comes in");
    let now_s = scene.clock.now().millis() / 1000;
    let mut tried = 0;
    let mut attempts: Vec<(&str, Value)> = Vec::new();
    for required in ["iss", "sub", "aud", "exp", "iat"] {
        attempts.extend([
            (required, Value::Null),
            (required, json!(true)),
            (required, json!({ "a": 1 })),
        ]);
    }
    attempts.extend([
        ("iss", json!("https://evil.example")),
        ("iss", json!(format!("{}/", scene.issuer.url()))),
        ("iss", json!([scene.issuer.url()])),
        ("aud", json!("https://gpu.example/api2")),
        ("aud", json!("HTTPS://gpu.example/api")),
        ("aud", json!([])),
        ("aud", json!(["https://other.example"])),
        ("aud", json!(["https://gpu.example/api", 7])),
        ("sub", json!("")),
        ("sub", json!("x".repeat(256))),
        ("sub", json!(["sub-ada"])),
        ("sub", json!(7)),
        ("exp", json!((now_s + 300).to_string())),
        ("iat", json!(now_s + 3600)),
        ("nbf", json!(now_s + 3600)),
        ("nbf", json!((now_s - 60).to_string())),
        // What marks tokens of another kind.
        ("nonce", json!("n")),
        ("at_hash", json!("h")),
        ("c_hash", json!("h")),
        ("typ", json!("ID")),
        ("typ", json!("Refresh")),
        (
            "events",
            json!({ "http://schemas.openid.net/event/backchannel-logout": {} }),
        ),
    ]);
    for (claim, value) in attempts {
        let mut claims = scene.claims("ada");
        claims[claim] = value.clone();
        if value.is_null() {
            claims.as_object_mut().expect("an object").remove(claim);
        }
        assert_eq!(
            scene.refused(&scene.issuer.access_token(&claims)).await,
            Code::TokenInvalid,
            "{claim}: {value}"
        );
        tried += 1;
    }
    let mut old = scene.claims("ada");
    old["exp"] = json!(now_s - 11);
    assert_eq!(
        scene.refused(&scene.issuer.access_token(&old)).await,
        Code::TokenExpired
    );
    assert_eq!((tried, scene.users().await), (37, 1), "nobody else became a user");
    scene
        .ask(&scene.token("ada"))
        .await
        .expect("unchanged, each would have opened");
    assert_eq!(scene.users().await, 2);
}

#[tokio::test]
async fn abuse_53_algorithms() {
    for kind in [KeyKind::Rsa, KeyKind::P256, KeyKind::Ed25519] {
        let (scene, stranger) = signed_by(kind).await;
        let claims = scene.claims("ada");
        let word = stranger.algorithm();
        let mut attempts = Vec::new();
        // Unsigned, under every spelling.
        for none in ["none", "None", "NONE", ""] {
            let signed = format!("{}.{}", part(&json!({ "alg": none, "kid": "current" })), part(&claims));
            attempts.extend([format!("{signed}."), format!("{signed}.AAAA")]);
        }
        // The public key as a shared secret, in the forms in which somebody might have it.
        let jwk = scene.issuer.jwk();
        let texts = ["n", "x"]
            .iter()
            .filter_map(|name| jwk[*name].as_str().map(str::to_owned));
        for secret in texts.chain([jwk.to_string()]) {
            let signed = format!(
                "{}.{}",
                part(&json!({ "alg": "HS256", "kid": "current" })),
                part(&claims)
            );
            let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret.as_bytes());
            let tag = aws_lc_rs::hmac::sign(&key, signed.as_bytes());
            attempts.push(format!("{signed}.{}", BASE64URL_NOPAD.encode(tag.as_ref())));
        }
        // A stranger's key of the same name; other algorithms; a key that the token itself brings.
        for header in [
            json!({ "alg": word, "kid": "current" }),
            json!({ "alg": word, "kid": "current", "jwk": stranger.jwk() }),
            json!({ "alg": word }),
            json!({ "alg": word, "kid": "other" }),
            json!({ "alg": word, "kid": "nobody" }),
            json!({ "alg": word, "kid": "../../etc/passwd" }),
            json!({ "alg": word, "kid": "current' or '1'='1" }),
            json!({ "alg": word, "kid": ["current"] }),
            json!({ "alg": "RS512", "kid": "current" }),
            json!({ "alg": "PS256", "kid": "current" }),
            json!({ "alg": "ES384", "kid": "current" }),
            json!({ "kid": "current" }),
        ] {
            attempts.push(stranger.sign_under(&header, &claims));
        }
        // A good signature under another algorithm's name, and of another key type.
        for other in ["RS256", "ES256", "EdDSA"].into_iter().filter(|other| *other != word) {
            attempts.push(stranger.sign_under(&json!({ "alg": other, "kid": "current" }), &claims));
        }
        for token in attempts {
            assert_eq!(scene.refused(&token).await, Code::TokenInvalid, "{kind:?} {token}");
        }
        assert_eq!(scene.users().await, 1, "{kind:?}");
    }
}

/// What the provider itself signed, put together differently.
#[tokio::test]
async fn abuse_53_shapes() {
    let (scene, _) = signed_by(KeyKind::P256).await;
    let good = scene.token("ada");
    let (signed, signature) = good.rsplit_once('.').expect("three parts");
    let (header, payload) = signed.split_once('.').expect("three parts");
    let foreign = part(&scene.claims("bob"));
    for token in [
        signed.to_owned(),
        format!("{signed}."),
        format!("{signed}.{signature}="),
        format!("{signed}.{signature}.x"),
        format!("{header}.{foreign}.{signature}"),
        format!(
            "{}.{payload}.{signature}",
            part(&json!({ "alg": "ES256", "kid": "current", "x": 1 }))
        ),
        format!("{header}.{payload}.{}", BASE64URL_NOPAD.encode(&[0; 64])),
        format!("{header}..{signature}"),
        format!("..{signature}"),
        "..".to_owned(),
        format!("{good}{}", "A".repeat(20_000)),
    ] {
        assert_eq!(scene.refused(&token).await, Code::TokenInvalid, "{token}");
    }
    // Without a name of its key a token is nobody's while there are two keys, and the only key's when there is one.
    let nameless = scene
        .issuer
        .sign_under(&json!({ "alg": "ES256" }), &scene.claims("ada"));
    assert_eq!(scene.refused(&nameless).await, Code::TokenInvalid);
    assert_eq!(scene.users().await, 1);
    scene.ask(&good).await.expect("and as it was signed it opens");
    let alone = Scene::new().await;
    let nameless = alone
        .issuer
        .sign_under(&json!({ "alg": "ES256" }), &alone.claims("ada"));
    alone.ask(&nameless).await.expect("which other key could it be");
}

/// Where a token says keys are to be found, nobody looks.
#[tokio::test]
async fn abuse_53_foreign_keys() {
    let (scene, stranger) = signed_by(KeyKind::P256).await;
    let evil = base::testing::issuer::Issuer::start(Vec::new(), scene.clock.clone())
        .await
        .expect("a port");
    let url = format!("{}/jwks", evil.url());
    for name in ["jku", "x5u"] {
        let mut header = json!({ "alg": "ES256", "kid": "current" });
        header[name] = json!(url);
        assert_eq!(
            scene.refused(&stranger.sign_under(&header, &scene.claims("ada"))).await,
            Code::TokenInvalid
        );
    }
    let critical = json!({ "alg": "ES256", "kid": "current", "crit": ["exp"] });
    assert_eq!(
        scene
            .refused(&stranger.sign_under(&critical, &scene.claims("ada")))
            .await,
        Code::TokenInvalid
    );
    assert_eq!((evil.key_reads(), scene.users().await), (0, 1));
}
