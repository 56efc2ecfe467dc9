//! What the source itself may not say: a shell, a machine somebody once worked on, an unfinished
//! thought without a number, or a file name that means nothing.

use std::collections::BTreeSet;

use crate::ratchet::Ratchet;
use crate::tree::{self, File};

fn assert_clean(what: &str, wrong: &[String]) {
    assert!(wrong.is_empty(), "{what}: {wrong:#?}");
}

/// Lines of a file that the judge dislikes, as `path:line`.
fn lines(file: &File, bad: impl Fn(&str) -> bool) -> Vec<String> {
    let numbered = file.text.lines().enumerate();
    let bad = numbered.filter(|(_, line)| bad(line));
    bad.map(|(at, line)| format!("{}:{} {}", file.path, at + 1, line.trim()))
        .collect()
}

#[test]
fn no_path_of_somebodys_machine() {
    // Spelled in halves, so that this file is clean too.
    let places = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/tmp", "/c/"),
        concat!("/tmp", "/t/"),
    ];
    let is_bad = |line: &str| places.iter().any(|p| line.contains(p));
    let wrong: Vec<String> = tree::files().iter().flat_map(|f| lines(f, is_bad)).collect();
    assert_clean("paths of a developer's machine", &wrong);
}

#[test]
fn nothing_unfinished() {
    let words = [
        concat!("to", "do!("),
        concat!("unimpl", "emented!("),
        concat!("db", "g!("),
    ];
    let mark = concat!("TO", "DO");
    let is_bad = |line: &str| {
        words.iter().any(|w| line.contains(w))
            || (line.contains(mark) && !line.contains(concat!("TO", "DO(#")))
            || line.contains(concat!("FIX", "ME"))
    };
    let wrong: Vec<String> = tree::rust_files().iter().flat_map(|f| lines(f, is_bad)).collect();
    assert_clean("unfinished", &wrong);
}

/// The machine is touched by argv arrays. A shell would make every string a program.
#[test]
fn no_shell_where_the_machine_is_touched() {
    // As they look without white space. A login shell in a user's account is none of them.
    let shells = [
        "new(\"sh\"",
        "new(\"bash\"",
        "\"sh\",\"-c\"",
        "\"/bin/sh\",\"-c\"",
        "sh\").arg(",
        "sh\").args(",
        "sh-c",
    ];
    let wrong: Vec<String> = tree::rust_files()
        .iter()
        .filter(|f| f.ships() && f.is_in_crate(&["host", "executor", "agent", "vetting"]))
        .flat_map(|f| {
            let dense: String = f.text.split_whitespace().collect();
            let found = shells.into_iter().filter(|s| dense.contains(s)).collect::<Vec<_>>();
            found
                .into_iter()
                .map(|s| format!("{}: {s}", f.path))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_clean("a shell", &wrong);
}

#[test]
fn file_names_are_nouns_that_say_something() {
    let empty = ["util", "utils", "common", "helper", "helpers", "manager", "misc", "v2"];
    let wrong: Vec<String> = tree::rust_files()
        .into_iter()
        .map(|f| f.path)
        .filter(|p| p.trim_end_matches(".rs").split('/').any(|part| empty.contains(&part)))
        .collect();
    assert_clean("names", &wrong);
}

/// The module doc is one paragraph: what it promises, what it refuses.
#[test]
fn every_module_opens_with_its_promise() {
    let wrong: Vec<String> = tree::rust_files()
        .into_iter()
        .filter(|f| !f.text.trim_start().starts_with("//!"))
        .map(|f| f.path)
        .collect();
    assert_clean("no module doc", &wrong);
}

#[test]
fn one_integration_test_binary_per_crate() {
    let wrong: Vec<String> = tree::rust_files()
        .into_iter()
        .map(|f| f.path)
        .filter(|p| {
            let parts: Vec<&str> = p.split('/').collect();
            let loose = parts.len() == 4 && parts[2] == "tests";
            let second = parts.len() == 5 && parts[2] == "tests" && parts[4] == "main.rs";
            loose || (second && !["all", "house"].contains(&parts[3]))
        })
        .collect();
    assert_clean("each is linked on its own: make it a module of tests/all", &wrong);
}

/// A test waits for something, with a deadline. The few that have to poll are known by file.
#[test]
fn tests_do_not_sleep() {
    let sleeping: BTreeSet<String> = tree::rust_files()
        .into_iter()
        .filter(|f| !f.ships() && !f.path.contains("/tests/house/") && f.text.contains("sleep("))
        .map(|f| f.path)
        .collect();
    Ratchet::read("sleeps_in_tests.txt").with_reasons().holds(&sleeping);
}
