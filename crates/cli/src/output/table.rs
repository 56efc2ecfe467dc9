//! Tables for people: columns in line, two spaces between them, no frame to get in the way of copying.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

use super::column::{Column, Reader};

fn empty() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

fn lines(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

pub(crate) fn rows(columns: &[&'static Column], rows: &[Value], reader: Reader, color: bool) -> String {
    let mut table = empty();
    table.add_row(columns.iter().map(|column| column.name.to_ascii_uppercase()));
    for row in rows {
        table.add_row(columns.iter().map(|column| column.cell(row, reader)));
    }
    let page = lines(table);
    match page.split_once('\n') {
        Some((head, rest)) if color => format!("\x1b[1m{head}\x1b[0m\n{rest}"),
        _ => page,
    }
}

/// Name and value, one pair per line.
pub(crate) fn pairs<N: AsRef<str>>(pairs: &[(N, String)]) -> String {
    let mut table = empty();
    for (name, value) in pairs {
        table.add_row([name.as_ref(), value.as_str()]);
    }
    lines(table)
}
