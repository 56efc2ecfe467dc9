//! Thirty-two bytes that a wipe's markers are made of. Whoever cannot know them beforehand cannot have put them aside.

use crate::digest::Sha256;
use crate::id::TaskId;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Nonce([u8; 32]);

impl Nonce {
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// One that nobody can know beforehand.
    pub fn fresh() -> Self {
        Self(rand::random())
    }

    /// The nonce of an undo, which has no release of its own.
    pub fn of_task(task: TaskId) -> Self {
        Self(*Sha256::of(task.to_string().as_bytes()).as_bytes())
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Display for Nonce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Sha256::from_bytes(self.0).fmt(f)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a nonce is 64 lower-case hex characters")]
pub struct NonceError;

impl std::str::FromStr for Nonce {
    type Err = NonceError;
    fn from_str(text: &str) -> Result<Self, NonceError> {
        let bytes: Sha256 = text.parse().map_err(|_| NonceError)?;
        Ok(Self(*bytes.as_bytes()))
    }
}

crate::text_serde!(Nonce, "Nonce", "^[0-9a-f]{64}$");
