//! The files of this repository, as text. Looks at what git would look at, roughly: build output,
//! installed packages and git's own directory are passed over.

use std::path::{Path, PathBuf};

/// One file: its path from the root with `/`, and its text.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace root")
}

/// Every text file. What is not UTF-8 is not ours to read.
pub(crate) fn files() -> Vec<File> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a folder entry").path();
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
            if path.is_symlink() || [".git", "target", "node_modules", "dist"].contains(&name) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let path = path.strip_prefix(&root).expect("below the root");
                let path = path.to_string_lossy().into_owned();
                found.push(File { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 20, "the walk saw only {} files", found.len());
    found
}

/// The Rust files of our crates.
pub(crate) fn rust_files() -> Vec<File> {
    let mut files = files();
    files.retain(|f| f.path.starts_with("crates/") && f.path.ends_with(".rs"));
    files
}

pub(crate) fn read(path: &str) -> String {
    let full = root().join(path);
    std::fs::read_to_string(&full).unwrap_or_else(|e| panic!("{path}: {e}"))
}

impl File {
    /// Is this code that ships, as opposed to a test?
    pub(crate) fn ships(&self) -> bool {
        self.path.split('/').nth(2) == Some("src")
    }

    pub(crate) fn is_in_crate(&self, names: &[&str]) -> bool {
        let name = self.path.split('/').nth(1).unwrap_or("");
        names.contains(&name)
    }
}
