//! Who is linked into whom, as cargo resolves it: `cargo tree` for the edges (it knows which features
//! are really on; the graph of `cargo metadata` does not), `cargo metadata` for the facts about each
//! package. Only normal dependencies count; a procedural macro runs in the compiler and is not linked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::Value;

use crate::tree;

pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) licence: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) manifest: String,
    pub(crate) binaries: Vec<String>,
    pub(crate) features: Vec<String>,
}

/// A package by name and version.
type Id = (String, String);

pub(crate) struct Graph {
    packages: BTreeMap<Id, Package>,
    links: BTreeMap<Id, BTreeSet<Id>>,
    ours: BTreeSet<Id>,
}

static GRAPH: OnceLock<Graph> = OnceLock::new();

pub(crate) fn graph() -> &'static Graph {
    GRAPH.get_or_init(read)
}

impl Graph {
    /// Our own packages, by name.
    pub(crate) fn ours(&self) -> impl Iterator<Item = &Package> {
        self.ours.iter().map(|id| &self.packages[id])
    }

    pub(crate) fn our_names(&self) -> BTreeSet<&str> {
        self.ours().map(|p| p.name.as_str()).collect()
    }

    /// Everything linked into one of ours, itself included.
    pub(crate) fn linked_into(&self, name: &str) -> Vec<&Package> {
        let mut seen = BTreeSet::new();
        let mut next: Vec<&Id> = self.ours.iter().filter(|id| id.0 == name).collect();
        assert_eq!(next.len(), 1, "no crate of ours is called {name}");
        while let Some(id) = next.pop() {
            if seen.insert(id) {
                next.extend(&self.links[id]);
            }
        }
        seen.into_iter().map(|id| &self.packages[id]).collect()
    }

    /// The crates of ours that this one names as a dependency.
    pub(crate) fn our_direct(&self, package: &Package) -> BTreeSet<&str> {
        let links = &self.links[&(package.name.clone(), package.version.clone())];
        links.intersection(&self.ours).map(|id| id.0.as_str()).collect()
    }

    /// Every package that any crate of ours links.
    pub(crate) fn all_linked(&self) -> impl Iterator<Item = &Package> {
        self.links.keys().map(|id| &self.packages[id])
    }
}

fn read() -> Graph {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let json = cargo(&["metadata", "--format-version", "1", "--filter-platform", &platform]);
    let json: Value = serde_json::from_str(&json).expect("cargo speaks JSON");
    let packages: BTreeMap<Id, Package> = list(&json["packages"])
        .map(|p| ((text(&p["name"]), text(&p["version"])), package(p)))
        .collect();
    let ours = packages
        .iter()
        .filter(|(_, p)| p.source.is_none())
        .map(|(id, _)| id.clone());
    let ours = ours.collect();

    let tree = cargo(&[
        "tree",
        "--workspace",
        "-e",
        "normal,no-proc-macro",
        "--prefix",
        "depth",
        "-f",
        " {p}",
    ]);
    Graph {
        packages,
        links: links(&tree),
        ours,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "asks cargo for the resolved graph; parsing Cargo.lock would miss features and kinds"
)]
fn cargo(arguments: &[&str]) -> String {
    let output = std::process::Command::new(env!("CARGO"))
        .args(arguments)
        .arg("--locked")
        .current_dir(tree::root())
        .output()
        .expect("cargo runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {}: {complaint}", arguments[0]);
    String::from_utf8(output.stdout).expect("cargo speaks UTF-8")
}

/// Lines `depth name vVERSION …`. A package's own links stand below the first mention of it only.
fn links(tree: &str) -> BTreeMap<Id, BTreeSet<Id>> {
    let mut links: BTreeMap<Id, BTreeSet<Id>> = BTreeMap::new();
    let mut above: Vec<Id> = Vec::new();
    for line in tree.lines().filter(|l| !l.is_empty()) {
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap_or_else(|| panic!("cargo tree: {line}"));
        let depth: usize = word().parse().unwrap_or_else(|_| panic!("cargo tree: {line}"));
        let (name, version) = (word().to_owned(), word().trim_start_matches('v').to_owned());
        let id = (name, version);
        links.entry(id.clone()).or_default();
        above.truncate(depth);
        if let Some(parent) = above.last() {
            links.entry(parent.clone()).or_default().insert(id.clone());
        }
        above.push(id);
    }
    links
}

fn package(json: &Value) -> Package {
    let programs = list(&json["targets"]).filter(|t| list(&t["kind"]).any(|k| k == "bin"));
    Package {
        name: text(&json["name"]),
        version: text(&json["version"]),
        licence: json["license"].as_str().map(str::to_owned),
        source: json["source"].as_str().map(str::to_owned),
        manifest: text(&json["manifest_path"]),
        binaries: programs.map(|t| text(&t["name"])).collect(),
        features: json["features"]
            .as_object()
            .map(|f| f.keys().cloned().collect())
            .unwrap_or_default(),
    }
}

fn list(json: &Value) -> impl Iterator<Item = &Value> {
    json.as_array().into_iter().flatten()
}

fn text(json: &Value) -> String {
    json.as_str().expect("a string").to_owned()
}
