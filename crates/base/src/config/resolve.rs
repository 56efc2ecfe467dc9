//! Settles every setting: the first of flag, environment, file and default that has a value. Each value is checked
//! here, where its origin is still known, so that the error can name both.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::flags::Flags;
use super::settings::{Kind, SETTINGS, Setting};
use super::{Config, ConfigError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Flag,
    Environment,
    File,
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Origin::Flag => "flag",
            Origin::Environment => "environment",
            Origin::File => "file",
            Origin::Default => "default",
        })
    }
}

/// A setting as it was settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    pub name: &'static str,
    /// Empty if unset; hidden if secret.
    pub value: String,
    pub origin: Origin,
}

pub(super) fn resolve(flags: Flags) -> Result<Config, ConfigError> {
    let mut file = match &flags.file {
        Some(path) => read_file(path)?,
        None => Table::new(),
    };
    let mut settled = Table::new();
    let mut explained = Vec::new();
    for setting in SETTINGS {
        let given = flags.given.iter().rev().find(|(name, ..)| *name == setting.name);
        let (value, origin) = match (given, file.remove(setting.name)) {
            (Some((_, text, origin)), _) => (parse(setting, text, *origin)?, *origin),
            (None, Some(value)) => (Some(value), Origin::File),
            (None, None) => (parse(setting, setting.default, Origin::Default)?, Origin::Default),
        };
        let value = value.map(|value| check(setting, value, origin)).transpose()?;
        explained.push(Explained {
            name: setting.name,
            value: show(setting, value.as_ref()),
            origin,
        });
        if let Some(value) = value {
            settled.insert(setting.name.to_owned(), value);
        }
    }
    if let (Some((key, _)), Some(path)) = (file.iter().next(), &flags.file) {
        return Err(ConfigError::UnknownKey {
            path: path.display().to_string(),
            key: key.clone(),
        });
    }
    derive(&mut settled, &mut explained);
    let mut config: Config = settled.try_into().map_err(|source| ConfigError::NotToml {
        path: "the settings".into(),
        source,
    })?;
    config.explained = explained;
    Ok(config)
}

fn read_file(path: &Path) -> Result<Table, ConfigError> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: name(), source })?;
    text.parse()
        .map_err(|source| ConfigError::NotToml { path: name(), source })
}

/// Text from a flag, a variable or the default table. Empty means unset.
fn parse(setting: &'static Setting, text: &str, origin: Origin) -> Result<Option<Value>, ConfigError> {
    let bad = |why: &str| ConfigError::BadValue {
        key: setting.name,
        origin,
        why: why.to_owned(),
    };
    if text.is_empty() {
        return Ok(None);
    }
    Ok(Some(match setting.kind {
        Kind::Text | Kind::Secret | Kind::Path | Kind::Address | Kind::Choice(_) => Value::String(text.to_owned()),
        Kind::Switch => Value::Boolean(text.parse().map_err(|_| bad("must be true or false"))?),
        Kind::Count => Value::Integer(text.parse().map_err(|_| bad("must be a whole number"))?),
        Kind::List => text
            .split(',')
            .map(|part| Value::String(part.trim().to_owned()))
            .collect::<Vec<_>>()
            .into(),
    }))
}

fn check(setting: &'static Setting, value: Value, origin: Origin) -> Result<Value, ConfigError> {
    let text = value.as_str();
    let why = match setting.kind {
        Kind::Text | Kind::Secret | Kind::Path => text.is_none().then(|| "must be text".to_owned()),
        Kind::Address => text
            .is_none_or(|text| text.parse::<SocketAddr>().is_err())
            .then(|| "must be an address and a port, as in 127.0.0.1:8080".to_owned()),
        Kind::Switch => value.as_bool().is_none().then(|| "must be true or false".to_owned()),
        Kind::Count => value
            .as_integer()
            .is_none_or(|n| n < 1)
            .then(|| "must be a whole number of at least 1".to_owned()),
        Kind::List => {
            let ok = value
                .as_array()
                .is_some_and(|list| list.iter().all(|one| one.as_str().is_some_and(|one| !one.is_empty())));
            (!ok).then(|| "must be a list of texts".to_owned())
        }
        Kind::Choice(words) => text
            .is_none_or(|text| !words.contains(&text))
            .then(|| format!("must be one of {}", words.join(", "))),
    };
    match why {
        None => Ok(value),
        Some(why) => Err(ConfigError::BadValue {
            key: setting.name,
            origin,
            why,
        }),
    }
}

