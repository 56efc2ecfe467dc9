//! `gpuaas config`: each setting, its value and who decided it. Never the token itself.

use clap::Subcommand;
use serde_json::{Value, json};

use crate::config::{Credentials, Sourced};
use crate::failure::Failure;
use crate::output::Format;
use crate::output::column::{Kind, View, col};
use crate::session::Session;

pub(crate) const VIEW: View = View {
    columns: &[
        col("setting", "setting", Kind::Text),
        col("value", "value", Kind::Text),
        col("from", "from", Kind::Text),
    ],
    key: "setting",
};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Every setting, its value and where it comes from: flag, environment, profile, login or default
    #[command(visible_alias = "explain")]
    Show,
}

pub(crate) fn run(verb: Verb, session: &mut Session) -> Result<(), Failure> {
    match verb {
        Verb::Show => show(session),
    }
}

fn show(session: &mut Session) -> Result<(), Failure> {
    let settings = &session.settings;
    let row = |setting: &str, value: Option<(String, String)>| {
        let (value, from) = value.map_or((Value::Null, Value::Null), |(value, from)| (value.into(), from.into()));
        json!({"setting": setting, "value": value, "from": from})
    };
    fn pair<T>(sourced: &Sourced<T>, show: impl Fn(&T) -> String) -> (String, String) {
        (show(&sourced.value), sourced.from.to_string())
    }
    let by_stream = || ("table on a terminal, tsv in a pipe".to_owned(), "default".to_owned());
    let items = [
        row(
            "config_dir",
            Some(pair(&settings.config_dir, |dir| dir.display().to_string())),
        ),
        row("profile", Some(pair(&settings.profile, String::clone))),
        row("url", settings.url.as_ref().map(|url| pair(url, String::clone))),
        row(
            "token",
            settings.token.as_ref().map(|token| pair(token, |_| "set".to_owned())),
        ),
        row(
            "ca_file",
            settings
                .ca_file
                .as_ref()
                .map(|file| pair(file, |file| file.display().to_string())),
        ),
        row(
            "output",
            Some(
                settings
                    .output
                    .as_ref()
                    .map_or_else(by_stream, |output| pair(output, |format| word(*format).to_owned())),
            ),
        ),
        row(
            "project",
            settings.project.as_ref().map(|project| pair(project, String::clone)),
        ),
        row(
            "credentials",
            Some((
                Credentials::at(&settings.config_dir.value).path().display().to_string(),
                "0600 file".to_owned(),
            )),
        ),
    ];
    session.out.list(&VIEW, &json!({"items": items, "next": null}))
}

const fn word(format: Format) -> &'static str {
    match format {
        Format::Table => "table",
        Format::Tsv => "tsv",
        Format::Json => "json",
        Format::Name => "name",
    }
}
