//! The witness: reads what a pretended host wrote about itself, as far as it is settled, and puts it into a history
//! before anything that is told afterwards. So the order of the history is the order in which things could be known.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::history::{History, What};

/// What a tenant's life makes of a host, in this order: in, then out.
pub(super) const MOVES: [&str; 10] = [
    "ensure_account",
    "ensure_home",
    "ensure_keys",
    "ensure_locked",
    "ensure_no_schedules",
    "ensure_no_processes",
    "ensure_no_ipc",
    "ensure_no_files",
    "ensure_no_account",
    "prove_absent",
];
/// Those of them that make a difference on a host where tenants leave nothing lying about.
pub(super) const IN: [&str; 3] = ["ensure_account", "ensure_home", "ensure_keys"];
pub(super) const OUT: [&str; 3] = ["ensure_locked", "ensure_no_files", "ensure_no_account"];

/// What renting a slice makes of a host, once each: in, then out. Other differences may be made again by whoever goes on
/// after a kill, as a wipe is.
pub(super) const SLICE_IN: [&str; 3] = ["ensure_dir", "ensure_port", "ensure_running"];
pub(super) const SLICE_OUT: [&str; 3] = ["ensure_no_port", "ensure_no_machine", "ensure_no_dir"];

/// The name of the VM of a renter; those of tenants begin otherwise.
pub(super) fn vm_name(renter: u64) -> String {
    format!("s{renter}")
}

/// Whose verb is it that is judged, a tenant's or a slice's? None: it is another's, or not judged.
fn judged(verb: &str, subject: &str) -> bool {
    let numbered = |first: char| {
        let number = subject.strip_prefix(first);
        number.is_some_and(|number| number.parse::<u64>().is_ok())
    };
    numbered('t') || (numbered('s') && (SLICE_IN.contains(&verb) || SLICE_OUT.contains(&verb)))
}

/// Are both moves of moving in, or both of moving out?
pub(super) fn same_task(one: u32, other: u32) -> bool {
    let moves_in = |order: u32| (order as usize) < IN.len();
    moves_in(one) == moves_in(other)
}

pub struct Witness {
    name: String,
    dir: PathBuf,
    effects: u64,
    touches: u64,
}

#[derive(Deserialize)]
struct Kept {
    log_bytes: u64,
}

type Accounts = Vec<(String, u32, Option<String>)>;

#[derive(Deserialize)]
struct Effect {
    verb: String,
    tenant: String,
    before: Accounts,
    after: Accounts,
}

#[derive(Deserialize)]
struct Touch {
    life: u64,
    verb: String,
    name: String,
}

impl Witness {
    /// Of the host in `dir`; its name tells its tenants from those of others.
    pub fn new(name: &str, dir: PathBuf) -> Self {
        Self {
            name: name.to_owned(),
            dir,
            effects: 0,
            touches: 0,
        }
    }

    /// The key of one difference that a tenant's life makes.
    pub fn key(node: &str, tenant: &str, verb: &str) -> String {
        format!("{node}/{tenant} {verb}")
    }

    /// Puts everything that has happened since the last look.
    pub fn look(&mut self, history: &mut History) -> anyhow::Result<()> {
        self.look_at_touches(history)?;
        // What lies beyond was never kept, and is cut when the host starts again.
        let settled = match std::fs::read(self.dir.join("state.json")) {
            Ok(bytes) => serde_json::from_slice::<Kept>(&bytes)?.log_bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let text = part(&self.dir.join("effects.jsonl"), self.effects, Some(settled))?;
        self.effects += text.len() as u64;
        for line in text.lines() {
            self.effect(serde_json::from_str(line)?, history);
        }
        Ok(())
    }

    fn effect(&self, effect: Effect, history: &mut History) {
        if !judged(&effect.verb, &effect.tenant) {
            return;
        }
        history.put(Self::key(&self.name, &effect.tenant, &effect.verb), What::Effect);
        // A mark on an account is no coming and going: who has which uid is.
        let uids = |accounts: &Accounts| {
            accounts
                .iter()
                .map(|(name, uid, _)| (*uid, name.clone()))
                .collect::<Vec<_>>()
        };
        let (before, after) = (uids(&effect.before), uids(&effect.after));
        let uid_of = |uid: u32| format!("{} uid {uid}", self.name);
        for (uid, who) in before.iter().filter(|account| !after.contains(account)) {
            history.put(uid_of(*uid), What::Gives(who.clone()));
        }
        for (uid, who) in after.iter().filter(|account| !before.contains(account)) {
            history.put(uid_of(*uid), What::Takes(who.clone()));
        }
    }

    fn look_at_touches(&mut self, history: &mut History) -> anyhow::Result<()> {
        let path = self.dir.join("touches.jsonl");
        if !path.exists() {
            return Ok(());
        }
        let text = part(&path, self.touches, None)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.touches += whole as u64;
        for line in text[..whole].lines().filter(|line| !line.is_empty()) {
            // Killed while it was written, hence before it did anything.
            let Ok(touch) = serde_json::from_str::<Touch>(line) else {
                continue;
            };
            let order = MOVES.iter().position(|verb| *verb == touch.verb);
            let order = u32::try_from(order.unwrap_or(MOVES.len()))?;
            if !touch.name.starts_with('t') {
                continue;
            }
            let key = format!("{}/{}", self.name, touch.name);
            history.put(
                key,
                What::Step {
                    order,
                    life: touch.life,
                },
            );
        }
        Ok(())
    }
}

/// A file's text from here on, to there or as far as it goes.
fn part(path: &Path, from: u64, to: Option<u64>) -> anyhow::Result<String> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut text = String::new();
    let most = to.map_or(u64::MAX, |to| to.saturating_sub(from));
    file.take(most).read_to_string(&mut text)?;
    Ok(text)
}
