//! Where a pretend machine is kept: `state.json`, replaced as a whole, and `effects.jsonl`, one line per effect. The
//! state says how long the log is; a line written for a state that never became durable is cut at the next start, so
//! the two never disagree.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::state::State;

pub(super) struct Store {
    dir: PathBuf,
    log: File,
    log_bytes: u64,
    effects: u64,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Kept {
    log_bytes: u64,
    effects: u64,
    state: State,
}

/// A line of the log: what changed, and the accounts before and after.
#[derive(Serialize)]
struct Effect<'a> {
    seq: u64,
    verb: &'static str,
    before: Accounts<'a>,
    after: Accounts<'a>,
}

type Accounts<'a> = Vec<(&'a str, u32, Option<String>)>;

impl Store {
    pub(super) fn open(dir: &Path) -> io::Result<(Self, State)> {
        fs::create_dir_all(dir)?;
        let kept = match fs::read(dir.join("state.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Kept::default(),
            Err(error) => return Err(error),
        };
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(dir.join("effects.jsonl"))?;
        log.set_len(kept.log_bytes)?;
        let store = Self {
            dir: dir.to_owned(),
            log,
            log_bytes: kept.log_bytes,
            effects: kept.effects,
        };
        Ok((store, kept.state))
    }

    pub(super) fn keep(&mut self, verb: &'static str, before: &State, after: &State) -> io::Result<()> {
        let seq = self.effects + 1;
        let effect = Effect {
            seq,
            verb,
            before: accounts(before),
            after: accounts(after),
        };
        let mut line = serde_json::to_vec(&effect)?;
        line.push(b'\n');
        // After a failed attempt there may be a tail that nobody counts.
        self.log.set_len(self.log_bytes)?;
        self.log.write_all(&line)?;
        self.log.sync_data()?;
        let log_bytes = self.log_bytes + line.len() as u64;
        let kept = serde_json::to_vec(&Kept {
            log_bytes,
            effects: seq,
            state: after.clone(),
        })?;
        self.replace(&kept)?;
        (self.log_bytes, self.effects) = (log_bytes, seq);
        Ok(())
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let tmp = self.dir.join("state.json.tmp");
        let mut file = File::create(&tmp)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&tmp, self.dir.join("state.json"))?;
        File::open(&self.dir)?.sync_all()
    }
}

fn accounts(state: &State) -> Accounts<'_> {
    let accounts = state.accounts.iter();
    accounts
        .map(|(name, a)| (name.as_str(), a.uid, a.owner.map(|owner| owner.to_string())))
        .collect()
}
