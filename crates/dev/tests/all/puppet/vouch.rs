//! Renewal tokens as a device would sign them, held open so that a test can put anything into them before they are
//! signed, by the right key or by another.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use model::digest::Sha256;
use model::time::Timestamp;
use rcgen::KeyPair;
use serde_json::{Value, json};
use uuid::Uuid;

/// How long an honest token lives.
const LIFE_S: i64 = 300;

#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) header: Value,
    pub(crate) claims: Value,
}

impl Token {
    /// Every field as the executor would fill it for a working certificate.
    pub(crate) fn new(device_chain: &str, csr_pem: &str, audiences: &[String], uri: &str, now: Timestamp) -> Self {
        let now_s = now.millis() / 1000;
        Self {
            header: json!({ "alg": "ES256", "typ": "JWT", "x5c": x5c(device_chain) }),
            claims: json!({
                "iss": "gpuaas-device", "sub": uri, "aud": audiences, "sans": [uri], "kind": "working",
                "iat": now_s, "nbf": now_s, "exp": now_s + LIFE_S,
                "jti": Uuid::new_v4().simple().to_string(),
                "cnf": { "x5rt#S256": csr_digest(csr_pem) },
            }),
        }
    }

    pub(crate) fn head(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.header[key] = value.into();
        self
    }

    pub(crate) fn claim(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.claims[key] = value.into();
        self
    }

    /// Issued this many seconds away from now, with an honest life.
    pub(crate) fn shifted(self, seconds: i64) -> Self {
        ["iat", "nbf", "exp"].into_iter().fold(self, |token, key| {
            let at = token.claims[key].as_i64().expect("a number") + seconds;
            token.claim(key, at)
        })
    }

    pub(crate) fn signed(&self, key: &KeyPair) -> String {
        let message = self.message();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key.serialize_der()).expect("P-256");
        let signature = pair
            .sign(&SystemRandom::new(), message.as_bytes())
            .expect("a signature");
        format!("{message}.{}", BASE64URL_NOPAD.encode(signature.as_ref()))
    }

    /// With whatever bytes in the place of a signature.
    pub(crate) fn sealed_by(&self, seal: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
        let message = self.message();
        format!("{message}.{}", BASE64URL_NOPAD.encode(&seal(message.as_bytes())))
    }

    fn message(&self) -> String {
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        format!("{}.{}", part(&self.header), part(&self.claims))
    }
}

/// A chain as a token's header carries it.
pub(crate) fn x5c(chain_pem: &str) -> Vec<String> {
    let chain = wire::pem::certificates(chain_pem).expect("a chain");
    chain.iter().map(|der| BASE64.encode(der)).collect()
}

fn csr_digest(pem: &str) -> String {
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = BASE64.decode(body.trim().as_bytes()).expect("PEM is base64");
    BASE64URL_NOPAD.encode(Sha256::of(&der).as_bytes())
}
