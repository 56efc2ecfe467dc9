//! The enrolment token: one string that an operator pastes on a host. It carries where to call, the hashes that
//! first contact needs to trust nobody in between, and a secret that works once.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

use crate::digest::Sha256;

const PREFIX: &str = "gpuaas-enrol-1.";

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnrolmentToken {
    /// The enrolment listener.
    pub url: String,
    /// Hash of the CA certificate that the listener's chain must contain.
    pub ca_sha256: Sha256,
    /// Hash of the root key that signs all delegations.
    pub root_sha256: Sha256,
    /// 256 random bits, base64url.
    pub secret: String,
    /// Made by a development control plane, whose keys lie around; real hosts refuse it.
    pub dev: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an enrolment token: it starts with `{PREFIX}` and is copied whole")]
pub struct EnrolmentTokenError;

/// The whole token, secret included. Deliberately not `Display`: logging it takes a decision.
impl EnrolmentToken {
    pub fn to_text(&self) -> String {
        let json = serde_json::to_vec(self).expect("strings only");
        format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&json))
    }
}

impl FromStr for EnrolmentToken {
    type Err = EnrolmentTokenError;
    fn from_str(text: &str) -> Result<Self, EnrolmentTokenError> {
        let body = text.trim().strip_prefix(PREFIX).ok_or(EnrolmentTokenError)?;
        if body.len() > 4096 {
            return Err(EnrolmentTokenError);
        }
        let json = BASE64URL_NOPAD
            .decode(body.as_bytes())
            .map_err(|_| EnrolmentTokenError)?;
        serde_json::from_slice(&json).map_err(|_| EnrolmentTokenError)
    }
}

impl fmt::Debug for EnrolmentToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnrolmentToken")
            .field("url", &self.url)
            .field("dev", &self.dev)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_string_and_hides_its_secret() {
        let token = EnrolmentToken {
            url: "https://127.0.0.1:9444".to_owned(),
            ca_sha256: Sha256::of(b"ca"),
            root_sha256: Sha256::of(b"root"),
            secret: "s3cret".to_owned(),
            dev: false,
        };
        assert_eq!(format!(" {}\n", token.to_text()).parse(), Ok(token.clone()));
        assert!(!format!("{token:?}").contains("s3cret"));
        assert!("gpuaas-enrol-1.AAAA".parse::<EnrolmentToken>().is_err());
    }
}
