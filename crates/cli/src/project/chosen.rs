//! The project that is meant where none is said: the one of the environment, or the one that `gpuaas project use` left in the
//! profile. It is kept by its id, so that nobody who takes a name over later is meant.

use serde_json::Value;

use super::VIEW;
use crate::config::{Source, keep_project};
use crate::failure::Failure;
use crate::ids::{Noun, resolve};
use crate::output::{Done, text};
use crate::session::Session;

#[derive(clap::Args)]
pub(crate) struct Use {
    /// An id or a name
    #[arg(required_unless_present = "none")]
    project: Option<String>,
    /// From now on none
    #[arg(long, conflicts_with = "project")]
    none: bool,
}

/// The id of the project that is meant, if any is.
pub(crate) async fn meant(session: &mut Session, typed: Option<&str>) -> Result<Option<String>, Failure> {
    if let Some(typed) = typed {
        return resolve(&session.client()?, Noun::Project, typed).await.map(Some);
    }
    let Some(chosen) = session.settings.project.clone() else {
        return Ok(None);
    };
    let found = resolve(&session.client()?, Noun::Project, &chosen.value).await;
    found.map(Some).map_err(|mut failure| {
        failure.message = format!("{} (from {})", failure.message, chosen.from);
        failure
    })
}

pub(super) async fn choose(session: &mut Session, wish: Use) -> Result<(), Failure> {
    let dir = session.settings.config_dir.value.clone();
    let profile = session.settings.profile.value.clone();
    let shadow = session.settings.project.as_ref();
    let shadow = shadow.and_then(|one| match one.from {
        Source::Env(name) => Some(format!("{name} is set and wins: unset {name}")),
        _ => None,
    });
    let Some(typed) = wish.project else {
        let place = keep_project(&dir, &profile, None)?;
        session.out.note(&format!(
            "profile {} has no project now, in {}",
            text::plain(&profile),
            place.display()
        ))?;
        return shadow.map_or(Ok(()), |word| session.out.note(&word));
    };
    let client = session.client()?;
    let id = resolve(&client, Noun::Project, &typed).await?;
    let seen = client.get(&format!("{}/{id}", Noun::Project.path())).await?;
    keep_project(&dir, &profile, Some(&id))?;
    let name = text::plain(seen.get("name").and_then(Value::as_str).unwrap_or_default());
    let done = Done::of(format!(
        "project {name} is meant where none is said, in profile {}",
        text::plain(&profile)
    ));
    session.out.told(&VIEW, &seen, &done)?;
    shadow.map_or(Ok(()), |word| session.out.note(&word))
}
