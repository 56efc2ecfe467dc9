//! What a table shows, as data: each column names a place in the API's document and how to read it. Documents are
//! read tolerantly, by place and not by type, so that last year's command line shows this year's nodes; a test holds
//! every place against the types of `model`.

use model::time::Timestamp;
use serde_json::Value;

use super::{money, text};

pub(crate) struct Column {
    /// As in `--columns`; the heading is the same in capitals.
    pub(crate) name: &'static str,
    /// `waiting.reason`; through a list it collects, `task_types.type`; a span has two ends, `created_at..ended_at`.
    pub(crate) path: &'static str,
    pub(crate) kind: Kind,
    pub(crate) shown: Shown,
}

/// To whom lists show a column that was not asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Everybody,
    /// Programs count columns, so that theirs stay as they were; they can ask for it.
    People,
    /// People see it in another cell, as SIMULATED beside a name.
    Programs,
    Nobody,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Id,
    /// A name that carries SIMULATED when the host below is pretended.
    Named,
    /// A moment: an age for people, RFC 3339 for programs.
    Since,
    /// A moment to come: what is left of it.
    Until,
    Span,
    Mib,
    Bytes,
    /// Millionths of the row's currency, for an hour.
    Price,
    /// Millionths of whatever currency.
    Amount,
    /// A list where equals stand together: `8 × H100`.
    Tally,
}

/// A column that lists show.
pub(crate) const fn col(name: &'static str, path: &'static str, kind: Kind) -> Column {
    Column {
        name,
        path,
        kind,
        shown: Shown::Everybody,
    }
}

/// A column that lists show on a terminal.
pub(crate) const fn seen(name: &'static str, path: &'static str, kind: Kind) -> Column {
    Column {
        name,
        path,
        kind,
        shown: Shown::People,
    }
}

/// A column that lists show in a pipe.
pub(crate) const fn piped(name: &'static str, path: &'static str, kind: Kind) -> Column {
    Column {
        name,
        path,
        kind,
        shown: Shown::Programs,
    }
}

/// A column that is there for `--columns` and `show`.
pub(crate) const fn extra(name: &'static str, path: &'static str, kind: Kind) -> Column {
    Column {
        name,
        path,
        kind,
        shown: Shown::Nobody,
    }
}

/// Columns and the place that identifies a row, for `-o name`.
pub(crate) struct View {
    pub(crate) columns: &'static [Column],
    pub(crate) key: &'static str,
}

/// For whom a cell is written.
#[derive(Clone, Copy)]
pub(crate) enum Reader {
    Person { now: Timestamp },
    Program,
}

pub(crate) const SIMULATED: &str = "(SIMULATED)";

impl Column {
    /// What stands before the value: programs get its unit, people see it in the value.
    pub(crate) fn label(&self, reader: Reader) -> String {
        let unit = match (self.kind, reader) {
            (Kind::Mib, Reader::Program) => "_mib",
            (Kind::Bytes, Reader::Program) => "_bytes",
            (Kind::Span, Reader::Program) => "_ms",
            (Kind::Price, Reader::Program) => "_micro_per_hour",
            (Kind::Amount, Reader::Program) => "_micro",
            _ => "",
        };
        format!("{}{unit}", self.name)
    }

    pub(crate) fn cell(&self, row: &Value, reader: Reader) -> String {
        let found = match self.kind {
            Kind::Span => span(row, self.path),
            _ => find(row, self.path),
        };
        let cell = match (self.kind, reader) {
            (_, Reader::Program) => text_of(&found),
            (Kind::Text, _) => text_of(&found),
            (Kind::Id, _) => text::short_id(&text_of(&found)),
            (Kind::Named, _) => {
                let label = if is_simulated(row) { SIMULATED } else { "" };
                format!("{} {label}", text_of(&found)).trim_end().to_owned()
            }
            (Kind::Since, Reader::Person { now }) => moment(&found, |at| text::age(now.since_ms(at))),
            (Kind::Until, Reader::Person { now }) => moment(&found, |at| match at.since_ms(now) {
                left if left <= 0 => format!("over {}", text::age(-left)),
                left => text::left(left),
            }),
            (Kind::Span, _) => found.as_i64().map(text::span).unwrap_or_default(),
            (Kind::Mib, _) => found.as_u64().map(|mib| bytes(mib << 20)).unwrap_or_default(),
            (Kind::Tally, _) => tally(&found),
            (Kind::Bytes, _) => found.as_u64().map(bytes).unwrap_or_default(),
            (Kind::Price, _) => price(&found, row),
            (Kind::Amount, _) => found.as_u64().map(money::amount).unwrap_or_default(),
        };
        match reader {
            Reader::Person { .. } if cell.is_empty() => "-".to_owned(),
            _ => text::plain(&cell),
        }
    }
}

pub(crate) fn is_simulated(row: &Value) -> bool {
    row.get("simulated").and_then(Value::as_bool).unwrap_or(false)
}

