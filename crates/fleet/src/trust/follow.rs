//! Keeping up with the documents in the database: forward only, one after the other, each verified against the one
//! before. A row that does not follow is somebody else's: it is passed over, once with an alarm and an audit row.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use base::tx::{Actor, Target};
use model::signal::Code;
use model::trust::Bundle;
use sqlx::PgConnection;

use super::{Keyring, files, store};
use crate::Fleet;
use crate::metrics::ALARMS;

/// How often the rows are read again because a key's file was not there.
const LOOKS: usize = 3;

/// More than this many are not worth remembering one by one: then each pass looks at them again.
const REMEMBERED: usize = 4096;

/// Rows that were found not to follow.
#[derive(Default)]
pub struct PassedOver(Mutex<BTreeSet<u64>>);

impl PassedOver {
    fn versions(&self) -> Vec<i64> {
        let versions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        versions.iter().map(|version| *version as i64).collect()
    }

    /// True the first time.
    fn note(&self, version: u64) -> bool {
        let mut versions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        versions.len() < REMEMBERED && versions.insert(version)
    }
}

/// Brings this process up to the newest documents. Says whether there were newer ones.
pub async fn follow(fleet: &Fleet) -> anyhow::Result<bool> {
    let mut conn = fleet.app.db.read().acquire().await?;
    let had = fleet.keyring();
    let newest = newest(fleet, &mut conn).await?;
    drop(conn);
    let moved = newest.manifest().version > had.manifest().version;
    if moved {
        let dir = &fleet.app.config.keys_dir;
        if let Err(error) = files::remember(dir, &newest.bundle) {
            tracing::warn!(error = %format!("{:#}", anyhow::Error::from(error)), "the newest manifest is not remembered");
        }
        fleet.set_keyring(newest);
        fleet.dispatch.ring_all();
    } else if !had.missing().is_empty() {
        // The files may have come since.
        fleet.set_keyring(newest);
    }
    Ok(moved)
}

/// The keyring as of the newest row that follows from ours. Changes nothing but the list of rows passed over.
pub(crate) async fn newest(fleet: &Fleet, conn: &mut PgConnection) -> anyhow::Result<Keyring> {
    let dir = &fleet.app.config.keys_dir;
    let had: Arc<Keyring> = fleet.keyring();
    let mut keyring = match had.missing().is_empty() {
        true => (*had).clone(),
        false => (*had).clone().with_files(dir),
    };
    for _ in 0..LOOKS {
        let rows = store::after(conn, keyring.manifest().version, &fleet.passed_over.versions()).await?;
        let nothing_new = rows.is_empty();
        for (version, bundle) in rows {
            match bundle.and_then(|bundle| next(fleet, &keyring, version, &bundle)) {
                Some(next) => keyring = next,
                None => pass_over(fleet, version).await?,
            }
        }
        // A file that is not there may have gone because its key was revoked after we read the rows: then there are
        // newer ones, and another key signs.
        if nothing_new || keyring.missing().is_empty() {
            break;
        }
    }
    Ok(keyring)
}

/// A row's number must be the one that was signed: an old bundle under a new number is no new one.
fn next(fleet: &Fleet, keyring: &Keyring, version: u64, bundle: &Bundle) -> Option<Keyring> {
    let next = keyring.advance(&fleet.app.config.keys_dir, bundle).ok()?;
    (next.manifest().version == version).then_some(next)
}

async fn pass_over(fleet: &Fleet, version: u64) -> sqlx::Result<()> {
    if !fleet.passed_over.note(version) {
        return Ok(());
    }
    let code = Code::ManifestRejected;
    metrics::counter!(ALARMS, "code" => code.as_str()).increment(1);
    tracing::error!(version, %code, "a manifest in the database does not follow from the one in use; somebody else wrote it");
    let target = Target::new("manifest", version.to_string());
    let actor = Actor::system("trust-loop");
    fleet.app.db.refusal(&actor, "trust.follow", target, code).await
}
