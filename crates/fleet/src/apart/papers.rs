//! What a process that runs apart shows and believes: one file, readable by its owner alone.

use std::fmt;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use base::auth::Role;
use base::tx::Actor;
use model::id::InstallationId;
use model::node_api::RoleCertificateAnswer;
use model::time::Timestamp;
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use serde::{Deserialize, Serialize};

use crate::Fleet;
use crate::certificate::issue_role;

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Papers {
    pub installation: InstallationId,
    pub role: Role,
    pub instance: String,
    /// Where the api listens for nodes and workers.
    pub api_url: String,
    pub not_after: Timestamp,
    pub(super) chain: String,
    pub(super) authorities: String,
    pub(super) key: String,
}

impl fmt::Debug for Papers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Papers of {}/{} until {}", self.role, self.instance, self.not_after)
    }
}

impl Papers {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        // The parser's own words could quote the key.
        serde_json::from_str(&text).map_err(|_| anyhow::anyhow!("{}: not a role's papers", path.display()))
    }

    /// Replaces what is there, whole or not at all.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
        }
        let new = path.with_extension(format!("{:016x}", rand::random::<u64>()));
        let replaced = self.write_new(&new).and_then(|()| Ok(fs::rename(&new, path)?));
        if replaced.is_err() {
            // The temporary one is of no use to anybody; that it cannot be removed changes nothing.
            fs::remove_file(&new).ok();
        }
        replaced.with_context(|| format!("write {}", path.display()))
    }

    /// An existing file is an error: somebody may be using it.
    pub fn write_new(&self, path: &Path) -> anyhow::Result<()> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .with_context(|| format!("write {}", path.display()))?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        Ok(file.sync_all()?)
    }

    /// The same process's, and not older.
    pub(super) fn follows(&self, given: &Self) -> bool {
        let whose = |papers: &Self| (papers.installation, papers.role, papers.instance.clone());
        whose(self) == whose(given) && self.not_after >= given.not_after
    }

    pub(super) fn renewed(&self, key: &KeyPair, answer: RoleCertificateAnswer) -> Self {
        Self {
            not_after: answer.not_after,
            chain: answer.chain,
            authorities: answer.authorities,
            key: key.serialize_pem(),
            ..self.clone()
        }
    }
}

pub(super) fn csr(key: &KeyPair) -> anyhow::Result<String> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(key)?.pem()?)
}

/// The first papers of a process, made where the keys are.
pub async fn grant(fleet: &Fleet, role: Role, instance: &str) -> anyhow::Result<Papers> {
    let key = KeyPair::generate()?;
    let actor = Actor::system("console");
    let opened = fleet.app.db.change(&actor, "certificate.role", fleet.app.installation);
    let mut change = opened.await?;
    let issued = issue_role(fleet, &mut change, role, instance, &csr(&key)?)
        .await
        .map_err(|error| anyhow::anyhow!("{}: {}", error.code, error.message))?;
    change.commit().await?;
    Ok(Papers {
        installation: fleet.app.installation,
        role,
        instance: instance.to_owned(),
        api_url: fleet.app.config.node_url.clone(),
        not_after: issued.not_after,
        chain: issued.pem,
        authorities: fleet.ca.bundle_pem(),
        key: key.serialize_pem(),
    })
}
