//! The shape of the workspace: folders are crates, only programs carry the product's name, and a
//! plain `cargo build` builds everything that is meant to be built.

use std::collections::BTreeSet;
use std::path::Path;

use crate::graph::graph;
use crate::tree;

/// Built only when asked for, because its SDK is heavy.
const OUTSIDE: &str = "temporal";

#[test]
fn every_folder_is_a_member() {
    let folders: BTreeSet<String> = std::fs::read_dir(tree::root().join("crates"))
        .expect("crates/")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    let names: BTreeSet<String> = graph().our_names().into_iter().map(str::to_owned).collect();
    assert_eq!(folders, names, "folder name = crate name, and each is a member");
    for package in graph().ours() {
        let folder = Path::new(&package.manifest).parent().and_then(Path::file_name);
        assert_eq!(folder.and_then(|f| f.to_str()), Some(package.name.as_str()));
        assert!(package.source.is_none(), "{} is not from here", package.name);
    }
}

/// With a heavy crate in the workspace, the default members are all the others, spelled out.
#[test]
fn the_default_members_are_complete() {
    let manifest = tree::read("Cargo.toml");
    let listed = manifest.split_once("default-members = [").map(|(_, rest)| {
        let (list, _) = rest.split_once(']').expect("a closed list");
        let quoted = list.split('"').skip(1).step_by(2);
        quoted
            .map(|m| m.trim_start_matches("crates/").to_owned())
            .collect::<BTreeSet<_>>()
    });
    let mut wanted: BTreeSet<String> = graph().our_names().into_iter().map(str::to_owned).collect();
    let has_heavy = wanted.remove(OUTSIDE);
    match listed {
        Some(listed) => assert_eq!(listed, wanted),
        None => assert!(!has_heavy, "{OUTSIDE} would be built by default"),
    }
}

#[test]
fn only_programs_carry_the_products_name() {
    for package in graph().ours() {
        assert!(!package.name.starts_with("gpuaas"), "crate {}", package.name);
        for binary in &package.binaries {
            assert!(
                binary.starts_with("gpuaas"),
                "{} makes a program {binary}",
                package.name
            );
        }
    }
}

#[test]
fn no_features_of_our_own() {
    for package in graph().ours() {
        assert!(package.features.is_empty(), "{}: {:?}", package.name, package.features);
    }
}

/// The versions stand in `rust-version`; a toolchain file would make rustup download one.
#[test]
fn nothing_pins_a_toolchain_or_a_registry() {
    for name in [
        "rust-toolchain.toml",
        "rust-toolchain",
        ".cargo/config.toml",
        ".cargo/config",
    ] {
        assert!(!tree::root().join(name).exists(), "{name}");
    }
}

/// One version, one set of lints, for every crate.
#[test]
fn crates_inherit_from_the_root() {
    for package in graph().ours() {
        let path = format!("crates/{}/Cargo.toml", package.name);
        let text = tree::read(&path);
        for line in ["version", "edition", "rust-version", "license", "publish"] {
            assert!(text.contains(&format!("\n{line}.workspace = true")), "{path}: {line}");
        }
        assert!(text.contains("[lints]\nworkspace = true"), "{path}: lints");
        let own = text.lines().filter(|l| l.contains("version = \""));
        assert_eq!(own.count(), 0, "{path}: versions stand in the root Cargo.toml");
    }
}
