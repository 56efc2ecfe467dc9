//! The image catalogue that this node goes by: kept as it was signed, across restarts and on a full disk, and opened
//! anew under the delegation of the moment. It never goes back; when the operators' key changes, what the old one had
//! signed is over.

use std::path::Path;

use anyhow::Context as _;
use model::catalogue::Catalogue;
use model::dsse::Envelope;
use model::envelope::Refusal;
use model::signal::Code;
use model::trust::Trust;

use crate::durable;
use crate::pair::Pair;

const KEPT: &str = "catalogue";

pub(crate) struct CatalogueStore {
    pair: Pair,
    kept: Option<Envelope>,
}

impl CatalogueStore {
    pub(crate) fn open(state_dir: &Path) -> anyhow::Result<Self> {
        let dir = state_dir.join("trust");
        durable::ensure_private_dir(&dir).with_context(|| format!("make {}", dir.display()))?;
        let (pair, bytes) = Pair::open(&dir, KEPT).with_context(|| format!("read {}", dir.join(KEPT).display()))?;
        // What cannot be read lists nothing, and the next one replaces it.
        let kept = bytes.and_then(|bytes| Envelope::parse(&bytes).ok());
        Ok(Self { pair, kept })
    }

    /// What is listed, if anything.
    pub(crate) fn current(&self, trust: &Trust) -> Option<Catalogue> {
        let kept = self.kept.as_ref()?;
        Catalogue::open(kept, trust.delegation().catalogue_key, trust.aud()).ok()
    }

    /// The next one. Returns its version.
    pub(crate) fn advance(&mut self, envelope: &Envelope, trust: &Trust) -> Result<u64, Refusal> {
        let next = Catalogue::open(envelope, trust.delegation().catalogue_key, trust.aud())?;
        let version = next.version;
        match self.current(trust) {
            Some(held) if held == next => return Ok(version),
            Some(held) if version <= held.version => {
                let why = format!("{version} does not follow {}", held.version);
                return Err(Refusal::new(Code::CatalogueRejected, why));
            }
            Some(_) | None => {}
        }
        self.pair.write(&envelope.to_bytes()).map_err(|error| {
            let why = format!("the image catalogue cannot be written: {error}");
            Refusal::new(Code::DiskFull, why)
        })?;
        self.kept = Some(envelope.clone());
        Ok(version)
    }
}
