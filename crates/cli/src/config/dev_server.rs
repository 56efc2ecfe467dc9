//! The development server that runs on this machine, if one does: it leaves its address and token where only its
//! owner can read them. A file whose process is gone means nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

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
        // The first place that has a file decides, alive or not.
        let file = places(vars)
            .into_iter()
            .find_map(|dir| std::fs::read(dir.join("dev.json")).ok())?;
        let this: Self = serde_json::from_slice(&file).ok()?;
        this.is_alive().then_some(this)
    }

    fn is_alive(&self) -> bool {
        // Ours or not ours to signal: both exist.
        Pid::from_raw(self.pid)
            .is_some_and(|pid| matches!(test_kill_process(pid), Ok(()) | Err(rustix::io::Errno::PERM)))
    }
}

/// Where root keeps it, and everybody else; who names a state directory is asked there first.
fn places(vars: &BTreeMap<String, String>) -> Vec<PathBuf> {
    // Named outright, as for `gpuaas-dev` itself: then no other one is meant.
    if let Some(state) = vars.get("GPUAAS_DEV_STATE") {
        return vec![PathBuf::from(state)];
    }
    let named = vars.contains_key("XDG_STATE_HOME");
    let own = place::under_home(vars, "XDG_STATE_HOME", ".local/state").map(|state| state.join("gpuaas/dev"));
    let of_root = geteuid().is_root().then(|| PathBuf::from("/var/lib/gpuaas/dev"));
    let both = if named { [own, of_root] } else { [of_root, own] };
    both.into_iter().flatten().collect()
}