/// Defaults that follow from other settings.
fn derive(settled: &mut Table, explained: &mut [Explained]) {
    let text = |table: &Table, name: &str| table.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let state = PathBuf::from(text(settled, "state_dir"));
    let below = |name: &str| state.join(name).display().to_string();
    let host = settled
        .get("node_names")
        .and_then(|list| list.as_array()?.first()?.as_str())
        .unwrap_or("localhost")
        .to_owned();
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let url = |listen: &str| {
        let port = text(settled, listen)
            .parse::<SocketAddr>()
            .map_or(0, |address| address.port());
        format!("https://{host}:{port}")
    };
    let scheme = if settled.contains_key("public_cert_file") {
        "https"
    } else {
        "http"
    };
    let derived = [
        ("public_url", format!("{scheme}://{}", text(settled, "listen_public"))),
        ("keys_dir", below("keys")),
        ("images_dir", below("images")),
        ("node_url", url("listen_node")),
        ("enrol_url", url("listen_enrol")),
    ];
    for (name, value) in derived {
        if !settled.contains_key(name) {
            for one in explained.iter_mut().filter(|one| one.name == name) {
                one.value.clone_from(&value);
            }
            settled.insert(name.to_owned(), Value::String(value));
        }
    }
}

fn show(setting: &Setting, value: Option<&Value>) -> String {
    match (setting.kind, value) {
        (_, None) => String::new(),
        (Kind::Secret, Some(_)) => "(set)".to_owned(),
        (_, Some(Value::String(text))) => text.clone(),
        (_, Some(other)) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    fn file(text: &str) -> (tempfile_path::Kept, Flags) {
        let kept = tempfile_path::keep(text);
        let flags = Flags::default().with_file(&kept.0);
        (kept, flags)
    }

    /// A file that goes away with the test.
    mod tempfile_path {
        pub(super) struct Kept(pub(super) std::path::PathBuf);
        impl Drop for Kept {
            fn drop(&mut self) {
                if let Err(error) = std::fs::remove_file(&self.0) {
                    eprintln!("{}: {error}", self.0.display());
                }
            }
        }
        pub(super) fn keep(text: &str) -> Kept {
            let path = std::env::temp_dir().join(format!("gpuaas-config-{}.toml", uuid::Uuid::new_v4()));
            std::fs::write(&path, text).expect("temp dir is writable");
            Kept(path)
        }
    }

    #[test]
    fn flag_before_file_before_default_and_each_tells_its_origin() {
        let (_kept, flags) = file("task_lease_s = 7\nwait_hold_s = 8\nnode_names = [\"cp.example\"]");
        let config = flags.with("wait_hold_s", "9").resolve().expect("valid");
        assert_eq!(
            (config.heartbeat_stale_s, config.task_lease_s, config.wait_hold_s),
            (50, 7, 9)
        );
        assert_eq!(config.node_url, "https://cp.example:9443");
        assert_eq!(config.keys_dir, PathBuf::from("/var/lib/gpuaas/keys"));
        let origin = |name: &str| {
            config
                .explain()
                .iter()
                .find(|one| one.name == name)
                .map(|one| one.origin)
        };
        assert_eq!(origin("heartbeat_stale_s"), Some(Origin::Default));
        assert_eq!(origin("task_lease_s"), Some(Origin::File));
        assert_eq!(origin("wait_hold_s"), Some(Origin::Flag));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("task_lease = 7", "unknown key `task_lease`"),
            ("dev = true", "unknown key `dev`"),
            (
                "task_lease_s = 0",
                "`task_lease_s` from file: must be a whole number of at least 1",
            ),
            (
                "task_lease_s = \"7\"",
                "`task_lease_s` from file: must be a whole number",
            ),
            (
                "listen_public = \"8080\"",
                "`listen_public` from file: must be an address",
            ),
            ("log_format = \"xml\"", "must be one of auto, json, text"),
            ("node_names = \"a\"", "`node_names` from file: must be a list"),
            ("= 3", "is not TOML"),
        ] {
            let (_kept, flags) = file(text);
            let error = flags.resolve().expect_err(text);
            assert!(error.to_string().contains(expected), "{text}: {error}");
            assert_eq!(error.code().as_str(), "config_invalid");
        }
        let error = Flags::default()
            .with("wait_hold_s", "soon")
            .resolve()
            .expect_err("not a number");
        assert_eq!(error.to_string(), "`wait_hold_s` from flag: must be a whole number");
    }

    #[test]
    fn help_shows_every_setting_with_its_variable_and_secrets_stay_hidden() {
        let mut command = Flags::augment_args(clap::Command::new("test")).term_width(300);
        let help = command.render_long_help().to_string();
        for setting in SETTINGS {
            assert!(help.contains(&format!("--{}", setting.flag())), "{}", setting.name);
            assert!(help.contains(&setting.variable()), "{}", setting.name);
        }
        command.clone().debug_assert();
        let matches = command.try_get_matches_from([
            "test",
            "--database-url",
            "postgres://u:hunter2@h/d",
            "--managed-postgres",
        ]);
        let flags = Flags::from_arg_matches(&matches.expect("parses")).expect("parses");
        let config = flags.resolve().expect("valid");
        assert!(config.managed_postgres);
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(config.explain().iter().all(|one| !one.value.contains("hunter2")));
    }
}
