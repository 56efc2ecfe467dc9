//! `gpuaas user`: people on the platform, which platform roles they hold, and whether they may come in.

use clap::Subcommand;
use model::api::{Scope, UserRole};
use serde_json::json;

use crate::failure::Failure;
use crate::ids::{Noun, resolve};
use crate::output::column::{Kind, View, col, extra};
use crate::output::{Done, Format, text};
use crate::session::{Limit, Session};
use crate::token::done;

pub(crate) const VIEW: View = View {
    columns: &[
        col("id", "id", Kind::Id),
        col("name", "name", Kind::Text),
        col("roles", "platform_roles", Kind::Text),
        col("email", "email", Kind::Text),
        col("disabled", "disabled_at", Kind::Since),
        col("age", "created_at", Kind::Since),
        extra("issuer", "issuer", Kind::Text),
    ],
    key: "id",
};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Everybody who ever came in
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        limit: Limit,
    },
    /// Grant a platform role: admin, operator, support, auditor or finance
    Grant {
        /// An id or a name
        user: String,
        /// admin, operator, support, auditor or finance
        #[arg(value_parser = platform_role)]
        role: Scope,
    },
    /// Take a platform role away; tokens lose it with the next request
    Revoke {
        /// An id or a name
        user: String,
        /// admin, operator, support, auditor or finance
        #[arg(value_parser = platform_role)]
        role: Scope,
    },
    /// Keep somebody out: tokens and sessions open nothing any more
    Disable {
        /// An id or a name
        user: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Let somebody in again
    Enable {
        /// An id or a name
        user: String,
    },
}

pub(crate) async fn run(verb: Verb, session: &mut Session) -> Result<(), Failure> {
    match verb {
        Verb::List { limit } => session.list(Noun::User.path(), &[], &limit, &VIEW).await,
        Verb::Grant { user, role } => change(session, &user, "grant", role, "granted").await,
        Verb::Revoke { user, role } => change(session, &user, "revoke", role, "revoked").await,
        Verb::Disable { user, yes } => {
            let client = session.client()?;
            let id = resolve(&client, Noun::User, &user).await?;
            session.confirm(yes, &format!("keep {} out", text::plain(&user)))?;
            let answer = client.post(&path(&id, "disable"), &json!({})).await?;
            done(session, &id, "disabled", &answer)
        }
        Verb::Enable { user } => {
            let client = session.client()?;
            let id = resolve(&client, Noun::User, &user).await?;
            let answer = client.post(&path(&id, "enable"), &json!({})).await?;
            done(session, &id, "enabled", &answer)
        }
    }
}

/// What opens a project is a seat in it, and not granted here.
fn platform_role(text: &str) -> Result<Scope, String> {
    let known = text.parse().ok().filter(|scope| *scope != Scope::Project);
    known.ok_or_else(|| "no such platform role; there are admin, operator, support, auditor and finance".to_owned())
}

fn path(id: &str, verb: &str) -> String {
    format!("{}/{id}/{verb}", Noun::User.path())
}

async fn change(session: &mut Session, user: &str, verb: &str, role: Scope, what: &str) -> Result<(), Failure> {
    let client = session.client()?;
    let id = resolve(&client, Noun::User, user).await?;
    let answer = client.post(&path(&id, verb), &UserRole { role }).await?;
    if session.out.format != Format::Table {
        return done(session, &id, &format!("{role} {what}"), &answer);
    }
    let who = text::plain(user);
    let told = match verb {
        "grant" => format!("{who} is {role} now"),
        _ => format!("{who} is no longer {role}; tokens lose it with the next request"),
    };
    session.out.sentence(&Done::of(told))
}
