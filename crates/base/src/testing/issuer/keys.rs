//! Keys that sign tokens, of the three kinds that are accepted.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    Rsa,
    P256,
    Ed25519,
}

#[derive(Debug)]
pub struct SigningKey {
    pub kid: String,
    pair: Pair,
}

#[derive(Debug)]
enum Pair {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    pub fn new(kid: &str, kind: KeyKind) -> Self {
        const MADE: &str = "a key can be made";
        let pair = match kind {
            KeyKind::Rsa => Pair::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).expect(MADE))),
            KeyKind::P256 => Pair::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect(MADE)),
            KeyKind::Ed25519 => Pair::Ed25519(Ed25519KeyPair::generate().expect(MADE)),
        };
        Self {
            kid: kid.to_owned(),
            pair,
        }
    }

    pub fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::P256(_) => "ES256",
            Pair::Ed25519(_) => "EdDSA",
        }
    }

    pub fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
        let mut jwk = match &self.pair {
            Pair::Rsa(pair) => {
                let (n, e) = rsa_numbers(pair.public_key().as_ref());
                json!({ "kty": "RSA", "n": text(n), "e": text(e) })
            }
            Pair::P256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": text(x), "y": text(y) })
            }
            Pair::Ed25519(pair) => json!({ "kty": "OKP", "crv": "Ed25519", "x": text(pair.public_key().as_ref()) }),
        };
        jwk["kid"] = json!(self.kid);
        jwk["use"] = json!("sig");
        jwk["alg"] = json!(self.algorithm());
        jwk
    }

    pub fn sign(&self, typ: &str, claims: &Value) -> String {
        self.sign_under(&json!({ "alg": self.algorithm(), "kid": self.kid, "typ": typ }), claims)
    }

    /// Under any header, true or not.
    pub fn sign_under(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let signed = format!("{}.{}", part(header), part(claims));
        format!(
            "{signed}.{}",
            BASE64URL_NOPAD.encode(&self.signature(signed.as_bytes()))
        )
    }

    fn signature(&self, message: &[u8]) -> Vec<u8> {
        const SIGNED: &str = "a key signs";
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .expect(SIGNED);
                signature
            }
            Pair::P256(pair) => pair.sign(&random, message).expect(SIGNED).as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }
}

/// The two numbers of an RSA public key: a DER sequence of two integers of our own making.
fn rsa_numbers(der: &[u8]) -> (&[u8], &[u8]) {
    fn item(der: &[u8]) -> (&[u8], &[u8]) {
        let (length, head) = match der[1] {
            short @ 0..=0x7f => (usize::from(short), 2),
            0x81 => (usize::from(der[2]), 3),
            _ => (usize::from(der[2]) << 8 | usize::from(der[3]), 4),
        };
        der[head..].split_at(length)
    }
    let (numbers, _) = item(der);
    let (n, rest) = item(numbers);
    let (e, _) = item(rest);
    (n.strip_prefix(&[0]).unwrap_or(n), e)
}
