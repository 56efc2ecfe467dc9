//! Who is asking. People come with a token: 256 random bits, of which we keep only the digest. A token can do what it
//! was made for and what its owner may still do, whichever is less, from the next request on. Node and process
//! identities come from certificates and are checked by their listener, not here.

use std::net::IpAddr;

use ::metrics::counter;
use http::{HeaderMap, header};
use model::id::{TokenId, UserId};
use model::signal::Code;
use model::time::Timestamp;
use time::OffsetDateTime;

use crate::app::App;
use crate::http::{ApiError, correlation_id};
use crate::metrics::AUTH_FAILURES;
use crate::tx::{Actor, ActorKind};

mod bootstrap;
mod role;
mod token;
mod user;

pub use bootstrap::{admin_token, bootstrap_admin};
pub use role::{Role, Scope, UnknownWord};
pub use token::{NewToken, TokenRow, TokenSecret, token_by_secret, token_create, token_list, token_revoke};
pub use user::{UserRow, user_create, user_disable, user_list, user_set_roles};

/// A person, known by a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub user_id: UserId,
    pub user_name: String,
    pub token_id: TokenId,
    pub expires_at: Timestamp,
    pub address: Option<IpAddr>,
    /// What this token may do right now.
    scopes: Vec<Scope>,
}

impl Principal {
    pub fn may(&self, scope: Scope) -> bool {
        covers(&self.scopes, scope)
    }

    pub fn scopes(&self) -> &[Scope] {
        &self.scopes
    }

    pub fn actor(&self) -> Actor {
        Actor::new(ActorKind::Token, self.token_id, correlation_id()).at(self.address)
    }
}

/// `admin` covers everything else a platform role may; nothing else implies anything.
fn covers(held: &[Scope], wanted: Scope) -> bool {
    held.contains(&wanted) || held.contains(&Scope::Admin)
}

/// What remains of the token's scopes once its owner's roles are taken into account.
fn effective(token: &[Scope], user: &[Scope]) -> Vec<Scope> {
    Scope::ALL
        .into_iter()
        .filter(|scope| covers(token, *scope) && covers(user, *scope))
        .collect()
}

/// Finds out who sent this request. Known tokens that no longer open anything leave an audit row; guesses are counted
/// only, or a stranger could fill the audit.
pub async fn authenticate(app: &App, headers: &HeaderMap, address: Option<IpAddr>) -> Result<Principal, ApiError> {
    let found = look_up(app, headers, address).await;
    if let Err(error) = &found {
        counter!(AUTH_FAILURES, "code" => error.code.as_str()).increment(1);
    }
    found
}

async fn look_up(app: &App, headers: &HeaderMap, address: Option<IpAddr>) -> Result<Principal, ApiError> {
    let value = headers.get(header::AUTHORIZATION).ok_or(Code::Unauthenticated)?;
    let secret = bearer(value).ok_or(Code::TokenInvalid)?;
    let row = token_by_secret(&app.db, &secret).await?.ok_or(Code::TokenInvalid)?;
    let now = OffsetDateTime::from(app.clock.now());
    let trouble = if row.revoked_at.is_some() || row.user_disabled_at.is_some() {
        Some(Code::TokenInvalid)
    } else if row.expires_at <= now {
        Some(Code::TokenExpired)
    } else {
        None
    };
    if let Some(code) = trouble {
        let actor = Actor::new(ActorKind::Token, TokenId::from(row.id), correlation_id()).at(address);
        app.db.refusal(&actor, "token.use", TokenId::from(row.id), code).await?;
        return Err(code.into());
    }
    token::mark_used(&app.db, &row, now).await?;
    // Everybody may be in projects; what they may do there is each project's to say.
    let mut roles = role::parse_all(&row.user_roles);
    roles.push(Scope::Project);
    Ok(Principal {
        user_id: row.user_id.into(),
        user_name: row.user_name,
        token_id: row.id.into(),
        expires_at: row.expires_at.into(),
        address,
        scopes: effective(&role::parse_all(&row.scopes), &roles),
    })
}

/// The digest of the token in a request, if it has the shape of one. It may still open nothing.
pub(crate) fn presented(headers: &HeaderMap) -> Option<model::digest::Sha256> {
    bearer(headers.get(header::AUTHORIZATION)?).map(|secret| secret.sha256())
}

fn bearer(value: &http::HeaderValue) -> Option<TokenSecret> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim().parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_can_do_no_more_than_its_owner() {
        use Scope::{Admin, Auditor, Operator, Support};
        assert_eq!(effective(&[Operator, Auditor], &[Operator]), [Operator]);
        assert_eq!(effective(&[Admin], &[Auditor]), [Auditor]);
        assert_eq!(effective(&[Support], &[Admin]), [Support]);
        assert_eq!(effective(&[Operator], &[]), []);
        assert_eq!(effective(&[Admin], &[Admin]), Scope::ALL);
    }
}
