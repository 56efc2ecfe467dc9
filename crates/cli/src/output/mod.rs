//! What a command says: data on stdout as a table, TSV, JSON or names, everything else on stderr. Promises that text
//! from a server reaches neither stream unescaped, and that JSON on stderr stays JSON.

pub(crate) mod column;
pub(crate) mod money;
#[cfg(test)]
mod places;
pub(crate) mod table;
pub(crate) mod text;

use std::io::Write;

use clap::ValueEnum;
use model::time::Timestamp;
use serde_json::{Value, json};

use crate::clock;
use crate::env::{Env, Tty};
use crate::failure::Failure;
use column::{Column, Reader, Shown, View, find, is_simulated, time_at};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    // Plain comments: with doc comments clap would give every option of every help page a paragraph.
    // For people: short ids, ages.
    Table,
    // For programs: full ids, RFC 3339, no heading.
    Tsv,
    // The API's document; one per line while watching.
    Json,
    // Full ids only.
    Name,
}

/// What a verb has done and what can be expected of it, in words that are safe to show.
pub(crate) struct Done {
    what: String,
    next: Option<String>,
}

impl Done {
    pub(crate) fn of(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            next: None,
        }
    }

    /// What to type next.
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

pub(crate) struct Out {
    pub(crate) env: Env,
    pub(crate) format: Format,
    pub(crate) color: bool,
    pub(crate) columns: Option<Vec<String>>,
}

impl Out {
    pub(crate) fn tty(&self) -> Tty {
        self.env.tty
    }

    pub(crate) fn reader(&self) -> Reader {
        match self.format {
            Format::Table => Reader::Person { now: self.now() },
            Format::Tsv | Format::Json | Format::Name => Reader::Program,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        clock::now()
    }

    /// A line of data; the caller has made it safe.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        writeln!(self.env.stdout, "{line}")?;
        Ok(self.env.stdout.flush()?)
    }

    /// Something to know that is not data. Kept quiet in JSON mode, where stderr is for the envelope.
    pub(crate) fn note(&mut self, line: &str) -> Result<(), Failure> {
        if self.format != Format::Json {
            writeln!(self.env.stderr, "{line}")?;
        }
        Ok(())
    }

    pub(crate) fn json(&mut self, document: &Value) -> Result<(), Failure> {
        let pretty = self.env.tty.stdout;
        self.line(&text::json(document, pretty))
    }

    /// One document of many, on one line.
    pub(crate) fn ndjson(&mut self, document: &Value) -> Result<(), Failure> {
        self.line(&text::json(document, false))
    }

    /// A list document, `{"items": […], "next": …}`.
    pub(crate) fn list(&mut self, view: &View, document: &Value) -> Result<(), Failure> {
        let columns = self.chosen(view)?;
        let rows = document
            .get("items")
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        match self.format {
            Format::Json => self.json(document),
            Format::Name => self.names(view, rows),
            Format::Tsv => {
                for row in rows {
                    let cells: Vec<String> = columns.iter().map(|c| c.cell(row, Reader::Program)).collect();
                    self.line(&cells.join("\t"))?;
                }
                Ok(())
            }
            Format::Table => {
                if rows.is_empty() {
                    return self.note("none");
                }
                let page = table::rows(&columns, rows, self.reader(), self.color);
                self.line(&page)?;
                rows.iter().try_for_each(|row| self.waiting(row))
            }
        }
    }

    /// One object, a line per field.
    pub(crate) fn record(&mut self, view: &View, row: &Value) -> Result<(), Failure> {
        let columns = match self.columns {
            Some(_) => self.chosen(view)?,
            None => view.columns.iter().collect(),
        };
        match self.format {
            Format::Json => self.json(row),
            Format::Name => self.names(view, std::slice::from_ref(row)),
            Format::Tsv => columns.iter().try_for_each(|column| {
                let cell = column.cell(row, Reader::Program);
                self.line(&format!("{}\t{cell}", column.label(Reader::Program)))
            }),
            Format::Table => {
                // Fields without a value say nothing on a screen.
                let reader = self.reader();
                let pairs: Vec<(&str, String)> = columns
                    .iter()
                    .map(|c| (c.name, c.cell(row, reader)))
                    .filter(|(_, cell)| cell != "-")
                    .collect();
                let page = table::pairs(&pairs);
                self.line(&page)?;
                self.waiting(row)
            }
        }
    }

    /// What a verb has done: a sentence for people, and what to type next; the object itself for programs, and for
    /// whoever asks for columns of it.
    pub(crate) fn told(&mut self, view: &View, row: &Value, done: &Done) -> Result<(), Failure> {
        if self.format == Format::Table && self.columns.is_none() {
            self.sentence(done)
        } else {
            self.record(view, row)
        }
    }

    /// The same where programs are used to one row of a list.
    pub(crate) fn told_row(&mut self, view: &View, row: &Value, done: &Done) -> Result<(), Failure> {
        match self.format {
            Format::Table if self.columns.is_none() => self.sentence(done),
            Format::Json | Format::Name => self.record(view, row),
            Format::Table | Format::Tsv => self.list(view, &json!({"items": [row], "next": null})),
        }
    }

    pub(crate) fn sentence(&mut self, done: &Done) -> Result<(), Failure> {
        self.line(&done.what)?;
        match &done.next {
            Some(next) => self.line(&format!("  next: {next}")),
            None => Ok(()),
        }
    }

    fn names(&mut self, view: &View, rows: &[Value]) -> Result<(), Failure> {
        for row in rows {
            let key = find(row, view.key);
            self.line(&text::plain(key.as_str().unwrap_or_default()))?;
        }
        Ok(())
    }

    /// Whatever waits says why, since when, and what helps.
    pub(crate) fn waiting(&mut self, row: &Value) -> Result<(), Failure> {
        let Some(reason) = find(row, "waiting.reason").as_str().map(text::plain) else {
            return Ok(());
        };
        let age = time_at(row, "waiting.since")
            .map(|since| format!(" for {}", text::age(self.now().since_ms(since))))
            .unwrap_or_default();
        let who = ["name", "id"]
            .iter()
            .find_map(|place| row.get(place)?.as_str())
            .unwrap_or_default();
        let who = if is_simulated(row) && row.get("name").is_none() {
            format!("{} {}", text::short_id(&text::plain(who)), column::SIMULATED)
        } else {
            text::short_id(&text::plain(who))
        };
        self.line(&format!("  {who} waits{age}: {reason}"))?;
        match find(row, "waiting.verb").as_str() {
            Some(verb) if !verb.is_empty() => self.line(&format!("    try: {}", text::plain(verb))),
            _ => Ok(()),
        }
    }

    fn chosen(&self, view: &View) -> Result<Vec<&'static Column>, Failure> {
        let Some(names) = &self.columns else {
            let shown = |column: &&Column| match column.shown {
                Shown::Everybody => true,
                Shown::People => self.format == Format::Table,
                Shown::Programs => self.format != Format::Table,
                Shown::Nobody => false,
            };
            return Ok(view.columns.iter().filter(shown).collect());
        };
        names
            .iter()
            .map(|name| {
                // Also by what programs call it, which names the unit.
                let fits = |column: &&Column| column.name == name || column.label(Reader::Program) == *name;
                view.columns.iter().find(fits).ok_or_else(|| {
                    let known: Vec<&str> = view.columns.iter().map(|column| column.name).collect();
                    Failure::usage(format!(
                        "there is no column {name:?} here; there are {}",
                        known.join(", ")
                    ))
                })
            })
            .collect()
    }
}
