//! What is stored and not listed any more lies for a while yet, for it may be listed again. The first look that finds it
//! unlisted writes a note beside it; so long after that note it goes, however old it is itself. A note that is not
//! about what lies there, because it is older or from a time that is yet to come, is written anew.

use model::digest::Sha256;

use super::known::Stamp;
use crate::error::Doing;
use crate::real::whole::Folder;
use crate::{Image, Result};

/// How long what is not listed any more may lie.
const LIES_S: i64 = 30 * 86_400;
const NOTE: &str = "unlisted-";

/// Gives what is gone. One that cannot be looked at keeps none of the others.
pub(super) fn drop_old(store: &Folder, listed: &[Image], over: &dyn Fn() -> bool) -> Result<Vec<Sha256>> {
    let (mut gone, mut failed) = (Vec::new(), None);
    for name in store.names()? {
        if over() {
            break;
        }
        match drop_one(store, listed, &name) {
            Ok(dropped) => gone.extend(dropped),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match failed {
        Some(error) if gone.is_empty() => Err(error),
        Some(_) | None => Ok(gone),
    }
}

fn drop_one(store: &Folder, listed: &[Image], name: &str) -> Result<Option<Sha256>> {
    if let Some(image) = name.strip_prefix(NOTE) {
        return ensure_no_idle_note(store, listed, image).map(|()| None);
    }
    // Somebody else's file is left to who put it there.
    let Some(sha256) = unlisted(listed, name) else {
        return Ok(None);
    };
    if !has_lain(store, name)? {
        return Ok(None);
    }
    store.remove(name)?;
    store.remove(&format!("{NOTE}{name}"))?;
    Ok(Some(sha256))
}

fn unlisted(listed: &[Image], name: &str) -> Option<Sha256> {
    let sha256 = name.parse().ok()?;
    listed.iter().all(|image| image.sha256 != sha256).then_some(sha256)
}

/// A note of what is listed again, or is gone.
fn ensure_no_idle_note(store: &Folder, listed: &[Image], image: &str) -> Result<()> {
    if image.parse::<Sha256>().is_err() || unlisted(listed, image).is_some() && store.file(image)?.is_some() {
        return Ok(());
    }
    store.remove(&format!("{NOTE}{image}"))
}

/// Notes it if nobody has.
fn has_lain(store: &Folder, name: &str) -> Result<bool> {
    let (doing, note) = (|| format!("look at image {name}"), format!("{NOTE}{name}"));
    let Some(file) = store.file(name)? else {
        return Ok(false);
    };
    let (stored, now) = (
        Stamp::of(&file).doing(doing)?,
        Stamp::of(&store.nameless(0o600)?).doing(doing)?,
    );
    let noted = store
        .file(&note)?
        .map(|note| Stamp::of(&note))
        .transpose()
        .doing(doing)?;
    let is_about = |noted: &Stamp| stored.ahead_of(&now) || !noted.older(0, &stored);
    match noted.filter(|noted| is_about(noted) && !noted.ahead_of(&now)) {
        Some(noted) => Ok(noted.older(LIES_S, &now)),
        None => store.write(&note, b"", 0o600).map(|()| false),
    }
}
