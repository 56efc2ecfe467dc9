//! The documents at the root name only what exists: paths, make targets, crates.

use std::collections::BTreeSet;

use crate::graph::graph;
use crate::tree;

const DOCUMENTS: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];

/// What stands between backticks, and in the brackets of links.
fn names(text: &str) -> Vec<String> {
    let in_code = text.split('`').skip(1).step_by(2).map(str::to_owned);
    let in_links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let in_links = in_links.map(|(link, _)| link.split('#').next().unwrap_or("").to_owned());
    in_code
        .chain(in_links.filter(|l| !l.contains("://") && !l.is_empty()))
        .collect()
}

fn targets() -> BTreeSet<String> {
    let makefile = tree::read("Makefile");
    let rules = makefile
        .lines()
        .filter_map(|l| l.split_once(": ##").or(l.split_once(":")));
    rules
        .map(|(name, _)| name.to_owned())
        .filter(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
        .collect()
}

#[test]
fn paths_in_documents_exist() {
    let root = tree::root();
    let mut wrong = Vec::new();
    for document in DOCUMENTS {
        for name in names(&tree::read(document)) {
            let first = name.split('/').next().unwrap_or("");
            let is_path = name.contains('/')
                && !name.contains(['*', '<', '{', ' ', '…'])
                && !first.is_empty()
                && root.join(first).is_dir();
            if is_path && !root.join(name.trim_end_matches('/')).exists() {
                wrong.push(format!("{document}: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn make_targets_in_documents_exist() {
    let targets = targets();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for document in DOCUMENTS {
        for name in names(&tree::read(document)) {
            let said = name.lines().filter_map(|l| l.trim().strip_prefix("make "));
            for target in said.filter_map(|t| t.split_whitespace().next()) {
                seen += 1;
                if !targets.contains(target) {
                    wrong.push(format!("{document}: make {target}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 3, "the documents name {seen} targets");
}

/// `make` alone lists everything: a target without its sentence would be missing there.
#[test]
fn every_target_explains_itself() {
    let makefile = tree::read("Makefile");
    let phony = makefile
        .lines()
        .find_map(|l| l.strip_prefix(".PHONY: "))
        .expect(".PHONY");
    let phony: BTreeSet<String> = phony.split_whitespace().map(str::to_owned).collect();
    assert_eq!(phony, targets());
    for target in &phony {
        assert!(
            makefile.contains(&format!("\n{target}: ## ")),
            "{target} has no sentence"
        );
    }
}

#[test]
fn the_readme_maps_every_crate() {
    let readme = tree::read("README.md");
    for name in graph().our_names() {
        assert!(
            readme.contains(&format!("`{name}`")),
            "README.md does not mention `{name}`"
        );
    }
    for binary in graph().ours().flat_map(|p| &p.binaries) {
        assert!(readme.contains(binary.as_str()), "README.md does not mention {binary}");
    }
}
