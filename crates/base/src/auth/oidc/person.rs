//! From what a provider says to a user of ours. A person is known by issuer and subject together and by nothing else: a
//! name or an address that somebody chose for themselves never opens another's account. First sight makes the user;
//! where roles come from a claim, the newest token's word counts.

use std::net::IpAddr;

use anyhow::Context;
use model::id::UserId;
use model::signal::Code;
use model::time::Timestamp;
use sqlx::FromRow;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Identity, Oidc};
use crate::auth::role::{Scope, words_of};
use crate::auth::user::is_a_name;
use crate::config::Config;
use crate::db::Db;
use crate::http::{ApiError, correlation_id};
use crate::tx::{Actor, ActorKind};

/// Which words of which claim mean a platform role.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoleMap {
    claim: Option<String>,
    pairs: Vec<(String, Scope)>,
}

impl RoleMap {
    pub(super) fn of(config: &Config) -> anyhow::Result<Self> {
        let pairs = config.oidc_role_map.iter().map(|pair| {
            // The role is our word and has no `=`; the provider's may be anything.
            let (theirs, ours) = pair.rsplit_once('=')?;
            let ours = ours.trim().parse().ok().filter(|scope| *scope != Scope::Project)?;
            Some((theirs.trim().to_owned(), ours))
        });
        Ok(Self {
            claim: config.oidc_role_claim.clone(),
            pairs: pairs
                .collect::<Option<_>>()
                .context("config_invalid: oidc_role_map has an entry that is not `their-word=platform-role`")?,
        })
    }

    /// None: roles are granted here, not there.
    fn roles(&self, identity: &Identity) -> Option<Vec<Scope>> {
        let words = identity.words(self.claim.as_deref()?);
        let holds = |scope: &Scope| {
            self.pairs
                .iter()
                .any(|(theirs, ours)| ours == scope && words.contains(&theirs.as_str()))
        };
        Some(Scope::ALL.into_iter().filter(holds).collect())
    }
}

/// A user whom the provider vouches for, let in.
#[derive(Clone, Debug, FromRow)]
pub struct Person {
    pub user_id: Uuid,
    pub name: String,
    pub platform_roles: Vec<String>,
    disabled_at: Option<OffsetDateTime>,
    judged_at: OffsetDateTime,
}

/// The user behind an identity; made when first seen. Somebody disabled stays out.
pub async fn ensure_person(
    db: &Db,
    oidc: &Oidc,
    identity: &Identity,
    address: Option<IpAddr>,
) -> Result<Person, ApiError> {
    let mut person = match find(db, identity).await? {
        Some(person) => person,
        None => {
            create(db, oidc, identity, address).await?;
            find(db, identity).await?.ok_or(Code::Internal)?
        }
    };
    let actor = Actor::new(ActorKind::User, UserId::from(person.user_id), correlation_id()).at(address);
    if person.disabled_at.is_some() {
        let target = UserId::from(person.user_id);
        db.refusal(&actor, "user.sign_in", target, Code::UserDisabled).await?;
        return Err(Code::UserDisabled.into());
    }
    if Timestamp::from(person.judged_at) < identity.issued_at {
        renew(db, oidc, identity, &actor, &mut person).await?;
    }
    Ok(person)
}

async fn find(db: &Db, identity: &Identity) -> sqlx::Result<Option<Person>> {
    sqlx::query_as(
        "select i.user_id, u.name, u.platform_roles, u.disabled_at, i.judged_at
         from user_identity i join app_user u on u.id = i.user_id where i.issuer = $1 and i.subject = $2",
    )
    .bind(&identity.issuer)
    .bind(&identity.subject)
    .fetch_optional(db.bookkeeping())
    .await
}

async fn create(db: &Db, oidc: &Oidc, identity: &Identity, address: Option<IpAddr>) -> Result<(), ApiError> {
    let id = UserId::new();
    let actor = Actor::new(ActorKind::User, id, correlation_id()).at(address);
    let mut change = db.change(&actor, "user.sign_up", id).await?;
    let at = OffsetDateTime::from(change.at());
    let email = identity.text(&oidc.0.email_claim);
    let wanted = identity.text(&oidc.0.name_claim).or_else(|| email.clone());
    let wanted = wanted.or_else(|| identity.text("sub"));
    let wanted = wanted.unwrap_or_else(|| "user".to_owned());
    let roles = oidc.0.roles.roles(identity).unwrap_or_default();
    let short = id.to_string();
    let tail = &short[short.len() - 6..];
    let mut made = false;
    // Nobody gets a name that reads like another's, or like an id; their own id is the last resort.
    let chosen = [wanted.clone(), format!("{wanted}-{tail}")];
    for name in chosen.into_iter().filter(|name| is_a_name(name)).chain([short.clone()]) {
        let row = sqlx::query(
            "insert into app_user (id, name, platform_roles, created_at)
             select $1, $2, $3, $4 where not exists (select from app_user where lower(name) = lower($2))
             on conflict do nothing",
        );
        let row = row.bind(id.uuid()).bind(&name).bind(words_of(&roles)).bind(at);
        if row.execute(change.conn()).await?.rows_affected() == 1 {
            change.detail(serde_json::json!({ "name": name, "issuer": identity.issuer, "subject": identity.subject, "platform_roles": words_of(&roles) }));
            made = true;
            break;
        }
    }
    if !made {
        return Err(ApiError::new(Code::StateConflict).message("no free name for a new user"));
    }
    let row = sqlx::query(
        "insert into user_identity (issuer, subject, user_id, email, judged_at, created_at)
         values ($1, $2, $3, $4, $5, $6) on conflict do nothing",
    );
    let row = row.bind(&identity.issuer).bind(&identity.subject).bind(id.uuid());
    let row = row.bind(email).bind(OffsetDateTime::from(identity.issued_at)).bind(at);
    match row.execute(change.conn()).await?.rows_affected() {
        1 => Ok(change.commit().await?),
        // Another request of the same person was first.
        _ => Ok(change.rollback().await?),
    }
}

/// A newer word of the provider about somebody known.
async fn renew(db: &Db, oidc: &Oidc, identity: &Identity, actor: &Actor, person: &mut Person) -> Result<(), ApiError> {
    let newer = sqlx::query(
        "update user_identity set judged_at = $3, email = $4 where issuer = $1 and subject = $2 and judged_at < $3",
    )
    .bind(&identity.issuer)
    .bind(&identity.subject)
    .bind(OffsetDateTime::from(identity.issued_at))
    .bind(identity.text(&oidc.0.email_claim));
    let roles = oidc.0.roles.roles(identity).map(|roles| words_of(&roles));
    let Some(roles) = roles.filter(|roles| *roles != person.platform_roles) else {
        newer.execute(db.bookkeeping()).await?;
        return Ok(());
    };
    let mut change = db.change(actor, "user.set_roles", UserId::from(person.user_id)).await?;
    change.detail(serde_json::json!({ "platform_roles": roles, "from": "identity provider" }));
    if newer.execute(change.conn()).await?.rows_affected() == 0 {
        return Ok(change.rollback().await?);
    }
    sqlx::query("update app_user set platform_roles = $2, version = version + 1 where id = $1")
        .bind(person.user_id)
        .bind(&roles)
        .execute(change.conn())
        .await?;
    change.commit().await?;
    person.platform_roles = roles;
    Ok(())
}
