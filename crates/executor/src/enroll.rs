//! `enroll TOKEN`, as root on the host: pins the root of trust, makes the keys, and leaves the rest of the token to the
//! agent. What this node will believe never passes through the agent.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Context as _;
use model::digest::Sha256;
use model::enrol::EnrolmentToken;
use model::signal::Code;

use crate::keys::Keys;
use crate::trust_store::TrustStore;
use crate::{Options, durable, policy};

/// The file that the agent looks for.
const HANDOFF: &str = "enrolment";

pub fn enroll(token_text: &str, options: &Options, agent_state_dir: &Path) -> anyhow::Result<()> {
    let token: EnrolmentToken = token_text.parse()?;
    if token.dev && !options.host.is_simulated() {
        anyhow::bail!("{}: {}", Code::DevCaRefused, Code::DevCaRefused.meaning());
    }
    // Before anything is written: half an enrolment would only confuse.
    std::fs::metadata(agent_state_dir)
        .with_context(|| format!("{} is not there: install the agent first", agent_state_dir.display()))?;
    let dir = &options.state_dir;
    durable::ensure_private_dir(dir).with_context(|| format!("make {}", dir.display()))?;
    Keys::ensure(dir)?;
    policy::pin_root(&options.policy_path, &token.root_sha256)?;
    let token_sha256 = Sha256::of(token_text.trim().as_bytes());
    TrustStore::open_door(dir, &token_sha256, options.clock.now())?;
    hand_over(token_text.trim(), agent_state_dir)
}

/// Readable by the agent's user alone, who is the owner of its state directory.
fn hand_over(token_text: &str, agent_state_dir: &Path) -> anyhow::Result<()> {
    let path = agent_state_dir.join(HANDOFF);
    let context = || format!("write {}", path.display());
    let owner = std::fs::metadata(agent_state_dir).with_context(context)?;
    // Into a file that already belongs to the agent: at no moment does one stand there that it cannot read.
    let beside = agent_state_dir.join(format!("{HANDOFF}.new"));
    durable::remove(&beside).with_context(context)?;
    let mut file = private_file(&beside).with_context(context)?;
    file.write_all(token_text.as_bytes()).with_context(context)?;
    std::os::unix::fs::fchown(&file, Some(owner.uid()), Some(owner.gid())).with_context(context)?;
    file.sync_all().with_context(context)?;
    std::fs::rename(&beside, &path).with_context(context)?;
    durable::sync_parent(&path).with_context(context)
}

fn private_file(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}
