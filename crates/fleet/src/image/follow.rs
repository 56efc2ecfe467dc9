//! Keeping up with the catalogue in the database: only what the operators' key has signed, and never an older one. The
//! newest is remembered beside the keys, so that a database that was set back does not set back the list of images.

use std::path::Path;
use std::sync::Arc;

use ::bytes::Bytes;
use model::catalogue::Catalogue;
use model::dsse::Envelope;
use model::id::InstallationId;
use model::key::PublicKey;
use sqlx::PgConnection;

use super::store;
use crate::Fleet;
use crate::trust::{read_document, remember_document};

const NEWEST: &str = "catalogue.json";

/// The catalogue in force, and whose signature it bears.
#[derive(Clone, Debug, Default)]
pub struct Published {
    pub(super) key: Option<PublicKey>,
    pub(super) document: Option<Envelope>,
    catalogue: Option<Catalogue>,
    /// As nodes are given it.
    pub(crate) written: Bytes,
}

impl Published {
    /// As the key directory remembers it.
    pub(crate) fn load(dir: &Path, key: Option<PublicKey>, aud: InstallationId) -> Self {
        let none = Self { key, ..Self::default() };
        match read_document(&dir.join(NEWEST)) {
            Some(document) => none.next(document, aud).unwrap_or(none),
            None => none,
        }
    }

    /// 0: there is none.
    pub fn version(&self) -> u64 {
        self.catalogue.as_ref().map_or(0, |catalogue| catalogue.version)
    }

    pub(crate) fn same_key(&self, other: &Self) -> bool {
        self.key == other.key
    }

    pub fn catalogue(&self) -> Option<&Catalogue> {
        self.catalogue.as_ref()
    }

    /// As of this document, if it is newer and bears the right signature.
    pub(super) fn next(&self, document: Envelope, aud: InstallationId) -> Option<Self> {
        let catalogue = Catalogue::open(&document, self.key, aud).ok()?;
        (catalogue.version > self.version()).then(|| Self {
            key: self.key,
            written: document.to_bytes().into(),
            document: Some(document),
            catalogue: Some(catalogue),
        })
    }
}

/// Brings this process up to the newest catalogue, and wakes the nodes if there is a newer one.
pub async fn follow(fleet: &Fleet) -> anyhow::Result<()> {
    let mut conn = fleet.app.db.read().acquire().await?;
    let (had, newest) = (fleet.images(), newest(fleet, &mut conn).await?);
    drop(conn);
    if newest.version() == had.version() && newest.key == had.key {
        return Ok(());
    }
    tracing::info!(version = newest.version(), "image catalogue");
    remember_document(&fleet.app.config.keys_dir, NEWEST, &newest.written)?;
    fleet.set_images(newest);
    fleet.dispatch.ring_all();
    Ok(())
}

/// The newest one that counts under the delegation in force. Another key starts anew: what the old one has signed, and
/// under whatever number, is over.
pub async fn newest(fleet: &Fleet, conn: &mut PgConnection) -> sqlx::Result<Published> {
    let key = fleet.keyring().delegation().catalogue_key;
    let had: Arc<Published> = fleet.images();
    let mut newest = match had.key == key {
        true => (*had).clone(),
        false => Published {
            key,
            ..Published::default()
        },
    };
    for document in store::after(conn, newest.version()).await?.into_iter().flatten() {
        if let Some(next) = newest.next(document, fleet.app.installation) {
            newest = next;
        }
    }
    Ok(newest)
}
