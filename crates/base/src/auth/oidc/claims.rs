//! What a verified token says, judged: by whom, for whom, until when, and of which kind. A claim of the wrong type is a
//! missing claim, and a missing claim is a refusal.

use model::time::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::Refusal;

/// How far two honest clocks may be apart.
const LEEWAY_S: i64 = 10;
/// Longer subjects are no identifiers (OpenID Connect Core 1.0, section 2).
const SUBJECT_LONGEST: usize = 255;

/// What kind of token is expected here. One is never good for the other's purpose.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected<'a> {
    /// For an API, which it names as audience.
    Access { audience: &'a str },
    /// About a sign-in that we began: for our client, with our nonce.
    Identity { client: &'a str, nonce: &'a str },
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Audience,
    exp: Seconds,
    iat: Seconds,
    nbf: Option<Seconds>,
    nonce: Option<String>,
    azp: Option<String>,
    /// Keycloak says the kind here.
    typ: Option<String>,
    at_hash: Option<IgnoredAny>,
    c_hash: Option<IgnoredAny>,
    events: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// NumericDate: a number, with or without a fraction. Text is no number.
#[derive(Clone, Copy, Deserialize)]
#[serde(from = "f64")]
struct Seconds(i64);

impl From<f64> for Seconds {
    fn from(seconds: f64) -> Self {
        // Saturates, which is what a date beyond all dates means.
        Self(seconds.floor() as i64)
    }
}

/// A person, as the provider knows them.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    pub issuer: String,
    pub subject: String,
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
    claims: Value,
}

pub(super) fn judge(
    payload: &[u8],
    typ: Option<&str>,
    issuer: &str,
    expected: Expected<'_>,
    now: Timestamp,
) -> Result<Identity, Refusal> {
    let claims: Claims = serde_json::from_slice(payload)
        .map_err(|_| Refusal::Invalid("it lacks one of iss, sub, aud, exp and iat, or has one of another type"))?;
    let all: Value = serde_json::from_slice(payload).map_err(|_| Refusal::Invalid("its claims are no JSON"))?;
    if claims.iss != issuer {
        return Err(Refusal::Invalid("another issuer made it"));
    }
    kind(&claims, typ, expected)?;
    if claims.sub.is_empty() || claims.sub.len() > SUBJECT_LONGEST || claims.sub.contains('\0') {
        return Err(Refusal::Invalid("its subject is empty or too long"));
    }
    let now_s = now.millis().div_euclid(1000);
    if claims.exp.0.saturating_add(LEEWAY_S) <= now_s {
        return Err(Refusal::Expired);
    }
    if claims.iat.0 > now_s + LEEWAY_S || claims.nbf.is_some_and(|nbf| nbf.0 > now_s + LEEWAY_S) {
        return Err(Refusal::Invalid("it is from the future"));
    }
    Ok(Identity {
        issuer: claims.iss,
        subject: claims.sub,
        issued_at: moment(claims.iat),
        expires_at: moment(claims.exp),
        claims: all,
    })
}

fn kind(claims: &Claims, typ: Option<&str>, expected: Expected<'_>) -> Result<(), Refusal> {
    let typ = typ.map(|typ| typ.to_ascii_lowercase());
    let typ = typ
        .as_deref()
        .map(|typ| typ.strip_prefix("application/").unwrap_or(typ));
    let is_for = |wanted: &str| match &claims.aud {
        Audience::One(aud) => aud == wanted,
        Audience::Many(list) => list.iter().any(|aud| aud == wanted),
    };
    let several = matches!(&claims.aud, Audience::Many(list) if list.len() > 1);
    match expected {
        Expected::Access { audience } => {
            let of_sign_in = claims.nonce.is_some() || claims.at_hash.is_some() || claims.c_hash.is_some();
            let says_so = claims.typ.as_deref().is_none_or(|typ| typ == "Bearer");
            let named = matches!(typ, None | Some("jwt" | "at+jwt"));
            if of_sign_in || claims.events.is_some() || !says_so || !named {
                return Err(Refusal::Invalid("it is no access token"));
            }
            if !is_for(audience) {
                return Err(Refusal::Invalid("it is for another audience"));
            }
        }
        Expected::Identity { client, nonce } => {
            let says_so = claims.typ.as_deref().is_none_or(|typ| typ == "ID");
            if !says_so || claims.events.is_some() || !matches!(typ, None | Some("jwt")) {
                return Err(Refusal::Invalid("it is no identity token"));
            }
            let party = match &claims.azp {
                Some(azp) => azp == client,
                None => !several,
            };
            if !is_for(client) || !party {
                return Err(Refusal::Invalid("it is for another client"));
            }
            if claims.nonce.as_deref() != Some(nonce) {
                return Err(Refusal::Invalid("it answers another sign-in"));
            }
        }
    }
    Ok(())
}

fn moment(seconds: Seconds) -> Timestamp {
    // Far beyond any date that a database keeps, yet in order.
    Timestamp::from_millis(seconds.0.clamp(0, 253_402_300_799).saturating_mul(1000))
}

impl Identity {
    /// A claim by its name, or by a path into objects.
    fn claim(&self, path: &str) -> Option<&Value> {
        self.claims
            .get(path)
            .or_else(|| path.split('.').try_fold(&self.claims, |value, part| value.get(part)))
    }

    /// Printable text from a claim, cut to a sensible length.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let text = self.claim(path)?.as_str()?;
        let text: String = text.chars().filter(|c| !c.is_control()).take(100).collect();
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// The words of a claim: one text, or a list of them.
    pub(super) fn words(&self, path: &str) -> Vec<&str> {
        match self.claim(path) {
            Some(Value::String(word)) => vec![word],
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }
}
