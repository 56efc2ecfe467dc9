//! Who is asking. People come with a token: 256 random bits, of which we keep only the digest; with what an identity
//! provider signed for them; or in a browser that is signed in. A token can do what it was made for and what its owner
//! may still do, whichever is less, from the next request on. Node and process identities come from certificates and
//! are checked by their listener, not here.

use std::net::IpAddr;

use model::id::{ProjectId, SessionId, TokenId, UserId};
use model::state::ProjectRole;
use model::time::Timestamp;

use crate::http::correlation_id;
use crate::tx::{Actor, ActorKind};

mod ask;
mod bootstrap;
pub mod oidc;
mod role;
pub mod session;
mod token;
mod user;

pub(crate) use ask::presented;
pub use ask::{Presence, authenticate, authenticate_as};
pub use bootstrap::{admin_token, bootstrap_admin};
pub use role::{Role, Scope, UnknownWord};
pub use token::{
    NewToken, TokenRow, TokenSecret, Whose, Wish, token_by_secret, token_create, token_list, token_make, token_revoke,
};
pub use user::{UserRow, user_change_role, user_create, user_disable, user_enable, user_list, user_set_roles};

/// A person, known by what they showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub user_id: UserId,
    pub user_name: String,
    pub credential: Credential,
    pub expires_at: Timestamp,
    pub address: Option<IpAddr>,
    /// Set: nothing exists for them but this.
    pub confined: Option<Confined>,
    /// What they may do right now.
    scopes: Vec<Scope>,
}

/// What a person showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A token of ours.
    Token(TokenId),
    /// The cookie of a browser.
    Session(SessionId),
    /// An access token of the identity provider.
    Provider,
}

/// A token of a project works there only, and with this role at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confined {
    pub project: ProjectId,
    pub role: ProjectRole,
}

impl Principal {
    pub fn may(&self, scope: Scope) -> bool {
        covers(&self.scopes, scope)
    }

    pub fn scopes(&self) -> &[Scope] {
        &self.scopes
    }

    /// What is left of a role in a project for whoever shows this: none outside the project that a token is for.
    pub fn seat_in(&self, project: ProjectId, role: ProjectRole) -> Option<ProjectRole> {
        match self.confined {
            None => Some(role),
            Some(confined) if confined.project != project => None,
            Some(confined) if (confined.role as u8) < role as u8 => Some(confined.role),
            Some(_) => Some(role),
        }
    }

    pub fn actor(&self) -> Actor {
        let actor = match self.credential {
            Credential::Token(id) => Actor::new(ActorKind::Token, id, correlation_id()),
            Credential::Session(_) | Credential::Provider => {
                Actor::new(ActorKind::User, self.user_id, correlation_id())
            }
        };
        actor.at(self.address)
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
