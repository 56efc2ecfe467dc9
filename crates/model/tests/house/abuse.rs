//! The abuse cases: each is a test called `abuse_NN_word`, or stands in the list of those still open.
//! The list may only shrink, and no number can be forgotten.

use std::collections::{BTreeMap, BTreeSet};

use crate::ratchet::Ratchet;
use crate::tree::{self, File};

const LAST: u32 = 62;
/// Second halves, of cases that need something built later than the first half.
const PARTS: [&str; 5] = ["13b", "29b", "38b", "40b", "59b"];

/// The cases that a file tests: `02`, `2` and `2_word` are the same number.
fn tested_in(file: &File) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    for (at, line) in lines.iter().enumerate() {
        let Some((_, rest)) = line.split_once(concat!("fn abu", "se_")) else {
            continue;
        };
        let (number, _) = rest.split_once('_').unwrap_or_else(|| panic!("{}: {line}", file.path));
        let key = number.trim_start_matches('0').to_owned();
        let above: Vec<&&str> = lines[..at]
            .iter()
            .rev()
            .take_while(|l| l.starts_with("#[") || l.starts_with("///") || l.ends_with(")]"))
            .collect();
        let runs = above.iter().any(|l| l.starts_with("#[") && l.contains("test"));
        let ignored = above.iter().any(|l| l.contains("ignore"));
        assert!(runs && !ignored, "{}: {line} is not a test that runs", file.path);
        found.push((key, file.path.clone()));
    }
    found
}

#[test]
fn every_abuse_case_is_tested_or_listed_as_open() {
    let all: BTreeSet<String> = (1..=LAST)
        .map(|n| n.to_string())
        .chain(PARTS.map(str::to_owned))
        .collect();
    let tested: BTreeMap<String, String> = tree::rust_files().iter().flat_map(tested_in).collect();
    for (key, path) in &tested {
        assert!(all.contains(key), "{path}: there is no abuse case {key}");
    }
    let open = all.into_iter().filter(|key| !tested.contains_key(key)).collect();
    Ratchet::read("abuse_open.txt").with_reasons().holds(&open);
}

#[test]
fn a_number_is_read_from_the_name_and_must_be_a_test() {
    let file = |text: &str| File {
        path: "x.rs".to_owned(),
        text: text.to_owned(),
    };
    let name = concat!("fn abu", "se_02_wrong_node() {}");
    let tested = tested_in(&file(&format!("#[test]\n{name}")));
    assert_eq!(tested, [("2".to_owned(), "x.rs".to_owned())]);
    let bare = file(name);
    assert!(std::panic::catch_unwind(|| tested_in(&bare)).is_err());
}
