//! The development server that runs on this machine, if one does: it leaves its address and token where only its
//! owner can read them. A file whose process is gone means nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, geteuid, test_kill_process};
use serde::Deserialize;

use super::place;
use crate::secret::Secret;

/// More fields may come; these three are the promise.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct DevServer {
    pub(super) url: String,
    pub(super) token: Secret,
    pub(super) pid: i32,
}

impl DevServer {
    pub(super) fn find(vars: &BTreeMap<String, String>) -> Option<Self> {
        Self::read(&state_dir(vars)?.join("dev.json"))
    }

    fn read(path: &Path) -> Option<Self> {
        let this: Self = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        this.is_alive().then_some(this)
    }

    fn is_alive(&self) -> bool {
        // Ours or not ours to signal: both exist.
        Pid::from_raw(self.pid)
            .is_some_and(|pid| matches!(test_kill_process(pid), Ok(()) | Err(rustix::io::Errno::PERM)))
    }
}

fn state_dir(vars: &BTreeMap<String, String>) -> Option<PathBuf> {
    if geteuid().is_root() && !vars.contains_key("XDG_STATE_HOME") {
        return Some(PathBuf::from("/var/lib/gpuaas/dev"));
    }
    Some(place::under_home(vars, "XDG_STATE_HOME", ".local/state")?.join("gpuaas/dev"))
}
