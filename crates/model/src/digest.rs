//! SHA-256 as a value: 32 bytes inside, 64 lower-case hex characters outside.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use sha2::Digest;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sha256([u8; 32]);

/// A digest in the making, of what does not fit into memory.
#[derive(Clone, Default)]
pub struct Hasher(sha2::Sha256);

impl Hasher {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn done(self) -> Sha256 {
        Sha256(self.0.finalize().into())
    }
}

impl Sha256 {
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not 64 lower-case hex characters")]
pub struct Sha256Error;

impl FromStr for Sha256 {
    type Err = Sha256Error;
    fn from_str(text: &str) -> Result<Self, Sha256Error> {
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| Sha256Error)?;
        bytes.try_into().map(Self).map_err(|_| Sha256Error)
    }
}

crate::text_serde!(Sha256, "Sha256", "^[0-9a-f]{64}$");
