//! Every event that the code tells is in the table, and what the table says is told is told somewhere.

use std::collections::BTreeSet;

use model::event::EVENTS;

use crate::tree;

/// The first word in quotes after each call; one that is computed has its words elsewhere in the same file.
fn told(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for (at, call) in text.match_indices(".event(") {
        let rest = text[at + call.len()..].trim_start();
        if let Some(quoted) = rest.strip_prefix('"') {
            names.extend(quoted.split('"').next());
        }
    }
    names
}

#[test]
fn what_is_told_is_in_the_table_and_the_other_way_round() {
    let sources: Vec<_> = tree::rust_files()
        .into_iter()
        .filter(|f| f.ships() && !f.path.starts_with("crates/model/"))
        .collect();
    let called: BTreeSet<&str> = sources
        .iter()
        .flat_map(|f| told(&f.text))
        .filter(|name| name.contains('.'))
        .collect();
    assert!(called.len() > 20, "saw only {called:?}");
    let emitted: BTreeSet<&str> = EVENTS.iter().filter(|one| one.emitted).map(|one| one.name).collect();
    let unknown: Vec<_> = called
        .iter()
        .filter(|name| !emitted.contains(*name) && !name.starts_with("test."))
        .collect();
    assert!(unknown.is_empty(), "told, and not in model::event as told: {unknown:?}");
    for one in EVENTS {
        let quoted = format!("\"{}\"", one.name);
        let written = sources.iter().any(|f| f.text.contains(&quoted));
        assert_eq!(
            written, one.emitted,
            "{}: the table says emitted = {}",
            one.name, one.emitted
        );
    }
}

#[test]
fn calls_are_found_however_they_are_written() {
    let text = "change.event(\"a.b\", x);\nchange.event(\n    \"c.d\",\n y);\nchange.event(kind(to), z);";
    assert_eq!(told(text), ["a.b", "c.d"]);
}
