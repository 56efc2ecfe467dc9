//! A browser signs in: code with PKCE, state and nonce. What we must remember until it comes back travels in a cookie of
//! that very browser, so that nobody can finish a sign-in which another began, and strangers cost us no row.

use data_encoding::BASE64URL_NOPAD;
use http::HeaderValue;
use model::digest::Sha256;
use model::signal::Code;
use serde_json::Value;
use subtle::ConstantTimeEq;
use wire::form::{encode, with_query};

use super::claims::Expected;
use super::{Identity, Oidc, Refusal};
use crate::http::ApiError;

/// A sign-in under way: what the cookie holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    state: String,
    nonce: String,
    verifier: String,
    /// Where to go afterwards; a path of ours.
    pub next: String,
}

fn random() -> String {
    BASE64URL_NOPAD.encode(&rand::random::<[u8; 32]>())
}

/// What the provider is shown of a verifier beforehand (S256).
pub fn challenge(verifier: &str) -> String {
    BASE64URL_NOPAD.encode(Sha256::of(verifier.as_bytes()).as_bytes())
}

impl Attempt {
    pub fn new(next: Option<&str>) -> Self {
        // A path and nothing that a browser could read as another host.
        let ours = |path: &&str| {
            path.starts_with('/')
                && !path.starts_with("//")
                && path.len() <= 512
                && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        };
        Self {
            state: random(),
            nonce: random(),
            verifier: random(),
            next: next.filter(ours).unwrap_or("/").to_owned(),
        }
    }

    pub fn cookie(&self) -> String {
        let next = BASE64URL_NOPAD.encode(self.next.as_bytes());
        [self.state.as_str(), &self.nonce, &self.verifier, &next].join(".")
    }

    /// From the cookie, if the browser that comes back with `state` is the one that was sent away with it.
    pub fn of_cookie(cookie: &str, state: &str) -> Option<Self> {
        let parts: Vec<&str> = cookie.split('.').collect();
        let [kept, nonce, verifier, next] = parts.as_slice() else {
            return None;
        };
        let same = bool::from(kept.as_bytes().ct_eq(state.as_bytes()));
        let long = [kept, nonce, verifier].iter().all(|part| part.len() == 43);
        let next = String::from_utf8(BASE64URL_NOPAD.decode(next.as_bytes()).ok()?).ok()?;
        (same && long).then(|| Self {
            state: (*kept).to_owned(),
            nonce: (*nonce).to_owned(),
            verifier: (*verifier).to_owned(),
            next: Self::new(Some(&next)).next,
        })
    }
}

impl Oidc {
    /// Where to send the browser.
    pub async fn begin(&self, attempt: &Attempt) -> Result<String, ApiError> {
        let client = self.0.client_id.as_deref().ok_or(Code::SignInNotConfigured)?;
        let known = self.0.directory.known(|_| true).await?;
        let page = known.endpoints.authorization_endpoint.as_deref();
        let query = [
            ("response_type", "code"),
            ("client_id", client),
            ("redirect_uri", &self.0.redirect_uri),
            ("scope", &self.0.scopes),
            ("state", &attempt.state),
            ("nonce", &attempt.nonce),
            ("code_challenge", &challenge(&attempt.verifier)),
            ("code_challenge_method", "S256"),
        ];
        Ok(with_query(page.ok_or(Code::SignInNotConfigured)?, &query))
    }

    /// Who it was, for the code that the browser brought back.
    pub async fn finish(&self, attempt: &Attempt, code: &str) -> Result<Identity, ApiError> {
        let client = self.0.client_id.as_deref().ok_or(Code::SignInNotConfigured)?;
        let known = self.0.directory.known(|_| true).await?;
        let url = known
            .endpoints
            .token_endpoint
            .as_deref()
            .ok_or(Code::SignInNotConfigured)?;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &self.0.redirect_uri),
            ("client_id", client),
            ("code_verifier", &attempt.verifier),
        ];
        let methods = known.endpoints.token_endpoint_auth_methods_supported.as_deref();
        let by_header = methods.is_none_or(|all| all.iter().any(|one| one == "client_secret_basic"));
        let mut authorization = None;
        match self.0.client_secret.as_ref().map(|secret| secret.reveal()) {
            Some(secret) if by_header => authorization = basic(client, secret),
            Some(secret) => form.push(("client_secret", secret)),
            None => {}
        }
        let posted = self.0.directory.fetch.post(url, &form, authorization).await;
        let answer = posted.map_err(|error| {
            tracing::warn!("the identity provider does not exchange a code: {error:#}");
            ApiError::from(Refusal::Unavailable)
        })?;
        let Some(token) = answer.get("id_token").and_then(Value::as_str) else {
            let word = answer.get("error").and_then(Value::as_str).unwrap_or("no id_token");
            tracing::warn!(
                word = word.get(..64).unwrap_or(word),
                "the identity provider refused a code"
            );
            return Err(Code::SignInRefused.into());
        };
        let nonce = attempt.nonce.as_str();
        Ok(self.judged(token, Expected::Identity { client, nonce }).await?)
    }
}

/// RFC 6749, 2.3.1: both parts are form-encoded first.
fn basic(client: &str, secret: &str) -> Option<HeaderValue> {
    let pair = format!("{}:{}", encode(client), encode(secret));
    let text = format!("Basic {}", data_encoding::BASE64.encode(pair.as_bytes()));
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_browser_that_began_can_finish() {
        let attempt = Attempt::new(Some("/nodes?a=b"));
        let cookie = attempt.cookie();
        assert_eq!(Attempt::of_cookie(&cookie, &attempt.state), Some(attempt.clone()));
        let other = Attempt::new(None);
        assert_eq!(Attempt::of_cookie(&cookie, &other.state), None);
        assert_eq!(Attempt::of_cookie(&other.cookie(), &attempt.state), None);
        for bad in ["", "...", ".a.b.Lw", &cookie[1..], &format!("{cookie}.")] {
            assert_eq!(Attempt::of_cookie(bad, ""), None, "{bad}");
        }
    }

    #[test]
    fn the_way_back_stays_in_the_house() {
        for path in [
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "evil",
            "",
            "/a b",
            "/\r\nx: y",
            "/é",
        ] {
            assert_eq!(Attempt::new(Some(path)).next, "/", "{path}");
        }
        assert_eq!(Attempt::new(Some("/nodes?x=1#y")).next, "/nodes?x=1#y");
    }
}
