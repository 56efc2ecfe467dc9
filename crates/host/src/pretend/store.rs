//! Where a pretend machine is kept: `state.json`, replaced as a whole, and `effects.jsonl`, one line per effect. The
//! state says how long the log is; a line written for a state that was never kept is cut at the next start, so the two
//! never disagree, and nobody should read further than the state says. Beside them, `touches.jsonl` has a line for
//! each time that somebody laid hands on a tenant, written before anything came of it and never cut: what was done a
//! second time without a difference is seen there. All of it survives kill -9; a power cut is nothing that a machine
//! which is not there can have.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::state::State;

pub(super) struct Store {
    dir: PathBuf,
    log: File,
    log_bytes: u64,
    effects: u64,
    touches: File,
}

#[derive(Serialize, Deserialize)]
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
    /// Whose things changed.
    tenant: &'a str,
    before: Accounts<'a>,
    after: Accounts<'a>,
}

/// A line of the other log.
#[derive(Serialize)]
struct Touch<'a> {
    /// The process, which tells one life of the executor from the next.
    life: u32,
    verb: &'static str,
    name: &'a str,
    uid: u32,
}

type Accounts<'a> = Vec<(&'a str, u32, Option<String>)>;

impl Store {
    /// None: there is no machine yet.
    pub(super) fn open(dir: &Path) -> io::Result<(Self, Option<State>)> {
        fs::create_dir_all(dir)?;
        let kept = match fs::read(dir.join("state.json")) {
            Ok(bytes) => Some(serde_json::from_slice::<Kept>(&bytes)?),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(dir.join("effects.jsonl"))?;
        let (log_bytes, effects) = kept.as_ref().map_or((0, 0), |kept| (kept.log_bytes, kept.effects));
        if log.metadata()?.len() != log_bytes {
            log.set_len(log_bytes)?;
        }
        let mut touches = OpenOptions::new()
            .create(true)
            .append(true)
            .read(true)
            .open(dir.join("touches.jsonl"))?;
        if !ends_in_a_line(&mut touches)? {
            // Whoever was killed in the middle of writing it has done nothing yet; the next line stays readable.
            touches.write_all(b"\n")?;
        }
        let store = Self {
            dir: dir.to_owned(),
            log,
            log_bytes,
            effects,
            touches,
        };
        Ok((store, kept.map(|kept| kept.state)))
    }

    pub(super) fn reopen(&self) -> io::Result<(Self, Option<State>)> {
        Self::open(&self.dir)
    }

    pub(super) fn keep(
        &mut self,
        (verb, tenant): (&'static str, &str),
        before: &State,
        after: &State,
    ) -> io::Result<()> {
        let seq = self.effects + 1;
        let effect = Effect {
            seq,
            verb,
            tenant,
            before: accounts(before),
            after: accounts(after),
        };
        let mut line = serde_json::to_vec(&effect)?;
        line.push(b'\n');
        // After a failed attempt there may be a tail that nobody counts.
        self.log.set_len(self.log_bytes)?;
        self.log.write_all(&line)?;
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
        fs::write(&tmp, bytes)?;
        fs::rename(&tmp, self.dir.join("state.json"))
    }

    pub(super) fn touch(&mut self, verb: &'static str, name: &str, uid: u32) -> io::Result<()> {
        let life = std::process::id();
        let mut line = serde_json::to_vec(&Touch { life, verb, name, uid })?;
        line.push(b'\n');
        self.touches.write_all(&line)
    }
}

fn ends_in_a_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

fn accounts(state: &State) -> Accounts<'_> {
    let accounts = state.accounts.iter();
    accounts
        .map(|(name, a)| (name.as_str(), a.uid, a.owner.map(|owner| owner.to_string())))
        .collect()
}
