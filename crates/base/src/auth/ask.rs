//! Finding out who sent a request: by a token of ours, by the identity provider's access token, or by the cookie of a
//! browser that is signed in. Known credentials that no longer open anything leave an audit row; guesses are counted
//! only, or a stranger could fill the audit.

use std::net::IpAddr;

use ::metrics::counter;
use http::{HeaderMap, HeaderValue, header};
use model::digest::Sha256;
use model::id::{SessionId, TokenId, UserId};
use model::signal::Code;
use time::OffsetDateTime;

use super::oidc::{self, ensure_person};
use super::role::{self, Scope};
use super::token::{self, TokenSecret, token_by_secret};
use super::{Confined, Credential, Principal, effective, session};
use crate::app::App;
use crate::http::{ApiError, correlation_id};
use crate::metrics::AUTH_FAILURES;
use crate::tx::{Actor, ActorKind, Target};

/// What a request says of whoever sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// They want something now.
    Acts,
    /// A stream goes on, and comes back, also before an empty chair: it keeps no browser signed in.
    Listens,
}

pub async fn authenticate(app: &App, headers: &HeaderMap, address: Option<IpAddr>) -> Result<Principal, ApiError> {
    authenticate_as(app, headers, address, Presence::Acts).await
}

pub async fn authenticate_as(
    app: &App,
    headers: &HeaderMap,
    address: Option<IpAddr>,
    presence: Presence,
) -> Result<Principal, ApiError> {
    let found = look_up(app, headers, address, presence).await;
    if let Err(error) = &found {
        counter!(AUTH_FAILURES, "code" => error.code.as_str()).increment(1);
    }
    found
}

async fn look_up(
    app: &App,
    headers: &HeaderMap,
    address: Option<IpAddr>,
    presence: Presence,
) -> Result<Principal, ApiError> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let text = bearer(value).ok_or(Code::TokenInvalid)?;
        return match (&app.oidc, oidc::looks_like_one(text)) {
            (Some(provider), true) => by_provider(app, provider, text, address).await,
            _ => by_token(app, text.parse()?, address).await,
        };
    }
    let secret = session::secret(&app.config, headers).ok_or(Code::Unauthenticated)?;
    by_session(app, &secret, address, presence).await
}

async fn by_token(app: &App, secret: TokenSecret, address: Option<IpAddr>) -> Result<Principal, ApiError> {
    let row = token_by_secret(&app.db, &secret).await?.ok_or(Code::TokenInvalid)?;
    let now = OffsetDateTime::from(app.clock.now());
    let id = TokenId::from(row.id);
    let trouble = if row.revoked_at.is_some() || row.user_disabled_at.is_some() {
        Some(Code::TokenInvalid)
    } else if row.expires_at <= now {
        Some(Code::TokenExpired)
    } else {
        None
    };
    if let Some(code) = trouble {
        let actor = Actor::new(ActorKind::Token, id, correlation_id()).at(address);
        return Err(refused(app, &actor, "token.use", id, code).await?);
    }
    token::mark_used(&app.db, &row, now).await?;
    let confined = match (row.project_id, row.project_role) {
        (Some(project), role) => Some(Confined {
            project: project.into(),
            // A role that this build does not know grants nothing.
            role: role.and_then(|word| word.parse().ok()).ok_or(Code::TokenInvalid)?,
        }),
        (None, _) => None,
    };
    Ok(Principal {
        user_id: row.user_id.into(),
        user_name: row.user_name,
        credential: Credential::Token(id),
        expires_at: row.expires_at.into(),
        address,
        confined,
        scopes: effective(&role::parse_all(&row.scopes), &held(&row.user_roles)),
    })
}

async fn by_provider(
    app: &App,
    provider: &oidc::Oidc,
    text: &str,
    address: Option<IpAddr>,
) -> Result<Principal, ApiError> {
    let identity = provider.access(text).await?;
    let person = ensure_person(&app.db, provider, &identity, address).await?;
    Ok(Principal {
        user_id: person.user_id.into(),
        user_name: person.name,
        credential: Credential::Provider,
        expires_at: identity.expires_at,
        address,
        confined: None,
        scopes: effective(&Scope::ALL, &held(&person.platform_roles)),
    })
}

async fn by_session(
    app: &App,
    secret: &TokenSecret,
    address: Option<IpAddr>,
    presence: Presence,
) -> Result<Principal, ApiError> {
    let row = session::by_secret(&app.db, secret).await?.ok_or(Code::TokenInvalid)?;
    let now = OffsetDateTime::from(app.clock.now());
    let id = SessionId::from(row.id);
    if let Some(code) = row.over(&app.config, now) {
        let actor = Actor::new(ActorKind::User, UserId::from(row.user_id), correlation_id()).at(address);
        return Err(refused(app, &actor, "session.use", id, code).await?);
    }
    if presence == Presence::Acts {
        row.mark_used(&app.db, now).await?;
    }
    Ok(Principal {
        user_id: row.user_id.into(),
        user_name: row.user_name,
        credential: Credential::Session(id),
        expires_at: row.ends_at.into(),
        address,
        confined: None,
        scopes: effective(&Scope::ALL, &held(&row.user_roles)),
    })
}

async fn refused(
    app: &App,
    actor: &Actor,
    action: &'static str,
    target: impl Into<Target>,
    code: Code,
) -> Result<ApiError, ApiError> {
    app.db.refusal(actor, action, target, code).await?;
    Ok(code.into())
}

/// Everybody may be in projects; what they may do there is each project's to say.
fn held(words: &[String]) -> Vec<Scope> {
    let mut roles = role::parse_all(words);
    roles.push(Scope::Project);
    roles
}

/// The digest of what a request shows, if it shows anything. It may still open nothing.
pub(crate) fn presented(app: &App, headers: &HeaderMap) -> Option<Sha256> {
    match headers.get(header::AUTHORIZATION) {
        Some(value) => bearer(value).map(|text| Sha256::of(text.as_bytes())),
        None => session::secret(&app.config, headers).map(|secret| secret.sha256()),
    }
}

fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
