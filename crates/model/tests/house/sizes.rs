//! Files stay short enough to read in one sitting. The limits are on lines, tests included.

use std::collections::BTreeSet;

use crate::ratchet::Ratchet;
use crate::tree;

const MEDIAN: usize = 120;
const P90: usize = 350;
const ASKED_WHY: usize = 600;

#[test]
fn half_of_the_files_fit_a_screen_or_two() {
    let mut sizes: Vec<usize> = tree::rust_files().iter().map(|f| f.text.lines().count()).collect();
    sizes.sort_unstable();
    let at = |share: f64| sizes[((sizes.len() - 1) as f64 * share) as usize];
    let (median, p90) = (at(0.5), at(0.9));
    assert!(
        median <= MEDIAN,
        "the median file has {median} lines, the limit is {MEDIAN}"
    );
    assert!(
        p90 <= P90,
        "a tenth of the files has over {p90} lines, the limit is {P90}"
    );
}

#[test]
fn a_long_file_says_why() {
    let long: BTreeSet<String> = tree::rust_files()
        .into_iter()
        .filter(|f| f.text.lines().count() > ASKED_WHY)
        .map(|f| f.path)
        .collect();
    Ratchet::read("files_over_600.txt").with_reasons().holds(&long);
}

/// The first screen of a program is the list of what it can do; a role says what it listens on and
/// which loops it runs.
#[test]
fn programs_and_roles_are_tables_of_contents() {
    let over: Vec<String> = tree::rust_files()
        .iter()
        .filter(|f| f.ships())
        .filter_map(|f| {
            let lines = f.text.lines().count();
            let is_main = f.path.ends_with("/src/main.rs") || f.path.contains("/src/bin/");
            let is_role = f.path.starts_with("crates/control/src/roles/");
            let over = (is_main && lines > 150) || (is_role && lines > 100);
            over.then(|| format!("{} {lines}", f.path))
        })
        .collect();
    assert!(over.is_empty(), "over 150 (main) or 100 (role) lines: {over:#?}");
}
