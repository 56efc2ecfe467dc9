//! One run of the program: its settings, its output, and a client that is made when first needed.

use std::io::Write;

use serde_json::Value;

use crate::client::Client;
use crate::config::{Flags, Settings};
use crate::env::Env;
use crate::failure::Failure;
use crate::output::{Format, Out};

pub(crate) struct Session {
    pub(crate) settings: Settings,
    pub(crate) out: Out,
    client: Option<Client>,
}

impl Session {
    /// Gives the streams back on failure, so that it can be told.
    pub(crate) fn open(flags: Flags, columns: Option<Vec<String>>, env: Env) -> Result<Self, (Failure, Env)> {
        let settings = match Settings::resolve(flags, &env.vars, env.tty.stdout) {
            Ok(settings) => settings,
            Err(failure) => return Err((failure, env)),
        };
        let by_stream = if env.tty.stdout { Format::Table } else { Format::Tsv };
        let out = Out {
            format: settings.output.as_ref().map_or(by_stream, |output| output.value),
            color: settings.color,
            columns,
            env,
        };
        Ok(Self {
            settings,
            out,
            client: None,
        })
    }

    pub(crate) fn client(&mut self) -> Result<Client, Failure> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let client = Client::new(&self.settings)?;
        if let Some(pid) = self.settings.dev_pid {
            self.out.note(&format!(
                "using the development server at {} (pid {pid})",
                client.base()
            ))?;
        }
        self.client = Some(client.clone());
        Ok(client)
    }

    /// Asked on a terminal; elsewhere the flag is the answer.
    pub(crate) fn confirm(&mut self, yes: bool, what: &str) -> Result<(), Failure> {
        if yes {
            return Ok(());
        }
        let tty = self.out.tty();
        if !(tty.stdin && tty.stderr) {
            return Err(
                Failure::usage(format!("this would {what}; nobody is here to ask")).hint("add --yes if you mean it")
            );
        }
        write!(self.out.env.stderr, "This will {what}. Go on? [y/N] ")?;
        self.out.env.stderr.flush()?;
        let mut answer = String::new();
        self.out.env.stdin.read_line(&mut answer)?;
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            Ok(())
        } else {
            Err(Failure::usage("not confirmed; nothing was done").hint("answer y, or add --yes"))
        }
    }

    /// `limit` items of a list, and a word if there are more.
    pub(crate) async fn list(
        &mut self,
        path: &str,
        filters: &[(&str, Option<String>)],
        limit: &Limit,
        view: &crate::output::column::View,
    ) -> Result<(), Failure> {
        let client = self.client()?;
        let document = client.list(path, filters, limit.most()).await?;
        self.out.list(view, &document)?;
        if document.get("next").is_some_and(Value::is_string) {
            self.out.note(&format!(
                "there are more than these {}; --limit N or --all shows them",
                limit.most()
            ))?;
        }
        Ok(())
    }
}

#[derive(clap::Args)]
pub(crate) struct Limit {
    /// The newest N
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// All of them, page by page
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl Limit {
    pub(crate) fn most(&self) -> usize {
        if self.all {
            usize::MAX
        } else {
            usize::try_from(self.limit).unwrap_or(usize::MAX)
        }
    }
}
