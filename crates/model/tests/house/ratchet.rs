//! Lists of exceptions that may only shrink. A new exception fails the test, and so does a line whose
//! exception is gone; nothing writes these files but a person. A line is `key # reason`.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree;

pub(crate) struct Ratchet {
    name: &'static str,
    lines: BTreeMap<String, String>,
}

impl Ratchet {
    pub(crate) fn read(name: &'static str) -> Self {
        let text = tree::read(&format!("crates/model/tests/house/ratchet/{name}"));
        let mut lines = BTreeMap::new();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, reason) = line.split_once(" # ").unwrap_or((line, ""));
            let before = lines.insert(key.trim().to_owned(), reason.trim().to_owned());
            assert!(before.is_none(), "{name}: '{key}' stands there twice");
        }
        Ratchet { name, lines }
    }

    /// Every line tells why.
    pub(crate) fn with_reasons(self) -> Self {
        for (key, reason) in &self.lines {
            assert!(!reason.is_empty(), "{}: '{key}' has no reason", self.name);
        }
        self
    }

    /// The exceptions that exist are exactly the ones that are listed.
    pub(crate) fn holds(&self, actual: &BTreeSet<String>) {
        if let Some(complaint) = self.complaint(actual) {
            panic!("{complaint}");
        }
    }

    fn complaint(&self, actual: &BTreeSet<String>) -> Option<String> {
        let listed: BTreeSet<String> = self.lines.keys().cloned().collect();
        let new: Vec<&str> = actual.difference(&listed).map(String::as_str).collect();
        let gone: Vec<&str> = listed.difference(actual).map(String::as_str).collect();
        if new.is_empty() && gone.is_empty() {
            return None;
        }
        Some(format!(
            "ratchet/{} may only shrink.\nnot listed, so mend it rather than list it:\n  {}\nlisted, but no longer so, remove the line:\n  {}",
            self.name,
            new.join("\n  "),
            gone.join("\n  "),
        ))
    }
}

#[test]
fn a_ratchet_refuses_both_a_new_exception_and_a_stale_line() {
    let lines = [("kept", "why"), ("stale", "why")];
    let lines = lines.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let list = Ratchet { name: "x", lines };
    let set = |keys: &[&str]| keys.iter().map(|k| (*k).to_owned()).collect();
    assert_eq!(list.complaint(&set(&["kept", "stale"])), None);
    assert!(list.complaint(&set(&["kept"])).is_some());
    assert!(list.complaint(&set(&["kept", "stale", "new"])).is_some());
}
