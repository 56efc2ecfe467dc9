//! The page that `gpuaas explain CODE` prints, offline, from the table alone.

use super::Code;

impl Code {
    /// The page for this code, ending in a newline.
    pub fn explain(self) -> String {
        let mut page = format!("{self}\n  {}\n\n", self.meaning());
        let mut line = |name: &str, text: &str| page.push_str(&format!("  {name:<11}{text}\n"));
        line("owner", self.owner());
        line("what to do", self.recovery());
        line(
            "retry",
            if self.retryable() {
                "yes, the same thing may work later"
            } else {
                "no, not before something has changed"
            },
        );
        if self.status() != 0 {
            line("http", &self.status().to_string());
        }
        page
    }
}
