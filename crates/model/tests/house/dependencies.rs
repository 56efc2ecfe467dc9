//! What we take from others: licences that allow it, from one registry, one version of each where it
//! can be had, and for each a line that says what it saves us.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::graph;
use crate::ratchet::Ratchet;
use crate::tree;

/// Licences that ask for no more than a notice: one list, in deny.toml.
fn licences() -> BTreeSet<String> {
    let text = tree::read("deny.toml");
    let (_, rest) = text.split_once("allow = [").expect("the list of licences");
    let (list, _) = rest.split_once(']').expect("its end");
    list.split(',')
        .map(|l| l.trim().trim_matches('"').to_owned())
        .filter(|l| !l.is_empty())
        .collect()
}

/// Does an SPDX expression allow use under the list? `OR` needs one side, `AND` both.
fn allows(expression: &str, list: &BTreeSet<String>) -> bool {
    let expression = expression.trim().replace('/', " OR ");
    let either = sides(&expression, " OR ");
    if either.len() > 1 {
        return either.iter().any(|side| allows(side, list));
    }
    let all = sides(&expression, " AND ");
    if all.len() > 1 {
        return all.iter().all(|side| allows(side, list));
    }
    match expression.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => allows(inner, list),
        None => list.contains(&expression),
    }
}

/// The parts between the operators that stand outside any parenthesis.
fn sides<'a>(expression: &'a str, operator: &str) -> Vec<&'a str> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, letter) in expression.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ' ' if depth == 0 && expression[at..].starts_with(operator) => {
                parts.push(&expression[from..at]);
                from = at + operator.len();
            }
            _ => {}
        }
    }
    parts.push(&expression[from..]);
    parts
}

#[test]
fn expressions_are_read_as_spdx_means_them() {
    let list = ["MIT", "Apache-2.0", "ISC", "Unicode-3.0"].map(str::to_owned).into();
    for good in [
        "MIT OR Apache-2.0",
        "MIT/Apache-2.0",
        "GPL-3.0 OR MIT",
        "ISC AND (Apache-2.0 OR ISC)",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
    ] {
        assert!(allows(good, &list), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND LGPL-2.1", ""] {
        assert!(!allows(bad, &list), "{bad}");
    }
}

#[test]
fn licences_allow_what_we_do() {
    let list = licences();
    let wrong: Vec<String> = graph()
        .all_linked()
        .filter(|p| !p.licence.as_deref().is_some_and(|l| allows(l, &list)))
        .map(|p| format!("{} {}: {:?}", p.name, p.version, p.licence))
        .collect();
    let seen = graph().all_linked().count();
    assert!(seen > 50, "the graph has only {seen} packages");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn everything_comes_from_the_one_registry() {
    let lock = tree::read("Cargo.lock");
    let official = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    let wrong: Vec<&str> = lock
        .lines()
        .filter(|l| l.starts_with("source = ") && *l != official)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A line is `name count # who brings it`.
#[test]
fn second_versions_are_known() {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in graph().all_linked() {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    let doubled: BTreeSet<String> = versions
        .into_iter()
        .filter(|(_, v)| v.len() > 1)
        .map(|(name, v)| format!("{name} {}", v.len()))
        .collect();
    Ratchet::read("duplicates.txt").with_reasons().holds(&doubled);
}

/// Each dependency in the root manifest says on its line what it saves us, and somebody uses it.
#[test]
fn every_dependency_earns_its_place() {
    let manifest = tree::read("Cargo.toml");
    let (_, rest) = manifest.split_once("[workspace.dependencies]").expect("the section");
    let (section, _) = rest.split_once("\n[").expect("a section after it");
    let crates: Vec<String> = tree::files()
        .into_iter()
        .filter(|f| f.path.starts_with("crates/") && f.path.ends_with("Cargo.toml"))
        .map(|f| f.text)
        .collect();
    let mut wrong = Vec::new();
    for line in section.lines().filter(|l| !l.starts_with('#')) {
        let Some((name, rest)) = line.split_once(" = ") else {
            continue;
        };
        if rest.contains("path = ") {
            continue; // our own
        }
        if !rest.contains(" # ") {
            wrong.push(format!("{name}: no reason"));
        }
        let used = format!("\n{name}.workspace");
        let used_with = format!("\n{name} = {{ workspace");
        if !crates.iter().any(|c| c.contains(&used) || c.contains(&used_with)) {
            wrong.push(format!("{name}: nobody uses it"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
