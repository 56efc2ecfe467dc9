//! What is left on the hosts when everybody has moved out, by their own state: nothing, or somebody has forgotten it.

use std::collections::BTreeSet;
use std::path::Path;

use host::pretend::State;
use serde::Deserialize;

use super::stage::Stage;
use crate::history::{Kind, Violation};

#[derive(Deserialize)]
struct Kept {
    state: State,
}

/// A violation for everything of somebody's that is still there.
pub(super) fn behind(stage: &Stage) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    for (_, node) in &stage.nodes {
        for (what, whose) in of_host(&node.dir.host())? {
            found.push(Violation {
                kind: Kind::LeftBehind,
                key: format!("{}/{whose} {what}", node.name),
                why: "everybody has moved out, and it is there".to_owned(),
            });
        }
    }
    Ok(found)
}

fn of_host(dir: &Path) -> anyhow::Result<BTreeSet<(&'static str, String)>> {
    let state = match std::fs::read(dir.join("state.json")) {
        Ok(bytes) => serde_json::from_slice::<Kept>(&bytes)?.state,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(error.into()),
    };
    let slicing = state.slicing;
    let accounts = state.accounts.into_keys().map(|name| ("account", name));
    let homes = state.homes.into_keys().map(|name| ("home", name));
    let machines = slicing.machines.into_keys().map(|name| ("machine", name));
    let dirs = slicing.dirs.into_keys().map(|name| ("directory", name));
    let ports = slicing.ports.into_keys().map(|name| ("port", name));
    let telemetry = slicing.telemetry.into_keys().map(|name| ("telemetry", name));
    let leases = slicing
        .leases
        .into_values()
        .map(|owner| ("lease", owner.allocation.to_string()));
    let of_tenants = accounts.chain(homes).chain(leases);
    Ok(of_tenants
        .chain(machines)
        .chain(dirs)
        .chain(ports)
        .chain(telemetry)
        .collect())
}
