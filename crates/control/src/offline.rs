//! What is done away from the server, where the root keys are: sign who may sign. Reads and writes files that are named,
//! and nothing else.

use std::path::{Path, PathBuf};

use anyhow::Context;
use base::Clock;
use base::config::Config;
use clap::Args;
use fleet::trust;
use model::dsse::Envelope;
use model::key::{PublicKey, SigningKey};

#[derive(Args)]
#[command(
    after_help = "A new set of roots needs the signatures of the old roots and of the new ones: as many of each as\n\
                  their threshold says. Roots that lie in different places sign one after the other, --countersign.\n\
                  Then, with an administrator's token:  gpuaas trust delegate FILE"
)]
pub struct Delegate {
    /// The delegation in force: trust.json or delegation.json of the key directory
    #[arg(long, value_name = "FILE", required_unless_present = "countersign")]
    current: Option<PathBuf>,
    /// Add signatures to this one, which somebody else has begun, and change nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["current", "roots", "threshold", "manifest_key", "catalogue_key", "days"])]
    countersign: Option<PathBuf>,
    /// A root key that signs; repeat it for several
    #[arg(long = "root-key", value_name = "FILE", required = true)]
    root_keys: Vec<PathBuf>,
    /// A root from now on, its public half in base64; all of them are named, or none and they stay
    #[arg(long = "root", value_name = "PUBLIC")]
    roots: Vec<PublicKey>,
    /// How many roots have to sign from now on
    #[arg(long, value_name = "N")]
    threshold: Option<usize>,
    /// The manifest key from now on, as `gpuaasd trust manifest-key` printed it
    #[arg(long, value_name = "PUBLIC")]
    manifest_key: Option<PublicKey>,
    /// The operators' key for the image catalogue from now on, as `gpuaasd trust catalogue-key` printed it
    #[arg(long, value_name = "PUBLIC")]
    catalogue_key: Option<PublicKey>,
    /// For how long it counts
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(i64).range(1..=3650))]
    days: i64,
}

impl Delegate {
    /// The signed document goes to standard output.
    pub fn run(self) -> anyhow::Result<()> {
        let keys = self.root_keys.iter().map(|path| root_key(path));
        let keys: Vec<SigningKey> = keys.collect::<anyhow::Result<_>>()?;
        let signed = match (&self.countersign, &self.current) {
            (Some(begun), _) => trust::countersign(document(begun)?, &keys),
            (None, Some(current)) => {
                let wish = trust::Wish {
                    roots: (!self.roots.is_empty()).then_some(self.roots),
                    threshold: self.threshold,
                    manifest_key: self.manifest_key,
                    catalogue_key: self.catalogue_key,
                    days: self.days,
                };
                trust::sign_delegation(&document(current)?, wish, &keys, Clock::real().now())
            }
            (None, None) => anyhow::bail!("give --current or --countersign"),
        };
        let signed = signed.map_err(|code| anyhow::anyhow!("not a delegation: {code}"))?;
        println!("{}", String::from_utf8_lossy(&signed.to_bytes()));
        Ok(())
    }
}

/// `gpuaasd trust manifest-key`.
pub fn manifest_key(config: &Config) -> anyhow::Result<()> {
    println!("{}", trust::make_manifest_key(&config.keys_dir)?);
    Ok(())
}

/// `gpuaasd trust root-key FILE` and `gpuaasd trust catalogue-key FILE`.
pub fn new_key(path: &Path) -> anyhow::Result<()> {
    println!("{}", trust::make_key_file(path)?);
    Ok(())
}

fn root_key(path: &Path) -> anyhow::Result<SigningKey> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    SigningKey::from_text(&text).map_err(|_| anyhow::anyhow!("{}: not a key file of this platform", path.display()))
}

fn document(path: &Path) -> anyhow::Result<Envelope> {
    let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    trust::parse_delegation(&bytes).map_err(|code| anyhow::anyhow!("{}: {code}", path.display()))
}