/// The value at a place; through a list, the list of them.
pub(crate) fn find(row: &Value, path: &str) -> Value {
    path.split('.').fold(row.clone(), |value, step| match value {
        Value::Array(items) => items
            .iter()
            .map(|item| item.get(step).cloned().unwrap_or_default())
            .collect(),
        Value::Object(mut fields) => fields.remove(step).unwrap_or_default(),
        _ => Value::Null,
    })
}

pub(crate) fn time_at(row: &Value, path: &str) -> Option<Timestamp> {
    find(row, path).as_str()?.parse().ok()
}

fn span(row: &Value, path: &str) -> Value {
    let ends = path
        .split_once("..")
        .and_then(|(from, to)| Some((time_at(row, from)?, time_at(row, to)?)));
    ends.map_or(Value::Null, |(from, to)| to.since_ms(from).into())
}

fn moment(found: &Value, show: impl Fn(Timestamp) -> String) -> String {
    let text = text_of(found);
    text.parse().map(show).unwrap_or(text)
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text_of).collect::<Vec<_>>().join(","),
        Value::Object(fields) if fields.is_empty() => String::new(),
        other => other.to_string(),
    }
}

fn tally(list: &Value) -> String {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for text in list
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(text_of)
    {
        match counts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => counts.push((text, 1)),
        }
    }
    let shown: Vec<String> = counts
        .into_iter()
        .map(|(text, count)| format!("{count} × {}", if text.is_empty() { "none" } else { &text }))
        .collect();
    shown.join(", ")
}

fn price(found: &Value, row: &Value) -> String {
    let currency = text_of(&find(row, "currency"));
    found
        .as_u64()
        .map(|micro| money::per_hour(micro, &currency))
        .unwrap_or_default()
}

pub(crate) fn bytes(size: u64) -> String {
    match size {
        0..1_048_576 => format!("{} KiB", size >> 10),
        1_048_576..10_737_418_240 => format!("{} MiB", size >> 20),
        _ => format!("{} GiB", size >> 30),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Reader = Reader::Person {
        now: Timestamp::from_millis(1_000_000),
    };

    #[test]
    fn a_place_is_followed_through_objects_and_lists() {
        let row = json!({"a": {"b": 7}, "l": [{"t": "x"}, {"t": "y"}, {}], "e": {}});
        for (path, text) in [("a.b", "7"), ("l.t", "x,y,"), ("a.c", ""), ("a.b.c", ""), ("e", "")] {
            assert_eq!(col("n", path, Kind::Text).cell(&row, Reader::Program), text, "{path}");
        }
        assert_eq!(col("n", "a.c", Kind::Text).cell(&row, NOW), "-");
    }

    #[test]
    fn people_read_ages_and_programs_read_times() {
        let row = json!({"at": "1970-01-01T00:13:20.000Z", "to": "1970-01-01T00:13:20.093Z"});
        assert_eq!(col("n", "at", Kind::Since).cell(&row, NOW), "3m");
        assert_eq!(col("n", "at", Kind::Until).cell(&row, NOW), "over 3m");
        assert_eq!(
            col("n", "at", Kind::Since).cell(&row, Reader::Program),
            "1970-01-01T00:13:20.000Z"
        );
        assert_eq!(col("n", "at..to", Kind::Span).cell(&row, NOW), "93ms");
        assert_eq!(col("n", "at..to", Kind::Span).cell(&row, Reader::Program), "93");
        assert_eq!(col("n", "at..gone", Kind::Span).cell(&row, NOW), "-");
    }

    #[test]
    fn equals_are_counted() {
        let row = json!({"gpus": [{"model": "H100"}, {"model": "H100"}, {}]});
        assert_eq!(
            col("n", "gpus.model", Kind::Tally).cell(&row, NOW),
            "2 × H100, 1 × none"
        );
        assert_eq!(col("n", "gpus.model", Kind::Tally).cell(&json!({"gpus": []}), NOW), "-");
    }

    #[test]
    fn people_read_prices_and_programs_read_millionths() {
        let row = json!({"p": 125_000, "currency": "USD"});
        let price = col("price", "p", Kind::Price);
        assert_eq!(price.cell(&row, NOW), "0.125 USD/h");
        assert_eq!(price.cell(&row, Reader::Program), "125000");
        assert_eq!(price.label(Reader::Program), "price_micro_per_hour");
    }

    #[test]
    fn what_is_pretended_says_so() {
        let name = col("name", "name", Kind::Named);
        assert_eq!(
            name.cell(&json!({"name": "sim-a", "simulated": true}), NOW),
            "sim-a (SIMULATED)"
        );
        assert_eq!(name.cell(&json!({"name": "gpu-7", "simulated": false}), NOW), "gpu-7");
        assert_eq!(
            name.cell(&json!({"name": "sim-a", "simulated": true}), Reader::Program),
            "sim-a"
        );
    }
}
