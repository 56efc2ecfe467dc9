//! What root on this host has decided: `/etc/gpuaas/node.toml`. It pins the root of trust and may narrow what is
//! compiled in; it can never widen it. A key that nobody knows is an error, for a misspelt limit would be none; the
//! `agent` table is the agent's.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::Context as _;
use model::digest::Sha256;
use model::task::TaskType;
use model::value::{Ipv4Cidr, Name};
use serde::Deserialize;
use serde::de::IgnoredAny;
use toml_edit::DocumentMut;

use crate::durable;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Policy {
    /// Hash of the root key that signs delegations. None: not enrolled, nothing runs.
    pub(crate) root_sha256: Option<Sha256>,
    /// The task types that may run here. None: all that are compiled in.
    pub(crate) allowed_task_types: Option<Vec<String>>,
    /// Where guests get their addresses from.
    pub(crate) slice_cidr: Option<Ipv4Cidr>,
    /// What guests may be plugged into.
    #[serde(default)]
    pub(crate) ovs_bridges: Vec<Name>,
    /// Where else than from the control plane images may be fetched, as `name` or `name:port`. A name that leads into a
    /// private network is followed only if the address is listed, too.
    #[serde(default)]
    pub(crate) image_hosts: Vec<String>,
    #[serde(rename = "agent")]
    _agent: Option<IgnoredAny>,
}

/// The part that concerns slices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlicePolicy {
    pub cidr: Option<Ipv4Cidr>,
    pub bridges: Vec<Name>,
}

impl Policy {
    pub(crate) fn slices(self) -> SlicePolicy {
        SlicePolicy {
            cidr: self.slice_cidr,
            bridges: self.ovs_bridges,
        }
    }

    /// A missing file allows everything compiled in and trusts nobody.
    /// Whoever can write it decides whom this node believes, so it must be root's alone.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        if let Ok(file) = std::fs::metadata(path) {
            let (owner, own) = (file.uid(), rustix::process::geteuid().as_raw());
            anyhow::ensure!(
                (owner == 0 || owner == own) && file.mode() & 0o022 == 0,
                "{} belongs to uid {owner} with mode {:o}: it must be root's, and writable by nobody else",
                path.display(),
                file.mode() & 0o777
            );
        }
        let bytes = durable::read(path).with_context(|| format!("read {}", path.display()))?;
        let text = String::from_utf8(bytes.unwrap_or_default());
        let text = text.with_context(|| format!("{} is not text", path.display()))?;
        let policy: Self = toml::from_str(&text).with_context(|| format!("{}", path.display()))?;
        for name in policy.allowed_task_types.iter().flatten() {
            // A misspelt type would silently allow less than was meant.
            anyhow::ensure!(
                name.parse::<TaskType>().is_ok(),
                "{}: allowed_task_types: this build has no task type {name:?}",
                path.display()
            );
        }
        Ok(policy)
    }

    pub(crate) fn allows(&self, task_type: TaskType) -> bool {
        let listed = |names: &Vec<String>| names.iter().any(|name| name == task_type.as_str());
        self.allowed_task_types.as_ref().is_none_or(listed)
    }
}

/// Pins a root. Comments, order and every other key stay as the operator wrote them.
pub(crate) fn pin_root(path: &Path, root: &Sha256) -> anyhow::Result<()> {
    let bytes = durable::read(path).with_context(|| format!("read {}", path.display()))?;
    let text =
        String::from_utf8(bytes.unwrap_or_default()).with_context(|| format!("{} is not text", path.display()))?;
    let mut document: DocumentMut = text.parse().with_context(|| format!("{}", path.display()))?;
    document["root_sha256"] = toml_edit::value(root.to_string());
    if let Some(parent) = path.parent() {
        match std::fs::create_dir(parent) {
            // The agent has to get at the file, whatever umask root had.
            Ok(()) => std::fs::set_permissions(parent, PermissionsExt::from_mode(0o755))
                .with_context(|| format!("open {} for reading", parent.display()))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("make {}", parent.display())),
        }
    }
    // Readable by all: the agent reads its own keys from the same file, and nothing in it is secret.
    durable::write(path, document.to_string().as_bytes(), 0o644).with_context(|| format!("write {}", path.display()))
}
