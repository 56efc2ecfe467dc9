//! Ed25519 keys. Verification is always strict: the lenient form accepts the identity point as a public key
//! that signs anything.

use std::fmt;
use std::str::FromStr;

use data_encoding::{BASE64, HEXLOWER};
use ed25519_dalek::Signer;
use sha2::Digest;

/// A signing key. It has no `Debug` that prints it and no serde; `to_text` is the one way out, for its key file.
#[derive(Clone)]
pub struct SigningKey(ed25519_dalek::SigningKey);

const KEY_FILE_PREFIX: &str = "gpuaas-ed25519-v1:";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("not an Ed25519 key in the form this platform writes")]
    Malformed,
}

impl SigningKey {
    pub fn generate() -> Self {
        Self::from_seed(rand::random())
    }

    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(&seed))
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    pub fn keyid(&self) -> KeyId {
        self.public().keyid()
    }

    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }

    /// For the key file, which is 0600 and belongs to one role.
    pub fn to_text(&self) -> String {
        format!("{KEY_FILE_PREFIX}{}\n", BASE64.encode(&self.0.to_bytes()))
    }

    pub fn from_text(text: &str) -> Result<Self, KeyError> {
        let body = text
            .trim_end()
            .strip_prefix(KEY_FILE_PREFIX)
            .ok_or(KeyError::Malformed)?;
        let bytes = BASE64.decode(body.as_bytes()).map_err(|_| KeyError::Malformed)?;
        let seed: [u8; 32] = bytes.try_into().map_err(|_| KeyError::Malformed)?;
        Ok(Self::from_seed(seed))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.keyid())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub fn keyid(&self) -> KeyId {
        let digest: [u8; 32] = sha2::Sha256::digest(self.0).into();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        KeyId(id)
    }

    /// Strict: weak keys and malleable signatures are refused.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let Ok(signature) = ed25519_dalek::Signature::from_slice(signature) else {
            return false;
        };
        match ed25519_dalek::VerifyingKey::from_bytes(&self.0) {
            Ok(key) => key.verify_strict(message, &signature).is_ok(),
            Err(_) => false,
        }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bytes = BASE64.decode(text.as_bytes()).map_err(|_| KeyError::Malformed)?;
        bytes.try_into().map(Self).map_err(|_| KeyError::Malformed)
    }
}

/// The first 16 bytes of the SHA-256 of the public key, in hex.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId([u8; 16]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for KeyId {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| KeyError::Malformed)?;
        bytes.try_into().map(Self).map_err(|_| KeyError::Malformed)
    }
}

crate::text_serde!(PublicKey, "PublicKey", "^[A-Za-z0-9+/]{43}=$");
crate::text_serde!(KeyId, "SigningKeyId", "^[0-9a-f]{32}$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_file() {
        let key = SigningKey::generate();
        let again = SigningKey::from_text(&key.to_text()).expect("own text");
        assert_eq!(again.keyid(), key.keyid());
        assert!(SigningKey::from_text("nonsense").is_err());
    }

    #[test]
    fn a_weak_key_verifies_nothing() {
        // The identity point with an all-zero S verifies any message under the lenient equation.
        let mut identity = [0; 32];
        identity[0] = 1;
        let mut signature = [0; 64];
        signature[0] = 1;
        assert!(!PublicKey::from_bytes(identity).verifies(b"anything", &signature));
    }
}
