//! How much memory whoever starts guests may lock. libvirt raises the limit of each guest itself if it may; then there
//! is none. Without libvirt it is our own limit that counts.

use super::super::sys::Sys;
use crate::Result;

const STARTERS: [&str; 2] = ["virtqemud", "libvirtd"];
/// The capability to raise limits, by its number.
const SYS_RESOURCE: u32 = 24;

impl Sys {
    /// Whose limit it is, and the limit; None if there is none.
    pub(in crate::real) fn memlock(&self) -> Result<(String, Option<u64>)> {
        for name in self.names("proc")? {
            let Ok(pid) = name.parse::<u32>() else { continue };
            let comm = self.attribute(&format!("proc/{pid}/comm")).unwrap_or_default();
            if STARTERS.contains(&comm.as_str()) {
                return Ok((comm, self.limit_of(&pid.to_string())?));
            }
        }
        Ok(("this process".to_owned(), self.limit_of("self")?))
    }

    fn limit_of(&self, pid: &str) -> Result<Option<u64>> {
        let status = self.text(&format!("proc/{pid}/status"))?;
        let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let capabilities = capabilities.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        if capabilities.is_some_and(|set| set >> SYS_RESOURCE & 1 == 1) {
            return Ok(None);
        }
        let path = format!("proc/{pid}/limits");
        let limits = self.text(&path)?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
        let hard = line.and_then(|line| line.split_whitespace().nth(1));
        match hard {
            Some("unlimited") => Ok(None),
            Some(bytes) => Ok(Some(
                bytes
                    .parse()
                    .map_err(|_| self.unreadable(&path, "a limit is no number"))?,
            )),
            None => Err(self.unreadable(&path, "it has no line for locked memory")),
        }
    }
}
