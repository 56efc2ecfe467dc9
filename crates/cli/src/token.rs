//! `gpuaas token`: your tokens, and those of a project, which work in that project only. The secret is shown once, when
//! it is made.

use clap::Subcommand;
use model::api::{ProjectTokenCreate, Scope, TokenCreate};
use model::state::ProjectRole;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::ids::{Noun, resolve, resolve_in};
use crate::output::Format;
use crate::output::column::{Kind, View, col, extra, seen};
use crate::output::text;
use crate::session::{Limit, Session};

pub(crate) const VIEW: View = View {
    columns: &[
        col("id", "id", Kind::Id),
        col("name", "name", Kind::Text),
        col("scopes", "scopes", Kind::Text),
        col("expires", "expires_at", Kind::Until),
        seen("revoked", "revoked_at", Kind::Since),
        col("last_used", "last_used_at", Kind::Since),
        col("age", "created_at", Kind::Since),
        extra("user", "user_id", Kind::Id),
        extra("project", "project_id", Kind::Id),
        extra("role", "project_role", Kind::Text),
    ],
    key: "id",
};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// The tokens there are, without their secrets
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        limit: Limit,
        /// Those of a project, by id or name
        #[arg(long)]
        project: Option<String>,
    },
    /// Make a token and show its secret, once
    #[command(
        after_help = "Examples:\n  gpuaas token create ci --scope operator --days 30 | cut -f2\n  \
                            gpuaas token create ci --project demo --role member"
    )]
    Create {
        /// To recognise it by
        name: String,
        /// What it may do: admin, operator, support, auditor, finance or project; several with commas
        #[arg(
            long = "scope",
            value_delimiter = ',',
            required_unless_present = "project",
            value_name = "SCOPE"
        )]
        scopes: Vec<Scope>,
        /// For this project only, by id or name
        #[arg(long, conflicts_with = "scopes", requires = "role")]
        project: Option<String>,
        /// Its role there, not above your own: viewer, member, admin or owner
        #[arg(long, requires = "project")]
        role: Option<ProjectRole>,
        /// How long it lives
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=365))]
        days: u32,
    },
    /// Revoke a token; who uses it is refused at once
    #[command(visible_alias = "rm")]
    Remove {
        /// An id or a name
        token: String,
        /// One of this project's
        #[arg(long)]
        project: Option<String>,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

pub(crate) async fn run(verb: Verb, session: &mut Session) -> Result<(), Failure> {
    match verb {
        Verb::List { limit, project } => {
            let path = place(session, project.as_deref()).await?;
            session.list(&path, &[], &limit, &VIEW).await
        }
        Verb::Create {
            name,
            scopes,
            project,
            role,
            days,
        } => {
            let path = place(session, project.as_deref()).await?;
            let client = session.client()?;
            let created = match role {
                Some(role) => client.post(&path, &ProjectTokenCreate { name, role, days }).await?,
                None => client.post(&path, &TokenCreate { name, scopes, days }).await?,
            };
            show_created(session, &created)
        }
        Verb::Remove { token, project, yes } => {
            let path = place(session, project.as_deref()).await?;
            let client = session.client()?;
            let id = resolve_in(&client, Noun::Token, &path, &token).await?;
            session.confirm(
                yes,
                &format!("revoke token {} ({})", text::plain(&token), text::short_id(&id)),
            )?;
            let answer = client.post(&format!("{path}/{id}/revoke"), &json!({})).await?;
            done(session, &id, "revoked", &answer)
        }
    }
}

/// Where the tokens are that are meant.
async fn place(session: &mut Session, project: Option<&str>) -> Result<String, Failure> {
    let Some(project) = project else {
        return Ok(Noun::Token.path().to_owned());
    };
    let id = resolve(&session.client()?, Noun::Project, project).await?;
    Ok(format!("{}/{id}/tokens", Noun::Project.path()))
}

fn show_created(session: &mut Session, created: &Value) -> Result<(), Failure> {
    let field = |name: &str| text::plain(created.get(name).and_then(Value::as_str).unwrap_or_default());
    match session.out.format {
        Format::Json | Format::Name => session.out.record(&VIEW, created),
        Format::Tsv => session.out.line(&format!("{}\t{}", field("id"), field("secret"))),
        Format::Table => {
            session.out.record(&VIEW, created)?;
            session.out.line(&format!("\n  {}\n", field("secret")))?;
            session.out.note("This is the only time the secret is shown.")
        }
    }
}

/// What a verb without an interesting answer says.
pub(crate) fn done(session: &mut Session, id: &str, what: &str, answer: &Value) -> Result<(), Failure> {
    match session.out.format {
        Format::Json => session.out.json(answer),
        Format::Name => session.out.line(id),
        Format::Tsv => session.out.line(&format!("{id}\t{what}")),
        Format::Table => session.out.line(&format!("{} {what}", text::short_id(id))),
    }
}
