//! The arrows between our crates point one way. A new crate has to find its place in this table
//! before anything else about it is discussed.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::graph;

/// A crate, and the crates it may name. `*` is everyone: only for what starts everything.
const MAY_NAME: &[(&str, &str)] = &[
    // words
    ("model", ""),
    ("steps", "model"),
    ("wire", "model"),
    // machine
    ("host", "model"),
    ("executor", "model steps host"),
    ("agent", "model wire"),
    ("vetting", "model wire host"),
    // control plane
    ("base", "model steps wire"),
    ("fleet", "model steps wire base"),
    ("money", "model steps wire base"),
    ("allocation", "model steps wire base fleet money"),
    ("live", "model steps wire base fleet money allocation"),
    ("apps", "model steps wire base fleet money allocation"),
    ("control", "model steps wire base fleet money allocation live apps"),
    ("temporal", "model steps wire base fleet money allocation live apps"),
    // hands
    ("cli", "model wire"),
    ("dev", "*"),
];

#[test]
fn arrows_point_one_way() {
    let table: BTreeMap<&str, &str> = MAY_NAME.iter().copied().collect();
    let mut wrong = Vec::new();
    for package in graph().ours() {
        let Some(allowed) = table.get(package.name.as_str()) else {
            wrong.push(format!("{} has no place in the table of arrows", package.name));
            continue;
        };
        for named in graph().our_direct(package) {
            if !allowed.split(' ').any(|a| a == named || a == "*") {
                wrong.push(format!("{} must not depend on {named}", package.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Nobody depends on what starts everything, nor on the programs' own crates below it.
#[test]
fn the_hands_are_leaves() {
    let leaves = BTreeSet::from(["dev", "cli", "control", "agent", "executor", "vetting"]);
    for package in graph().ours().filter(|p| p.name != "dev") {
        let named = graph().our_direct(package);
        let wrong: Vec<_> = named.intersection(&leaves).collect();
        assert!(wrong.is_empty(), "{} depends on {wrong:?}", package.name);
    }
}
