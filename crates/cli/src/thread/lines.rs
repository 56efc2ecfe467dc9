//! The lines of a thread: each moment once, in order, with the time since it was queued and the time of its leg, all
//! from the server's own clock. On a terminal the last line moves while nothing happens; elsewhere every line is final.

use std::io::Write;

use model::time::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::{findings, has_ended, phases, short, state, text_at};
use crate::failure::Failure;
use crate::output::column::{SIMULATED, find, is_simulated, time_at};
use crate::output::{Format, Out, text};

pub(super) struct Lines {
    shown: usize,
    /// The line at the bottom is provisional and will be written over.
    provisional: bool,
    since: Instant,
    last_said: String,
}

impl Lines {
    pub(super) fn new(out: &mut Out, task: &Value) -> Result<Self, Failure> {
        let simulated = is_simulated(task);
        match out.format {
            Format::Table => {
                let label = if simulated {
                    format!(" {SIMULATED}")
                } else {
                    String::new()
                };
                out.line(&format!(
                    "{}  {} on {}{label}",
                    short(task),
                    text::plain(text_at(task, "task_type")),
                    text::plain(text_at(task, "node_name"))
                ))?;
            }
            Format::Tsv => {
                out.line(&format!("task\t{}", text::plain(text_at(task, "id"))))?;
                out.line(&format!("simulated\t{simulated}"))?;
            }
            Format::Json | Format::Name => {}
        }
        Ok(Self {
            shown: 0,
            provisional: false,
            since: Instant::now(),
            last_said: String::new(),
        })
    }

    /// Whatever is new in this version of the task.
    pub(super) fn show(&mut self, out: &mut Out, task: &Value) -> Result<(), Failure> {
        self.since = Instant::now();
        match out.format {
            Format::Json => return out.ndjson(task),
            Format::Name => return Ok(()),
            Format::Table | Format::Tsv => {}
        }
        self.clear(out)?;
        let moments = moments(task);
        for (at, moment) in moments.iter().enumerate().skip(self.shown) {
            let before = at.checked_sub(1).map(|before| moments[before].at);
            let line = moment.line(out.format, moments[0].at, before);
            out.line(&line)?;
        }
        self.shown = self.shown.max(moments.len());
        if !self.is_live(out) {
            if let Some(line) = phases::running(task) {
                self.say_once(out, &line)?;
            }
            match find(task, "waiting.reason").as_str() {
                Some(reason) => self.say_once(out, &format!("{} waits: {}", short(task), text::plain(reason)))?,
                None if state(task) == "unknown" => self.say_once(
                    out,
                    &format!("{}: its lease ran out; the result may still come", short(task)),
                )?,
                None => {}
            }
        }
        Ok(())
    }

    /// Between two versions, on a terminal: what it is in, for how long, and why.
    pub(super) fn tick(&mut self, out: &mut Out, task: &Value) -> Result<(), Failure> {
        if !self.is_live(out) || has_ended(task) {
            return Ok(());
        }
        let so_far = i64::try_from(self.since.elapsed().as_millis()).unwrap_or(i64::MAX);
        let why = phases::running(task)
            .or_else(|| find(task, "waiting.reason").as_str().map(text::plain))
            .or_else(|| find(task, "phase").as_str().map(text::plain))
            .unwrap_or_default();
        let line: String = format!(
            "  … {} {}  {why}",
            text::plain(state(task)),
            text::span(so_far / 100 * 100)
        )
        .chars()
        .take(78)
        .collect();
        write!(out.env.stdout, "\r\x1b[K{line}")?;
        out.env.stdout.flush()?;
        self.provisional = true;
        Ok(())
    }

    pub(super) fn clear(&mut self, out: &mut Out) -> Result<(), Failure> {
        if std::mem::take(&mut self.provisional) {
            write!(out.env.stdout, "\r\x1b[K")?;
            out.env.stdout.flush()?;
        }
        Ok(())
    }

    pub(super) fn say_once(&mut self, out: &mut Out, line: &str) -> Result<(), Failure> {
        if self.last_said != line {
            self.clear(out)?;
            self.last_said = line.to_owned();
            out.note(line)?;
        }
        Ok(())
    }

    /// What came out of it.
    pub(super) fn finish(&mut self, out: &mut Out, task: &Value) -> Result<(), Failure> {
        self.clear(out)?;
        phases::show(out, task)?;
        let output = find(task, "output");
        match out.format {
            Format::Json => Ok(()),
            Format::Name => out.line(&text::plain(text_at(task, "id"))),
            Format::Table | Format::Tsv if output.as_object().is_none_or(serde_json::Map::is_empty) => Ok(()),
            Format::Table | Format::Tsv => findings::show(out, text_at(task, "task_type"), &output),
        }
    }

    fn is_live(&self, out: &Out) -> bool {
        out.format == Format::Table && out.tty().stdout && out.env.vars.get("TERM").is_none_or(|term| term != "dumb")
    }
}

struct Moment<'a> {
    name: &'a str,
    at: Timestamp,
}

impl Moment<'_> {
    fn line(&self, format: Format, first: Timestamp, before: Option<Timestamp>) -> String {
        let (since, leg) = (self.at.since_ms(first), before.map(|before| self.at.since_ms(before)));
        if format == Format::Tsv {
            let leg = leg.map(|leg| leg.to_string()).unwrap_or_default();
            return format!("{}\t{}\t{since}\t{leg}", text::plain(self.name), self.at);
        }
        let leg = leg.map(|leg| format!("+{}", text::span(leg))).unwrap_or_default();
        format!("  {:<11}{:>8}  {leg:>8}", text::plain(self.name), text::span(since))
            .trim_end()
            .to_owned()
    }
}

/// The moments that a task has had. One that it jumped over (cancelled while queued) is not there.
fn moments(task: &Value) -> Vec<Moment<'_>> {
    let mut moments: Vec<Moment<'_>> = [
        ("queued", "created_at"),
        ("dispatched", "dispatched_at"),
        ("started", "started_at"),
    ]
    .into_iter()
    .filter_map(|(name, place)| {
        Some(Moment {
            name,
            at: time_at(task, place)?,
        })
    })
    .collect();
    if has_ended(task) {
        let end = time_at(task, "ended_at").or(moments.last().map(|last| last.at));
        moments.extend(end.map(|at| Moment { name: state(task), at }));
    }
    moments
}
