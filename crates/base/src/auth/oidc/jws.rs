//! A signed token in its compact form. What its header says is never believed by itself: the key decides the algorithm,
//! and the header has to agree. Where the header says keys are to be found (`jku`, `x5u`, `jwk`) is not even read.

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Refusal;
use super::jwk::{Algorithm, Key};

/// Longer than any honest token; what carries hundreds of groups belongs elsewhere.
const LONGEST: usize = 16 * 1024;

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    /// Something that we would have to understand and do not.
    crit: Option<IgnoredAny>,
}

/// Taken apart, nothing checked.
#[derive(Debug)]
pub(super) struct Jws<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) kid: Option<String>,
    pub(super) typ: Option<String>,
    signed: &'a str,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

/// Has this the shape of one? Tokens of ours have no dots.
pub(in crate::auth) fn looks_like_one(text: &str) -> bool {
    text.len() <= LONGEST && text.bytes().filter(|byte| *byte == b'.').count() == 2
}

impl<'a> Jws<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, Refusal> {
        const SHAPE: Refusal = Refusal::Invalid("it is no signed token");
        if !looks_like_one(text) {
            return Err(SHAPE);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(SHAPE)?;
        let (header, payload) = signed.split_once('.').ok_or(SHAPE)?;
        let bytes = |part: &str| BASE64URL_NOPAD.decode(part.as_bytes()).map_err(|_| SHAPE);
        let header: Header = serde_json::from_slice(&bytes(header)?).map_err(|_| SHAPE)?;
        if header.crit.is_some() {
            return Err(Refusal::Invalid("it demands an extension that is not understood here"));
        }
        Ok(Self {
            algorithm: Algorithm::of(&header.alg).ok_or(Refusal::Invalid("its algorithm is not accepted here"))?,
            kid: header.kid,
            typ: header.typ,
            signed,
            payload: bytes(payload)?,
            signature: bytes(signature)?,
        })
    }

    /// The one key that may have signed this. Without a name only an only key is meant.
    pub(super) fn key<'k>(&self, keys: &'k [Key]) -> Option<&'k Key> {
        let mut fitting = keys.iter().filter(|key| match &self.kid {
            Some(kid) => key.kid.as_ref() == Some(kid),
            None => keys.len() == 1,
        });
        let (first, second) = (fitting.next(), fitting.next());
        first.filter(|_| second.is_none())
    }

    /// What was signed, once it is certain that this key did.
    pub(super) fn verified(&self, key: &Key) -> Result<&[u8], Refusal> {
        if key.algorithm != self.algorithm {
            return Err(Refusal::Invalid("its algorithm is not its key's"));
        }
        if !key.verifies(self.signed.as_bytes(), &self.signature) {
            return Err(Refusal::Invalid("its signature is not its key's"));
        }
        Ok(&self.payload)
    }
}
