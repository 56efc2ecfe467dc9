//! What the verbs of an allocation are told on the command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::duration;
use crate::once::Once;

#[derive(clap::Args)]
pub(crate) struct Wait {
    /// Look until it is done, or cannot be; with --json one object per line, the last one is how it ended
    #[arg(long, overrides_with = "no_wait")]
    wait: bool,
    /// Only ask for it; so unless told
    #[arg(long, overrides_with = "wait")]
    no_wait: bool,
    /// How long to look: 90s, 5m
    #[arg(long, value_parser = duration::parse, default_value = "1h")]
    pub(super) timeout: Duration,
}

impl Wait {
    /// The last word counts.
    pub(super) fn is_wanted(&self) -> bool {
        self.wait && !self.no_wait
    }
}

#[derive(clap::Args)]
pub(crate) struct Create {
    /// What to rent; see `gpuaas sku list`
    #[arg(long)]
    pub(super) sku: String,
    /// An id or a name; not needed if you are in one project only [env: GPUAAS_PROJECT]
    #[arg(long)]
    pub(super) project: Option<String>,
    /// To recognise it by, 1 to 64 characters
    #[arg(long)]
    pub(super) name: Option<String>,
    /// One of the SKU's images
    #[arg(long)]
    pub(super) image: Option<String>,
    /// A public key file; several times for several. All stored ones unless told
    #[arg(long = "ssh-key", value_name = "FILE")]
    pub(super) ssh_keys: Vec<PathBuf>,
    /// Released by itself after this long: 4h, 7d
    #[arg(long, value_parser = duration::parse)]
    pub(super) ttl: Option<Duration>,
    #[command(flatten)]
    pub(super) once: Once,
    #[command(flatten)]
    pub(super) wait: Wait,
}

/// Of one that is there and stays.
#[derive(clap::Args)]
pub(crate) struct Asking {
    /// An id or a name
    pub(super) allocation: String,
    #[command(flatten)]
    pub(super) wait: Wait,
}

#[derive(clap::Args)]
pub(crate) struct Ending {
    /// An id or a name
    pub(super) allocation: String,
    #[command(flatten)]
    pub(super) wait: Wait,
    /// Do not ask
    #[arg(long, short)]
    pub(super) yes: bool,
}
