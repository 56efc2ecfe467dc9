//! The command line and the environment, as clap sees them: one argument per setting, made from the table.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::resolve::{self, Origin};
use super::settings::{Kind, SETTINGS};
use super::{Config, ConfigError};

/// Flatten this into a command of yours (`#[command(flatten)]`), then `resolve`.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub(super) file: Option<PathBuf>,
    /// What flags and environment say, by setting.
    pub(super) given: Vec<(&'static str, String, Origin)>,
}

impl Flags {
    /// Reads the file, if one is named, and settles every value.
    pub fn resolve(self) -> Result<Config, ConfigError> {
        resolve::resolve(self)
    }

    /// As if `--name value` had been given; for programs that start others and for tests.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        assert!(
            SETTINGS.iter().any(|setting| setting.name == name),
            "no setting is called {name}"
        );
        self.given.push((name, value.into(), Origin::Flag));
        self
    }

    pub fn with_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .env("GPUAAS_CONFIG")
            .value_parser(clap::value_parser!(PathBuf))
            .help_heading("Settings")
            .help("Settings file (TOML, keys as the flags with _ for -)");
        SETTINGS.iter().fold(command.arg(file), |command, setting| {
            let help = match setting.default {
                "" => setting.help.to_owned(),
                default => format!("{} [default: {default}]", setting.help),
            };
            let mut arg = Arg::new(setting.name)
                .long(setting.flag())
                .env(setting.variable())
                .hide_env_values(true)
                .action(ArgAction::Set)
                .value_name(value_name(setting.kind))
                .help_heading("Settings")
                .help(help);
            if setting.kind == Kind::Switch {
                // `--managed-postgres` alone means yes.
                arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
            }
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for setting in SETTINGS {
            let Some(value) = matches.get_one::<String>(setting.name) else {
                continue;
            };
            let origin = match matches.value_source(setting.name) {
                Some(ValueSource::EnvVariable) => Origin::Environment,
                _ => Origin::Flag,
            };
            given.push((setting.name, value.clone(), origin));
        }
        Ok(Self {
            file: matches.get_one::<PathBuf>("config").cloned(),
            given,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

const fn value_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "TEXT",
        Kind::Secret => "URL",
        Kind::Path => "PATH",
        Kind::Address => "ADDRESS:PORT",
        Kind::Switch => "true|false",
        Kind::Count => "N",
        Kind::List => "A,B",
        Kind::Choice(_) => "WORD",
    }
}
