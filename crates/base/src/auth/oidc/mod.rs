//! People whom an identity provider vouches for (OpenID Connect). Promises that a token counts only if a published key of
//! the configured issuer signed it, for us, for this purpose, and now; and that strangers' tokens cost the provider at
//! most one look at its keys a minute. While it is away, known keys count for a day.

mod claims;
mod directory;
mod fetch;
mod jwk;
mod jws;
mod person;
mod sign_in;

use std::sync::Arc;

use model::signal::Code;

use crate::clock::Clock;
use crate::config::{Config, HiddenText};
use crate::http::ApiError;
use claims::Expected;
pub use claims::Identity;
use directory::Directory;
use jws::Jws;
pub(super) use jws::looks_like_one;
pub(super) use person::RoleMap;
pub use person::ensure_person;
pub use sign_in::{Attempt, challenge};

/// Why a token of the provider opens nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Invalid(&'static str),
    Expired,
    /// It may be good: nobody can tell now.
    Unavailable,
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid(why) => {
                Self::new(Code::TokenInvalid).message(format!("The provider's token is refused: {why}."))
            }
            Refusal::Expired => Self::new(Code::TokenExpired),
            Refusal::Unavailable => Self::new(Code::IdentityUnavailable).retry_after_s(5),
        }
    }
}

/// The configured provider.
#[derive(Clone, Debug)]
pub struct Oidc(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    directory: Arc<Directory>,
    clock: Clock,
    issuer: String,
    client_id: Option<String>,
    client_secret: Option<HiddenText>,
    redirect_uri: String,
    scopes: String,
    audience: Option<String>,
    pub(super) roles: RoleMap,
    name_claim: String,
    email_claim: String,
}

impl Oidc {
    /// None: no provider is configured. Does not ask it anything yet, so that it may come up after us.
    pub fn of(config: &Config, clock: &Clock) -> anyhow::Result<Option<Self>> {
        let Some(issuer) = config.oidc_issuer.clone() else {
            return Ok(None);
        };
        if config.oidc_client_id.is_some() && !wire::http::keeps_secrets(&config.public_url) {
            anyhow::bail!(
                "config_invalid: browsers sign in over https, or on loopback: public_url is {:?}",
                config.public_url
            );
        }
        let fetch = fetch::Fetch::new(&issuer, config.oidc_ca_file.as_deref())?;
        Ok(Some(Self(Arc::new(Inner {
            directory: Arc::new(Directory::new(fetch, issuer.clone(), clock.clone())),
            clock: clock.clone(),
            issuer,
            client_id: config.oidc_client_id.clone(),
            client_secret: config.oidc_client_secret.clone(),
            redirect_uri: format!("{}/auth/callback", config.public_url.trim_end_matches('/')),
            scopes: config.oidc_scopes.join(" "),
            audience: config.oidc_audience.clone(),
            roles: RoleMap::of(config)?,
            name_claim: config.oidc_name_claim.clone(),
            email_claim: config.oidc_email_claim.clone(),
        }))))
    }

    pub fn issuer(&self) -> &str {
        &self.0.issuer
    }

    /// Who brings this access token.
    pub async fn access(&self, token: &str) -> Result<Identity, ApiError> {
        let audience = self.0.audience.as_deref();
        let audience = audience.ok_or(Refusal::Invalid("no audience is configured for this API"))?;
        Ok(self.judged(token, Expected::Access { audience }).await?)
    }

    async fn judged(&self, token: &str, expected: Expected<'_>) -> Result<Identity, Refusal> {
        let jws = Jws::read(token)?;
        let known = self.0.directory.known(|keys| jws.key(keys).is_some()).await?;
        let key = jws.key(&known.keys).ok_or(match known.shaky {
            true => Refusal::Unavailable,
            false => Refusal::Invalid("no published key of the provider signed it"),
        })?;
        let payload = jws.verified(key)?;
        let now = self.0.clock.now();
        claims::judge(payload, jws.typ.as_deref(), &self.0.issuer, expected, now)
    }
}
