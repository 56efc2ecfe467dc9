//! The project of a profile, as `gpuaas project use` leaves it in `config.toml`: one key is changed, and everything else that
//! somebody wrote there stays as it is, comments included. Written by rename, so that a crash leaves the old file.

use std::io::Write;
use std::path::{Path, PathBuf};

use model::signal::Code;
use toml_edit::{DocumentMut, Item, Table, value};

use crate::failure::{Exit, Failure};

/// Without a project, none is chosen any more. Returns where that stands.
pub(crate) fn keep_project(dir: &Path, profile: &str, project: Option<&str>) -> Result<PathBuf, Failure> {
    let path = dir.join("config.toml");
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        let message = format!("cannot {what} {}: {error}", path.display());
        Failure::new(Exit::Error, Code::ConfigInvalid, message)
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed("read", &error)),
    };
    let mut document: DocumentMut = text.parse().map_err(|error| failed("read", &error))?;
    set(&mut document, profile, project).ok_or_else(|| failed("change", &"`profile` is no table"))?;
    std::fs::create_dir_all(dir).map_err(|error| failed("write", &error))?;
    // Where the file is a link to somebody's collection of such files, it stays one.
    let place = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
    let fresh = place.with_extension(uuid::Uuid::new_v4().simple().to_string());
    let write = || {
        let mut to = std::fs::File::create_new(&fresh)?;
        if let Ok(old) = std::fs::metadata(&place) {
            to.set_permissions(old.permissions())?;
        }
        to.write_all(document.to_string().as_bytes())?;
        to.sync_all()?;
        std::fs::rename(&fresh, &place)
    };
    write().map_err(|error| match std::fs::remove_file(&fresh) {
        Err(left) if left.kind() != std::io::ErrorKind::NotFound => {
            failed("write", &error).hint(format!("also remove {}", fresh.display()))
        }
        _ => failed("write", &error),
    })?;
    Ok(path)
}

fn set(document: &mut DocumentMut, profile: &str, project: Option<&str>) -> Option<()> {
    let mut all = Table::new();
    all.set_implicit(true);
    let profiles = document
        .entry("profile")
        .or_insert(Item::Table(all))
        .as_table_like_mut()?;
    match project {
        Some(project) => {
            let one = profiles.entry(profile).or_insert(Item::Table(Table::new()));
            one.as_table_like_mut()?.insert("project", value(project));
        }
        None => {
            if let Some(one) = profiles.get_mut(profile) {
                one.as_table_like_mut()?.remove("project");
            }
        }
    }
    Some(())
}
