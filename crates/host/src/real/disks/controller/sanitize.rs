//! A sanitize is begun by one command and goes on whoever has begun it, over every restart; until it is done the disk
//! takes nothing else. After one that failed it may refuse everything until another has succeeded, so nobody gives a disk
//! up, or writes to it, before another was tried.

use std::thread::park_timeout;
use std::time::{Duration, Instant};

use model::proof::WipeMethod;
use serde_json::Value;

use super::{Controller, LOOK_EVERY, WIPE_LIMIT, answer};

const UNDER_WAY: u64 = 2;
const FAILED: u64 = 3;

type Said<T> = std::result::Result<T, String>;

fn action(method: WipeMethod) -> Option<&'static str> {
    match method {
        WipeMethod::SanitizeCrypto => Some("--sanact=4"),
        WipeMethod::SanitizeBlock => Some("--sanact=2"),
        WipeMethod::FormatCrypto | WipeMethod::FormatData | WipeMethod::WriteZeroes | WipeMethod::Overwrite => None,
    }
}

impl Controller {
    /// Waited for; and if it fails, tried once more within the same time.
    pub(super) fn sanitize(&self, method: WipeMethod) -> Said<()> {
        let until = Instant::now() + WIPE_LIMIT;
        let mut status = self.sanitize_once(method, until)?;
        if status == Some(FAILED) {
            status = self.sanitize_once(method, until)?;
        }
        match status {
            Some(status) if is_done(status) => Ok(()),
            Some(other) => Err(format!("the controller reports sanitize status {other}")),
            None => Err("the controller's sanitize log cannot be read".to_owned()),
        }
    }

    /// Before anything is written. One that says nothing of itself may still be written to, and that will show; so will
    /// one at which everything fails.
    pub(in crate::real::disks) fn wait_for_earlier(&self) -> Said<()> {
        let ways = self.offers.iter().copied();
        let mut ways = ways.filter(|method| action(*method).is_some()).peekable();
        if ways.peek().is_none() {
            return Ok(());
        }
        // Waited for once and not before each method anew.
        let until = self.since + WIPE_LIMIT;
        let mut status = self.settled(until)?;
        while status == Some(FAILED) && Instant::now() < until {
            let Some(method) = ways.next() else { break };
            // One that is not even begun leaves the disk as it was.
            status = self.sanitize_once(method, until).or_else(|_| self.settled(until))?;
        }
        Ok(())
    }

    fn sanitize_once(&self, method: WipeMethod, until: Instant) -> Said<Option<u64>> {
        let action = action(method).ok_or("not a way to sanitize")?;
        let limit = until.saturating_duration_since(Instant::now());
        self.tell(&["sanitize", &self.device, action], limit.max(Duration::from_secs(1)))?;
        self.settled(until)
    }

    /// What it says of its last sanitize once none is under way; None if it says nothing again and again.
    fn settled(&self, until: Instant) -> Said<Option<u64>> {
        let args = ["sanitize-log", &self.device, "--output-format=json"];
        loop {
            match answer(&self.commands, &args, status) {
                Some(UNDER_WAY) if Instant::now() < until => park_timeout(LOOK_EVERY),
                Some(UNDER_WAY) => return Err("the controller still sanitizes".to_owned()),
                settled => return Ok(settled),
            }
        }
    }
}

/// With or without deallocating.
fn is_done(status: u64) -> bool {
    matches!(status, 1 | 4)
}

/// The lowest three bits of `sstat`: 1 done, 2 under way, 3 failed, 4 done without deallocating. Older tools write the
/// number, newer ones a text that begins with it.
fn status(said: &str) -> Option<u64> {
    let document: Value = serde_json::from_str(said).ok()?;
    let inner = document
        .as_object()?
        .values()
        .find_map(|value| value.get("sstat"))
        .or(document.get("sstat"))?;
    if let Some(number) = inner.as_u64() {
        return Some(number & 7);
    }
    let words = inner.get("status")?.as_str()?;
    words.trim_start_matches('(').get(..1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::status;

    #[test]
    fn the_log_is_understood_in_both_tongues() {
        assert_eq!(status(r#"{"nvme0":{"sprog":65535,"sstat":257}}"#), Some(1));
        assert_eq!(
            status(r#"{"nvme0":{"sprog":9,"sstat":{"status":"(2) Sanitize in Progress."}}}"#),
            Some(2)
        );
        assert_eq!(status("no"), None);
    }
}
