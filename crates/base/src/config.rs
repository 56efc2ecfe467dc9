//! Configuration, read once: flag before environment before file before default. One file, every key known, every
//! setting with a flag and an environment twin that `--help` shows. An unknown key is refused by name, because a
//! misspelt limit that is silently ignored is worse than no limit. Nothing else in the control plane reads the
//! environment.

use std::net::SocketAddr;
use std::path::PathBuf;

use model::signal::Code;
use serde::Deserialize;

mod flags;
mod resolve;
mod settings;

pub use flags::Flags;
pub use resolve::{Explained, Origin};
pub use settings::{Kind, SETTINGS, Setting};

/// The resolved configuration. Data from here on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub database_url: Option<DatabaseUrl>,
    pub database_owner_url: Option<DatabaseUrl>,
    pub managed_postgres: bool,
    pub postgres_bin_dir: Option<PathBuf>,
    pub state_dir: PathBuf,
    pub keys_dir: PathBuf,
    pub role_identity: Option<PathBuf>,
    pub images_dir: PathBuf,
    pub listen_public: SocketAddr,
    pub public_cert_file: Option<PathBuf>,
    pub public_key_file: Option<PathBuf>,
    pub behind_edge: bool,
    pub trusted_proxies: Option<u64>,
    pub public_url: String,
    pub oidc_issuer: Option<String>,
    pub oidc_ca_file: Option<PathBuf>,
    pub oidc_client_id: Option<String>,
    pub oidc_client_secret: Option<HiddenText>,
    pub oidc_audience: Option<String>,
    pub oidc_cli_client_id: Option<String>,
    pub oidc_scopes: Vec<String>,
    pub oidc_name_claim: String,
    pub oidc_email_claim: String,
    pub oidc_role_claim: Option<String>,
    #[serde(default)]
    pub oidc_role_map: Vec<String>,
    pub session_idle_s: u64,
    pub session_life_s: u64,
    pub listen_node: SocketAddr,
    pub listen_enrol: SocketAddr,
    pub listen_metrics: SocketAddr,
    pub node_names: Vec<String>,
    pub node_url: String,
    pub enrol_url: String,
    pub heartbeat_stale_s: u64,
    pub task_lease_s: u64,
    pub wait_hold_s: u64,
    pub probe_every_s: u64,
    pub self_probe_every_s: u64,
    pub probe_keep_s: u64,
    pub working_cert_life_s: u64,
    pub device_cert_life_s: u64,
    pub identity_sweep_ms: u64,
    pub identity_max_age_ms: u64,
    pub identity_grace_s: u64,
    pub read_deadline_s: u64,
    pub rate_reads_per_min: u64,
    pub rate_writes_per_min: u64,
    pub rate_node_per_s: u64,
    pub rate_address_per_s: u64,
    pub signing_key_life_s: u64,
    pub signing_key_overlap_s: u64,
    pub manifest_life_s: u64,
    pub rotation_silence_s: u64,
    pub log_format: LogFormat,
    pub log_filter: String,
    /// Set by `gpuaas-dev` in code. No file, variable or flag reaches it.
    #[serde(skip)]
    pub dev: bool,
    #[serde(skip)]
    explained: Vec<Explained>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    Json,
    Text,
}

/// A database URL may carry a password, so it does not print itself.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DatabaseUrl(…)")
    }
}

/// A secret that does not print itself.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct HiddenText(String);

impl HiddenText {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for HiddenText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HiddenText(…)")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {path}")]
    Unreadable {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} is not TOML")]
    NotToml {
        path: String,
        #[source]
        source: toml::de::Error,
    },
    #[error("{path} has an unknown key `{key}`")]
    UnknownKey { path: String, key: String },
    #[error("`{key}` from {origin}: {why}")]
    BadValue {
        key: &'static str,
        origin: Origin,
        why: String,
    },
}

impl ConfigError {
    pub const fn code(&self) -> Code {
        Code::ConfigInvalid
    }
}

impl Config {
    /// Every setting at its default: what tests and `gpuaas-dev` start from.
    pub fn defaults() -> Self {
        Flags::default()
            .resolve()
            .expect("the defaults are valid: a test resolves them")
    }

    /// Each setting with its value and where it came from, secrets hidden.
    pub fn explain(&self) -> &[Explained] {
        &self.explained
    }
}

/// The directories of PATH, for finding PostgreSQL's programs.
#[expect(
    clippy::disallowed_methods,
    reason = "config.rs is the file that reads the environment"
)]
pub(crate) fn search_path() -> Vec<PathBuf> {
    std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default()
}

/// The socket directory of a cluster that a test run started for all its processes.
#[expect(
    clippy::disallowed_methods,
    reason = "config.rs is the file that reads the environment"
)]
pub(crate) fn test_postgres_socket() -> Option<PathBuf> {
    std::env::var_os("GPUAAS_TEST_PG_SOCKET").map(PathBuf::from)
}
