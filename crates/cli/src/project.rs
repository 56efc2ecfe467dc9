//! `gpuaas project`: who works together, and what they may have at once.

mod chosen;
mod told;

use clap::Subcommand;
use model::api::{MemberAdd, ProjectCreate, QuotaChange, QuotaLimit};
use model::state::ProjectRole;
use serde_json::Value;

use crate::audit::{OF_PROJECT, Which, export};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::ids::{Noun, REACH, resolve};
use crate::output::column::{Kind, View, col, extra};
use crate::output::{Done, money, text};
use crate::session::{Limit, Session};
use crate::token::done;
pub(crate) use chosen::meant;
use told::may_have;

pub(crate) const VIEW: View = View {
    columns: &[
        col("id", "id", Kind::Id),
        col("name", "name", Kind::Text),
        col("role", "role", Kind::Text),
        col("age", "created_at", Kind::Since),
        extra("deleted", "deleted_at", Kind::Since),
    ],
    key: "id",
};

pub(crate) const MEMBERS: View = View {
    columns: &[
        col("user", "user", Kind::Text),
        col("role", "role", Kind::Text),
        col("since", "since", Kind::Since),
        col("id", "user_id", Kind::Id),
    ],
    key: "user_id",
};

pub(crate) const QUOTA: View = View {
    columns: &[
        col("slots", "slots", Kind::Text),
        col("slots_used", "slots_used", Kind::Text),
        col("allocations", "allocations", Kind::Text),
        col("allocations_used", "allocations_used", Kind::Text),
        col("slots_per_sku", "slots_per_sku", Kind::Text),
        col("terminals", "terminals", Kind::Text),
        col("max_ttl_hours", "max_ttl_hours", Kind::Text),
        col("spend_per_day", "spend_per_day_micro", Kind::Amount),
        col("project_id", "project_id", Kind::Id),
    ],
    key: "project_id",
};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Your projects
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        limit: Limit,
    },
    /// Make a project (operators)
    Create {
        /// Lower-case letters, digits and -
        name: String,
        /// Its first owner, by name; you, unless told
        #[arg(long)]
        owner: Option<String>,
    },
    /// One project
    Show {
        /// An id or a name
        project: String,
    },
    /// Mean this project wherever --project is not given; kept in the profile
    Use(chosen::Use),
    /// End a project that has nothing any more (owners); what happened in it stays on record
    #[command(visible_alias = "rm")]
    Delete {
        /// An id or a name
        project: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Who is in it
    #[command(subcommand)]
    Member(Member),
    /// What it may have at once
    #[command(subcommand)]
    Quota(Quota),
    /// Who did what in it (owners)
    #[command(subcommand)]
    Audit(Audit),
}

#[derive(Subcommand)]
pub(crate) enum Audit {
    /// Who did what to the project, its allocations and its tokens, newest first
    #[command(visible_alias = "ls")]
    List {
        /// An id or a name
        project: String,
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        limit: Limit,
    },
    /// All of it, newest first, as lines of JSON
    Export {
        /// An id or a name
        project: String,
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Subcommand)]
pub(crate) enum Member {
    /// Who is in it, and as what
    #[command(visible_alias = "ls")]
    List {
        /// An id or a name
        project: String,
        #[command(flatten)]
        limit: Limit,
    },
    /// Let somebody in, or change their role
    Add {
        /// An id or a name
        project: String,
        /// By name
        user: String,
        /// viewer, member, admin or owner
        #[arg(long, default_value = "member")]
        role: ProjectRole,
    },
    /// Take somebody out
    #[command(visible_alias = "rm")]
    Remove {
        /// An id or a name
        project: String,
        /// By name
        user: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum Quota {
    /// What it may have, and has
    Show {
        /// An id or a name
        project: String,
    },
    /// Change what it may have (operators); what is not named stays
    #[command(
        group = clap::ArgGroup::new("limits").required(true).multiple(true),
        after_help = "Example:  gpuaas project quota set demo --slots 16 --max-ttl-hours 72"
    )]
    Set {
        /// An id or a name
        project: String,
        /// Slots at once, in all its allocations together
        #[arg(long, value_name = "N", group = "limits")]
        slots: Option<u32>,
        /// Slots of any one SKU at once
        #[arg(long, value_name = "N", group = "limits")]
        slots_per_sku: Option<u32>,
        /// Allocations at once
        #[arg(long, value_name = "N", group = "limits")]
        allocations: Option<u32>,
        /// Open terminals at once
        #[arg(long, value_name = "N", group = "limits")]
        terminals: Option<u32>,
        /// How many hours an allocation may be rented for; each then needs an end
        #[arg(long, value_name = "N", group = "limits")]
        max_ttl_hours: Option<u32>,
        /// What all of it may cost in a day, in each currency: 120 or 99.50
        #[arg(long, value_name = "AMOUNT", group = "limits", value_parser = money::parse)]
        spend_per_day: Option<u64>,
        /// Take this limit away again: back to what a new project has
        #[arg(long, value_name = "LIMIT", group = "limits", value_parser = limit)]
        reset: Vec<QuotaLimit>,
    },
}

/// A limit as its flag names it.
fn limit(word: &str) -> Result<QuotaLimit, String> {
    let all = [
        QuotaLimit::Slots,
        QuotaLimit::SlotsPerSku,
        QuotaLimit::Allocations,
        QuotaLimit::Terminals,
        QuotaLimit::MaxTtlHours,
        QuotaLimit::SpendPerDayMicro,
    ];
    let as_flag = |word: &str| word.replace('_', "-").trim_end_matches("-micro").to_owned();
    let names = all.map(|limit| as_flag(limit.as_str()));
    let at = names.iter().position(|name| *name == as_flag(word));
    at.map(|at| all[at])
        .ok_or_else(|| format!("one of {}", names.join(", ")))
}

