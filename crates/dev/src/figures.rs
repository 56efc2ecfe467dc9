//! Figures and their goals: what a bench or a torture run measured, next to the limit that was measured in the same
//! run. Printed as a table, written as JSON; a missed goal is said in both and in the exit code.

use std::path::Path;

use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub name: String,
    pub value: f64,
    pub unit: &'static str,
    /// What the machine itself can do, taken in the same run; none where the goal is a plain number.
    pub limit: Option<f64>,
    /// Value ÷ limit.
    pub ratio: Option<f64>,
    /// In words, with its number: `ratio >= 0.5`. Empty: printed for the reader only.
    pub goal: String,
    pub ok: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// The value itself.
    AtMost(f64),
    AtLeast(f64),
    /// The value against the limit of the run.
    RatioAtMost(f64),
    RatioAtLeast(f64),
    /// Only told.
    None,
}

#[derive(Clone, Debug)]
pub struct Report {
    name: String,
    figures: Vec<Figure>,
}

impl Report {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            figures: Vec::new(),
        }
    }

    /// Keeps a figure and prints its line at once: long runs are watched.
    pub fn put(&mut self, name: &str, value: f64, unit: &'static str, limit: Option<f64>, goal: Goal) {
        let ratio = limit.map(|limit| value / limit);
        let held = |ratio: Option<f64>, holds: fn(&f64, &f64) -> bool, bound: f64| {
            ratio.is_some_and(|ratio| holds(&ratio, &bound))
        };
        let (goal, ok) = match goal {
            Goal::AtMost(most) => (format!("<= {most} {unit}"), value <= most),
            Goal::AtLeast(least) => (format!(">= {least} {unit}"), value >= least),
            Goal::RatioAtMost(most) => (format!("ratio <= {most}"), held(ratio, f64::le, most)),
            Goal::RatioAtLeast(least) => (format!("ratio >= {least}"), held(ratio, f64::ge, least)),
            Goal::None => (String::new(), true),
        };
        let figure = Figure {
            name: name.to_owned(),
            value: rounded(value),
            unit,
            limit: limit.map(rounded),
            ratio: ratio.map(rounded),
            goal,
            ok,
        };
        if self.figures.is_empty() {
            println!("{:<52} {:>14} {:>14} {:>7}  goal", self.name, "value", "limit", "ratio");
        }
        println!("{}", line(&figure));
        self.figures.push(figure);
    }

    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }

    pub fn ok(&self) -> bool {
        self.figures.iter().all(|figure| figure.ok)
    }

    /// `<dir>/<name>.json`, an array of figures.
    pub fn write(&self, dir: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(dir)?;
        let mut text = serde_json::to_string_pretty(&self.figures)?;
        text.push('\n');
        std::fs::write(dir.join(format!("{}.json", self.name)), text)
    }
}

/// Three decimals: more would only tell of the machine's mood.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn line(figure: &Figure) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let verdict = match (figure.goal.is_empty(), figure.ok) {
        (true, _) => "",
        (false, true) => "  ok",
        (false, false) => "  MISSED",
    };
    format!(
        "{:<52} {:>14} {:>14} {:>7}  {}{verdict}",
        figure.name,
        format!("{} {}", figure.value, figure.unit),
        number(figure.limit),
        number(figure.ratio),
        figure.goal,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_goal_is_not_ok_and_a_told_figure_is() {
        let mut report = Report::new("trial");
        report.put("told", 1.0, "ms", None, Goal::None);
        report.put("half", 50.0, "/s", Some(100.0), Goal::RatioAtLeast(0.5));
        assert!(report.ok());
        report.put("no limit", 50.0, "/s", None, Goal::RatioAtLeast(0.5));
        assert!(!report.ok());
        assert_eq!(report.figures[1].ratio, Some(0.5));
    }
}
