//! The signed envelope (DSSE): a signature over the exact payload bytes and their type. What is parsed later are
//! those verified bytes and no others; there is no canonical form that two documents could share.

use data_encoding::BASE64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Sha256;
use crate::json;
use crate::key::{KeyId, PublicKey, SigningKey};
use crate::signal::Code;

/// Nothing that we sign is larger, base64 included.
pub const MAX_BYTES: usize = 256 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    #[serde(rename = "payloadType")]
    pub payload_type: String,
    /// Base64 of the signed bytes.
    pub payload: String,
    pub signatures: Vec<Signature>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    pub keyid: KeyId,
    /// Base64 of 64 bytes.
    pub sig: String,
}

/// The bytes that are signed: lengths first, so that no two (type, payload) pairs share an encoding.
fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut out = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    out.extend_from_slice(payload);
    out
}

/// Signs the bytes of a document under its type.
pub fn sign(payload_type: &str, payload: &[u8], keys: &[&SigningKey]) -> Envelope {
    let message = pae(payload_type, payload);
    Envelope {
        payload_type: payload_type.to_owned(),
        payload: BASE64.encode(payload),
        signatures: keys
            .iter()
            .map(|key| Signature {
                keyid: key.keyid(),
                sig: BASE64.encode(&key.sign(&message)),
            })
            .collect(),
    }
}

/// Serialises and signs.
pub fn sign_json<T: Serialize>(payload_type: &str, document: &T, keys: &[&SigningKey]) -> Envelope {
    let bytes = serde_json::to_vec(document).expect("our own documents have string keys and no failing serialisers");
    sign(payload_type, &bytes, keys)
}

impl Envelope {
    /// Bounded parse: size, then nesting, then shape.
    pub fn parse(bytes: &[u8]) -> Result<Self, Code> {
        if bytes.len() > MAX_BYTES {
            return Err(Code::EnvelopeTooLarge);
        }
        if !json::nesting_within(bytes, json::MAX_DEPTH) {
            return Err(Code::EnvelopeTooDeep);
        }
        serde_json::from_slice(bytes).map_err(|_| Code::EnvelopeMalformed)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings only")
    }

    /// The payload, not verified: for a digest or a first look, never for a decision.
    pub fn payload_unverified(&self) -> Result<Vec<u8>, Code> {
        BASE64
            .decode(self.payload.as_bytes())
            .map_err(|_| Code::EnvelopeMalformed)
    }

    /// What a refusal names: the digest of the payload, or of its text where it cannot be decoded.
    pub fn payload_digest(&self) -> Sha256 {
        match self.payload_unverified() {
            Ok(payload) => Sha256::of(&payload),
            Err(_) => Sha256::of(self.payload.as_bytes()),
        }
    }

    /// The payload, once its one signature verifies under the key that `find` knows for it. The type is compared
    /// after the signature, so that a stranger learns nothing from the difference.
    pub fn open(&self, payload_type: &str, find: impl Fn(&KeyId) -> Result<PublicKey, Code>) -> Result<Vec<u8>, Code> {
        let [signature] = self.signatures.as_slice() else {
            return Err(Code::EnvelopeMalformed);
        };
        let payload = self.payload_unverified()?;
        let key = find(&signature.keyid)?;
        if !self.signed_by(&key, &payload) {
            return Err(Code::SignatureInvalid);
        }
        if self.payload_type != payload_type {
            return Err(Code::PayloadTypeMismatch);
        }
        Ok(payload)
    }

    /// How many of `keys` have signed this payload; each key counts once however often it signed.
    pub fn count_signers(&self, payload: &[u8], keys: &[PublicKey]) -> usize {
        let mut distinct: Vec<PublicKey> = Vec::new();
        for key in keys {
            if !distinct.contains(key) && self.signed_by(key, payload) {
                distinct.push(*key);
            }
        }
        distinct.len()
    }

    fn signed_by(&self, key: &PublicKey, payload: &[u8]) -> bool {
        let message = pae(&self.payload_type, payload);
        let keyid = key.keyid();
        self.signatures.iter().filter(|s| s.keyid == keyid).any(|s| {
            BASE64
                .decode(s.sig.as_bytes())
                .is_ok_and(|signature| key.verifies(&message, &signature))
        })
    }
}

/// Parses verified bytes into the one struct they are meant for. Duplicate and unknown keys are errors, because
/// every document is a derived struct with `deny_unknown_fields`.
pub fn parse_payload<T: for<'de> Deserialize<'de>>(payload: &[u8]) -> Result<T, (Code, String)> {
    if !json::nesting_within(payload, json::MAX_DEPTH) {
        return Err((Code::PayloadMalformed, "nested too deeply".to_owned()));
    }
    serde_json::from_slice(payload).map_err(|error| (Code::PayloadMalformed, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_signed_bytes_under_the_signed_type_open() {
        let key = SigningKey::generate();
        let find = |id: &KeyId| {
            if *id == key.keyid() {
                Ok(key.public())
            } else {
                Err(Code::KeyUnknown)
            }
        };
        let envelope = sign("type/a", b"{\"x\":1}", &[&key]);
        assert_eq!(envelope.open("type/a", find), Ok(b"{\"x\":1}".to_vec()));
        assert_eq!(envelope.open("type/b", find), Err(Code::PayloadTypeMismatch));

        let mut retyped = envelope.clone();
        retyped.payload_type = "type/b".to_owned();
        assert_eq!(retyped.open("type/b", find), Err(Code::SignatureInvalid));

        let other = sign("type/a", b"{\"x\":1}", &[&SigningKey::generate()]);
        assert_eq!(other.open("type/a", find), Err(Code::KeyUnknown));

        let mut unsigned = envelope;
        unsigned.signatures.clear();
        assert_eq!(unsigned.open("type/a", find), Err(Code::EnvelopeMalformed));
    }

    #[test]
    fn one_key_counts_once() {
        let key = SigningKey::generate();
        let envelope = sign("t", b"p", &[&key, &key]);
        assert_eq!(envelope.count_signers(b"p", &[key.public(), key.public()]), 1);
    }

    #[test]
    fn size_and_depth_are_refused_before_parsing() {
        assert_eq!(Envelope::parse(&vec![b' '; MAX_BYTES + 1]), Err(Code::EnvelopeTooLarge));
        assert_eq!(Envelope::parse(&[b'['; 1000]), Err(Code::EnvelopeTooDeep));
        assert_eq!(
            Envelope::parse(b"{\"payloadType\":\"x\"}"),
            Err(Code::EnvelopeMalformed)
        );
    }
}