pub(crate) async fn run(verb: Verb, session: &mut Session) -> Result<(), Failure> {
    match verb {
        Verb::List { limit } => session.list(Noun::Project.path(), &[], &limit, &VIEW).await,
        Verb::Create { name, owner } => {
            let made = session
                .client()?
                .post(Noun::Project.path(), &ProjectCreate { name, owner })
                .await?;
            let word = |place: &str| text::plain(made.get(place).and_then(Value::as_str).unwrap_or_default());
            let name = word("name");
            let done = Done::of(format!("project {name} is made, as {}", text::short_id(&word("id"))));
            let done = done.next(format!(
                "gpuaas project member add {name} NAME, or gpuaas project quota show {name}"
            ));
            session.out.told(&VIEW, &made, &done)
        }
        Verb::Show { project } => {
            let (client, path) = found(session, &project).await?;
            let document = client.get(&path).await?;
            session.out.record(&VIEW, &document)
        }
        Verb::Use(wish) => chosen::choose(session, wish).await,
        Verb::Delete { project, yes } => delete(session, &project, yes).await,
        Verb::Member(verb) => member(session, verb).await,
        Verb::Audit(verb) => audit(session, verb).await,
        Verb::Quota(Quota::Show { project }) => {
            let (client, path) = found(session, &project).await?;
            let document = client.get(&format!("{path}/quota")).await?;
            session.out.record(&QUOTA, &document)
        }
        Verb::Quota(Quota::Set {
            project,
            slots,
            slots_per_sku,
            allocations,
            terminals,
            max_ttl_hours,
            spend_per_day,
            reset,
        }) => {
            let (client, path) = found(session, &project).await?;
            let body = QuotaChange {
                slots,
                slots_per_sku,
                allocations,
                terminals,
                max_ttl_hours,
                spend_per_day_micro: spend_per_day,
                reset,
            };
            let document = client.post(&format!("{path}/quota"), &body).await?;
            session.out.told(&QUOTA, &document, &may_have(&project, &document))
        }
    }
}

async fn found(session: &mut Session, typed: &str) -> Result<(Client, String), Failure> {
    let client = session.client()?;
    let id = resolve(&client, Noun::Project, typed).await?;
    let path = format!("{}/{id}", Noun::Project.path());
    Ok((client, path))
}

async fn delete(session: &mut Session, typed: &str, yes: bool) -> Result<(), Failure> {
    let (client, path) = found(session, typed).await?;
    let seen = client.get(&path).await?;
    let word = |place: &str| text::plain(seen.get(place).and_then(Value::as_str).unwrap_or_default());
    let (id, name) = (word("id"), word("name"));
    session.confirm(
        yes,
        &format!(
            "delete project {name} ({}) for good: nobody is in it any more, its tokens open nothing, its name becomes free",
            text::short_id(&id)
        ),
    )?;
    let answer = client.delete(&path, &seen).await?;
    done(session, &id, "deleted", &answer)
}

async fn audit(session: &mut Session, verb: Audit) -> Result<(), Failure> {
    match verb {
        Audit::List { project, which, limit } => {
            let (client, path) = found(session, &project).await?;
            let filters = which.filters(&client).await?;
            session
                .list(&format!("{path}/audit"), &filters, &limit, &OF_PROJECT)
                .await
        }
        Audit::Export { project, which } => {
            let (client, path) = found(session, &project).await?;
            let filters = which.filters(&client).await?;
            export(session, &format!("{path}/audit"), &filters).await
        }
    }
}

async fn member(session: &mut Session, verb: Member) -> Result<(), Failure> {
    match verb {
        Member::List { project, limit } => {
            let (_, path) = found(session, &project).await?;
            session.list(&format!("{path}/members"), &[], &limit, &MEMBERS).await
        }
        Member::Add { project, user, role } => {
            let (client, path) = found(session, &project).await?;
            let document = client
                .post(&format!("{path}/members"), &MemberAdd { user, role })
                .await?;
            let who = text::plain(document.get("user").and_then(Value::as_str).unwrap_or_default());
            let role = text::plain(document.get("role").and_then(Value::as_str).unwrap_or_default());
            let done = Done::of(format!("{who} is {role} of {} now", text::plain(&project)));
            session.out.told(&MEMBERS, &document, &done)
        }
        Member::Remove { project, user, yes } => {
            let (client, path) = found(session, &project).await?;
            let plain = text::plain(&user);
            session.confirm(yes, &format!("take {plain} out of {}", text::plain(&project)))?;
            let members = client.list(&format!("{path}/members"), &[], REACH).await?;
            let all = members
                .get("items")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            let one = all
                .iter()
                .find(|one| one.get("user").and_then(Value::as_str) == Some(&user));
            let id = one.and_then(|one| one.get("user_id")?.as_str()).ok_or_else(|| {
                let code = model::signal::Code::NotFound;
                Failure::new(Exit::NotFound, code, format!("{plain} is not in it"))
            })?;
            let answer = client
                .delete(&format!("{path}/members/{id}"), one.unwrap_or(&Value::Null))
                .await?;
            done(session, id, "taken out", &answer)
        }
    }
}
