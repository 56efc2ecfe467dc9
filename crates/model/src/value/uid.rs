//! The uid of a tenant's account: a range of its own, far from the host's.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u32", into = "u32")]
#[schemars(extend("minimum" = 20000, "maximum" = 59999))]
pub struct Uid(u32);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a tenant's uid lies between 20000 and 59999")]
pub struct UidError;

impl Uid {
    pub const MIN: u32 = 20_000;
    pub const MAX: u32 = 59_999;

    pub const fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for Uid {
    type Error = UidError;
    fn try_from(uid: u32) -> Result<Self, UidError> {
        if (Self::MIN..=Self::MAX).contains(&uid) {
            Ok(Self(uid))
        } else {
            Err(UidError)
        }
    }
}

impl From<Uid> for u32 {
    fn from(uid: Uid) -> u32 {
        uid.0
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
