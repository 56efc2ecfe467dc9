//! Where the command line talks to and as whom. Flag before environment before profile before login before the
//! running development server; each winner remembers where it came from. Only this file reads the environment.
//! Refuses unknown keys, unknown profiles, and to send a token to a server it was not stored for.

mod chosen;
mod credentials;
mod dev_server;
mod file;
mod place;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

pub(crate) use chosen::keep_project;
pub(crate) use credentials::Credentials;
use dev_server::DevServer;

use crate::failure::Failure;
use crate::output::Format;
use crate::secret::Secret;

/// Every variable that this program looks at, and nothing else.
const VARIABLES: [&str; 15] = [
    "GPUAAS_URL",
    "GPUAAS_TOKEN",
    "GPUAAS_PROFILE",
    "GPUAAS_PROJECT",
    "GPUAAS_CONFIG_DIR",
    "GPUAAS_CA_FILE",
    "GPUAAS_DEV_STATE",
    "HOME",
    "NO_COLOR",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "TERM",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
];

pub(crate) const DEFAULT_PROFILE: &str = "default";

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the environment becomes data"
)]
pub(crate) fn variables() -> BTreeMap<String, String> {
    VARIABLES
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
        .collect()
}

/// What the flags say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    pub(crate) url: Option<String>,
    pub(crate) profile: Option<String>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) output: Option<Format>,
    /// The verb logs in, which makes a profile that is not there yet.
    pub(crate) login: bool,
}

/// Who decided a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Flag,
    Env(&'static str),
    Profile(String),
    Login,
    DevServer,
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Env(name) => write!(f, "env {name}"),
            Self::Profile(name) => write!(f, "profile {name}"),
            Self::Login => f.write_str("login"),
            Self::DevServer => f.write_str("running dev server"),
            Self::Default => f.write_str("default"),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) from: Source,
}

fn sourced<T>(value: Option<T>, from: Source) -> Option<Sourced<T>> {
    value.map(|value| Sourced { value, from })
}

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config_dir: Sourced<PathBuf>,
    pub(crate) profile: Sourced<String>,
    pub(crate) url: Option<Sourced<String>>,
    pub(crate) token: Option<Sourced<Secret>>,
    pub(crate) ca_file: Option<Sourced<PathBuf>>,
    pub(crate) output: Option<Sourced<Format>>,
    /// Where a verb is not told another.
    pub(crate) project: Option<Sourced<String>>,
    /// Set when the development server was chosen because nothing else was.
    pub(crate) dev_pid: Option<i32>,
    pub(crate) color: bool,
}

impl Settings {
    pub(crate) fn resolve(flags: Flags, vars: &BTreeMap<String, String>, stdout_tty: bool) -> Result<Self, Failure> {
        // Empty means unset, as everywhere.
        let var = |name: &'static str| {
            sourced(
                vars.get(name).filter(|text| !text.is_empty()).cloned(),
                Source::Env(name),
            )
        };
        let path = |name: &'static str| {
            var(name).map(|Sourced { value, from }| Sourced {
                value: PathBuf::from(value),
                from,
            })
        };

        let config_dir = path("GPUAAS_CONFIG_DIR")
            .or_else(|| sourced(place::config_dir(vars), Source::Default))
            .ok_or_else(|| Failure::config("no place for the configuration: set HOME or GPUAAS_CONFIG_DIR"))?;
        let file = file::read(&config_dir.value)?;
        let profile = sourced(flags.profile, Source::Flag)
            .or_else(|| var("GPUAAS_PROFILE"))
            .unwrap_or(Sourced {
                value: DEFAULT_PROFILE.to_owned(),
                from: Source::Default,
            });
        let credentials = Credentials::at(&config_dir.value);
        let chosen = file.profile(&profile, &credentials.profiles()?, flags.login)?;
        let of_profile = || Source::Profile(profile.value.clone());

        let stored = credentials.read(&profile.value)?;
        let dev = DevServer::find(vars);
        let url = sourced(flags.url, Source::Flag)
            .or_else(|| var("GPUAAS_URL"))
            .or_else(|| sourced(chosen.url, of_profile()))
            .or_else(|| sourced(stored.as_ref().map(|login| login.url.clone()), Source::Login))
            .or_else(|| sourced(dev.as_ref().map(|dev| dev.url.clone()), Source::DevServer));
        if let Some(url) = &url {
            place::check_url(url)?;
        }
        // A stored token goes only to the server it was stored for.
        let same = |other: &str| url.as_ref().is_some_and(|url| place::same_server(&url.value, other));
        let token = var("GPUAAS_TOKEN")
            .map(|Sourced { value, from }| Sourced {
                value: Secret::new(value),
                from,
            })
            .or_else(|| {
                sourced(
                    stored.filter(|login| same(&login.url)).map(|login| login.token),
                    Source::Login,
                )
            })
            .or_else(|| {
                sourced(
                    dev.as_ref().filter(|dev| same(&dev.url)).map(|dev| dev.token.clone()),
                    Source::DevServer,
                )
            });

        Ok(Self {
            dev_pid: dev
                .map(|dev| dev.pid)
                .filter(|_| url.as_ref().is_some_and(|url| url.from == Source::DevServer)),
            token,
            url,
            ca_file: sourced(flags.ca_file, Source::Flag)
                .or_else(|| path("GPUAAS_CA_FILE"))
                .or_else(|| sourced(chosen.ca_file, of_profile())),
            output: sourced(flags.output, Source::Flag).or_else(|| sourced(chosen.output, of_profile())),
            project: var("GPUAAS_PROJECT").or_else(|| sourced(chosen.project, of_profile())),
            color: stdout_tty && var("NO_COLOR").is_none() && vars.get("TERM").is_none_or(|term| term != "dumb"),
            profile,
            config_dir,
        })
    }
}
