//! The provider's public keys. A key decides by its own type which one algorithm it verifies: RS256 for RSA, ES256 for
//! P-256, EdDSA for Ed25519. Keys for anything else, and those whose own words contradict each other, are left out.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;
use serde_json::Value;

/// More keys than any provider has at once.
const KEYS_MOST: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// What is not in this list does not exist here: no `none`, nothing with a shared secret.
    pub(super) fn of(word: &str) -> Option<Self> {
        match word {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) kid: Option<String>,
    pub(super) algorithm: Algorithm,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Point(Vec<u8>),
}

/// As a provider writes it; only public members are read.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

/// None: this is no list of keys at all.
pub(super) fn keys(body: &[u8]) -> Option<Vec<Key>> {
    let set: Set = serde_json::from_slice(body).ok()?;
    let read = set.keys.into_iter().take(KEYS_MOST);
    Some(
        read.filter_map(|one| serde_json::from_value(one).ok().and_then(key))
            .collect(),
    )
}

fn key(jwk: Jwk) -> Option<Key> {
    let signs = jwk.purpose.as_deref().is_none_or(|purpose| purpose == "sig");
    let verifies = jwk
        .key_ops
        .as_ref()
        .is_none_or(|ops| ops.iter().any(|op| op == "verify"));
    let (algorithm, material) = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", None) => {
            let (n, e) = (whole(jwk.n)?, whole(jwk.e)?);
            (Algorithm::Rs256, Material::Rsa { n, e })
        }
        ("EC", Some("P-256")) => {
            let point = [vec![4], exactly(jwk.x, 32)?, exactly(jwk.y, 32)?].concat();
            (Algorithm::Es256, Material::Point(point))
        }
        ("OKP", Some("Ed25519")) => (Algorithm::EdDsa, Material::Point(exactly(jwk.x, 32)?)),
        _ => return None,
    };
    let agrees = jwk
        .alg
        .as_deref()
        .is_none_or(|word| Algorithm::of(word) == Some(algorithm));
    (signs && verifies && agrees).then_some(Key {
        kid: jwk.kid,
        algorithm,
        material,
    })
}

fn bytes(text: Option<String>) -> Option<Vec<u8>> {
    BASE64URL_NOPAD.decode(text?.as_bytes()).ok()
}

fn exactly(text: Option<String>, length: usize) -> Option<Vec<u8>> {
    bytes(text).filter(|bytes| bytes.len() == length)
}

/// A number without leading zeros, as the verifier wants it.
fn whole(text: Option<String>) -> Option<Vec<u8>> {
    let bytes = bytes(text)?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Some(bytes[zeros..].to_vec()).filter(|bytes| !bytes.is_empty())
}

impl Key {
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match (&self.material, self.algorithm) {
            (Material::Rsa { n, e }, _) => RsaPublicKeyComponents { n, e }
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                .is_ok(),
            (Material::Point(point), Algorithm::EdDsa) => UnparsedPublicKey::new(&ED25519, point)
                .verify(message, signature)
                .is_ok(),
            (Material::Point(point), _) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                .verify(message, signature)
                .is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_that_contradicts_itself_is_left_out() {
        let x = BASE64URL_NOPAD.encode(&[1; 32]);
        let fine = json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "kid": "a" });
        let with = |name: &str, value: Value| {
            let mut key = fine.clone();
            key[name] = value;
            key
        };
        let set = json!({ "keys": [
            fine, with("use", json!("sig")), with("alg", json!("EdDSA")), with("key_ops", json!(["verify"])),
            with("use", json!("enc")), with("alg", json!("RS256")), with("alg", json!("HS256")),
            with("key_ops", json!(["sign"])), with("kty", json!("oct")), with("kty", json!("RSA")),
            with("crv", json!("X25519")), with("x", json!("AAAA")), with("kid", json!(7)), json!("key"), json!(null),
        ] });
        assert_eq!(keys(set.to_string().as_bytes()).expect("a list").len(), 4);
        assert!(keys(b"[]").is_none() && keys(b"{\"keys\":{}}").is_none());
        let many = json!({ "keys": vec![fine; 1000] });
        assert_eq!(keys(many.to_string().as_bytes()).expect("a list").len(), KEYS_MOST);
    }
}
