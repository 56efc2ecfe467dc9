//! Every place that breaks a lint on purpose. Each says why in the code; the list of them may only shrink.

use std::collections::{BTreeMap, BTreeSet};

use crate::ratchet::Ratchet;
use crate::tree;

/// One attribute: where, which lints, does it have a reason.
struct Expect {
    path: String,
    lints: Vec<String>,
    has_reason: bool,
}

fn expects() -> Vec<Expect> {
    let open = concat!("expect", "(");
    let mut found = Vec::new();
    for file in tree::rust_files() {
        let mut rest = file.text.as_str();
        while let Some(at) = rest.find(open) {
            // An attribute, and not a call on an Option.
            let before = rest[..at].trim_end();
            let is_attribute = before.ends_with("#[") || before.ends_with("#![");
            rest = &rest[at + open.len()..];
            if !is_attribute {
                continue;
            }
            let inside = &rest[..rest.find(")]").expect("a closed attribute")];
            let (lints, reason) = inside.split_once("reason").unwrap_or((inside, ""));
            let lints = lints.split(',').map(str::trim).filter(|l| !l.is_empty());
            found.push(Expect {
                path: file.path.clone(),
                lints: lints.map(str::to_owned).collect(),
                has_reason: reason.trim_start().starts_with('='),
            });
        }
    }
    found
}

#[test]
fn every_broken_rule_has_a_reason() {
    let bare: Vec<String> = expects()
        .into_iter()
        .filter(|e| !e.has_reason)
        .map(|e| e.path)
        .collect();
    assert!(bare.is_empty(), "without a reason: {bare:#?}");
}

/// A line is `path lint count`; the reason stands in the code.
#[test]
fn the_broken_rules_are_known() {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for expect in expects() {
        for lint in expect.lints {
            *counts.entry((expect.path.clone(), lint)).or_default() += 1;
        }
    }
    let lines: BTreeSet<String> = counts
        .into_iter()
        .map(|((path, lint), n)| format!("{path} {lint} {n}"))
        .collect();
    Ratchet::read("expects.txt").holds(&lines);
}
