//! What `cargo metadata` says: the packages, and who is linked into whom. Only normal dependencies
//! count; a procedural macro runs in the compiler and is not linked, so the walk stops there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::Value;

use crate::tree;

pub struct Package {
    pub name: String,
    pub version: String,
    pub licence: Option<String>,
    pub source: Option<String>,
    pub manifest: String,
    pub binaries: Vec<String>,
    pub features: Vec<String>,
    is_macro: bool,
    /// Ids of the packages that this one links.
    links: Vec<String>,
}

pub struct Graph {
    packages: BTreeMap<String, Package>,
    ours: BTreeSet<String>,
}

static GRAPH: OnceLock<Graph> = OnceLock::new();

pub fn graph() -> &'static Graph {
    GRAPH.get_or_init(read)
}

impl Graph {
    /// Our own packages, by name.
    pub fn ours(&self) -> impl Iterator<Item = &Package> {
        self.ours.iter().map(|id| &self.packages[id])
    }

    pub fn our_names(&self) -> BTreeSet<&str> {
        self.ours().map(|p| p.name.as_str()).collect()
    }

    /// Everything linked into one of ours, itself included.
    pub fn linked_into(&self, name: &str) -> Vec<&Package> {
        let mut seen = BTreeSet::new();
        let mut next: Vec<&String> =
            self.ours.iter().filter(|id| self.packages[*id].name == name).collect();
        assert_eq!(next.len(), 1, "no crate of ours is called {name}");
        while let Some(id) = next.pop() {
            let package = &self.packages[id];
            if package.is_macro || !seen.insert(id) {
                continue;
            }
            next.extend(&package.links);
        }
        seen.into_iter().map(|id| &self.packages[id]).collect()
    }

    /// The crates of ours that this one names as a dependency.
    pub fn our_direct(&self, package: &Package) -> BTreeSet<&str> {
        let ours = package.links.iter().filter(|id| self.ours.contains(*id));
        ours.map(|id| self.packages[id].name.as_str()).collect()
    }

    /// Every package that any crate of ours links.
    pub fn all_linked(&self) -> BTreeMap<(&str, &str), &Package> {
        let names: Vec<&str> = self.ours().map(|p| p.name.as_str()).collect();
        let all = names.into_iter().flat_map(|name| self.linked_into(name));
        all.map(|p| ((p.name.as_str(), p.version.as_str()), p)).collect()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "asks cargo for the resolved graph; parsing Cargo.lock would miss features and kinds"
)]
fn read() -> Graph {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &platform])
        .current_dir(tree::root())
        .output()
        .expect("cargo runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {complaint}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("cargo speaks JSON");

    let links = links(&json["resolve"]["nodes"]);
    let packages = list(&json["packages"]).map(|p| (text(&p["id"]), package(p, &links))).collect();
    let ours = list(&json["workspace_members"]).map(text).collect();
    Graph { packages, ours }
}

/// Package id to the ids of its normal dependencies.
fn links(nodes: &Value) -> BTreeMap<String, Vec<String>> {
    let is_normal = |dep: &&Value| list(&dep["dep_kinds"]).any(|kind| kind["kind"].is_null());
    list(nodes)
        .map(|node| {
            let normal = list(&node["deps"]).filter(is_normal).map(|dep| text(&dep["pkg"]));
            (text(&node["id"]), normal.collect())
        })
        .collect()
}

fn package(json: &Value, links: &BTreeMap<String, Vec<String>>) -> Package {
    let of_kind = |kind: &'static str| {
        list(&json["targets"]).filter(move |t| list(&t["kind"]).any(|k| k == kind))
    };
    Package {
        name: text(&json["name"]),
        version: text(&json["version"]),
        licence: json["license"].as_str().map(str::to_owned),
        source: json["source"].as_str().map(str::to_owned),
        manifest: text(&json["manifest_path"]),
        binaries: of_kind("bin").map(|t| text(&t["name"])).collect(),
        features: json["features"].as_object().map(|f| f.keys().cloned().collect()).unwrap_or_default(),
        is_macro: of_kind("proc-macro").next().is_some(),
        links: links.get(&text(&json["id"])).cloned().unwrap_or_default(),
    }
}

fn list(json: &Value) -> impl Iterator<Item = &Value> {
    json.as_array().into_iter().flatten()
}

fn text(json: &Value) -> String {
    json.as_str().expect("a string").to_owned()
}
