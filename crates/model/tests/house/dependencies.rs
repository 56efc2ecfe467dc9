//! What we take from others: licences that allow it, from one registry, one version of each where it
//! can be had, and for each a line that says what it saves us.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::graph;
use crate::ratchet::Ratchet;
use crate::tree;

/// Licences that ask for no more than a notice. deny.toml has the same list.
const LICENCES: &[&str] = &[
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0",
    "CC0-1.0", "CDLA-Permissive-2.0", "ISC", "MIT", "MIT-0", "OpenSSL", "Unicode-3.0", "Unlicense", "Zlib",
];

/// Does an SPDX expression allow use under the list? `OR` needs one side, `AND` both.
fn allows(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let mut depth = 0_i32;
    let (mut ors, mut ands) = (Vec::new(), Vec::new());
    let (mut from, bytes) = (0, expression.as_bytes());
    for at in 0..bytes.len() {
        match bytes[at] {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ if depth == 0 && expression[at..].starts_with(" OR ") => {
                ors.push(expression[from..at].to_owned());
                from = at + 4;
            }
            _ => {}
        }
    }
    if !ors.is_empty() {
        ors.push(expression[from..].to_owned());
        return ors.iter().any(|side| allows(side));
    }
    for at in 0..bytes.len() {
        match bytes[at] {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ if depth == 0 && expression[at..].starts_with(" AND ") => {
                ands.push(expression[from..at].to_owned());
                from = at + 5;
            }
            _ => {}
        }
    }
    if !ands.is_empty() {
        ands.push(expression[from..].to_owned());
        return ands.iter().all(|side| allows(side));
    }
    let one = expression.trim();
    match one.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => allows(inner),
        None => LICENCES.contains(&one),
    }
}

#[test]
fn expressions_are_read_as_spdx_means_them() {
    assert!(allows("MIT OR Apache-2.0"));
    assert!(allows("MIT/Apache-2.0"));
    assert!(allows("GPL-3.0 OR MIT"));
    assert!(allows("ISC AND (Apache-2.0 OR ISC)"));
    assert!(allows("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(!allows("GPL-3.0"));
    assert!(!allows("MIT AND GPL-3.0"));
    assert!(!allows("(MIT OR Apache-2.0) AND LGPL-2.1"));
}

#[test]
fn licences_allow_what_we_do() {
    let linked = graph().all_linked();
    let wrong: Vec<String> = linked
        .values()
        .filter(|p| !p.licence.as_deref().is_some_and(allows))
        .map(|p| format!("{} {}: {:?}", p.name, p.version, p.licence))
        .collect();
    assert!(linked.len() > 50, "the graph has only {} packages", linked.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn everything_comes_from_the_one_registry() {
    let lock = tree::read("Cargo.lock");
    let official = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    let wrong: Vec<&str> =
        lock.lines().filter(|l| l.starts_with("source = ") && *l != official).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A line is `name count # who brings it`.
#[test]
fn second_versions_are_known() {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let linked = graph().all_linked();
    for (name, version) in linked.keys() {
        versions.entry(name).or_default().insert(version);
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
        let Some((name, rest)) = line.split_once(" = ") else { continue };
        if !rest.contains("path = ") && !rest.contains(" # ") {
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
