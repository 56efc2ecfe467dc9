//! The page that `gpuaas explain CODE` prints, offline, from the tables alone.

use super::Code;
use crate::preflight::{Effect, Reason, Signal};

impl Code {
    /// The page for this code, ending in a newline.
    pub fn explain(self) -> String {
        let mut page = Page(format!("{self}\n  {}\n\n", self.meaning()));
        page.line("owner", self.owner());
        page.line("what to do", self.recovery());
        let retry = if self.retryable() {
            "yes, the same thing may work later"
        } else {
            "no, not before something has changed"
        };
        page.line("retry", retry);
        if self.status() != 0 {
            page.line("http", &self.status().to_string());
        }
        if let Some(row) = Signal::of(self) {
            page.preflight(row);
        }
        page.0
    }
}

struct Page(String);

impl Page {
    fn line(&mut self, name: &str, text: &str) {
        self.0.push_str(&format!("  {name:<12}{text}\n"));
    }

    fn preflight(&mut self, row: &Signal) {
        self.line("symptom", row.symptom);
        for (hop, reasons) in row.fails {
            self.line("fails at", &format!("hop {} {hop}: {}", hop.n(), list(reasons)));
        }
        for (hop, reasons) in row.warns {
            self.line("warns at", &format!("hop {} {hop}: {}", hop.n(), list(reasons)));
        }
        if !row.side.is_empty() {
            self.line("warns at", &format!("side check ops_access: {}", list(row.side)));
        }
        match row.effect {
            Effect::Nothing => self.line("status", "unchanged"),
            Effect::NodeAgent(word) => self.line("status", &format!("node agent {word}")),
            Effect::Terminal => self.line("status", "terminal failed"),
        }
        let told = row.tenant.text("<reason>");
        self.line("tenant sees", told.as_deref().unwrap_or("nothing"));
    }
}

fn list(reasons: &[Reason]) -> String {
    let words: Vec<&str> = reasons.iter().map(|reason| reason.as_str()).collect();
    words.join(", ")
}
