//! What only a disk's controller can do: sanitize, which works on everything behind it, and format, which may. Both are
//! offered only where all of it is ours: one controller in the subsystem, one namespace on it, counted by the kernel
//! and once more by the controller itself, which knows those that no host sees. Told by nvme-cli, as the kernel's own
//! calls are out of reach of safe code; our open file keeps the number of the controller from being given to another.

use std::thread::park_timeout;
use std::time::{Duration, Instant};

use model::proof::WipeMethod;
use serde::Deserialize;
use serde_json::Value;

use super::super::command::{Commands, Program};
use super::super::sys::Sys;
use crate::Result;

const ASK_LIMIT: Duration = Duration::from_secs(30);
/// A disk that erases every block by itself takes as long as it takes.
const WIPE_LIMIT: Duration = Duration::from_secs(4 * 3600);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Questions in a row that may go unanswered.
const FORGIVEN: u32 = 4;
const UNDER_WAY: u64 = 2;

/// A controller all of which is ours.
pub(super) struct Controller {
    /// `/dev/nvme0`
    device: String,
    nsid: u32,
    offers: Vec<WipeMethod>,
    since: Instant,
    commands: Commands,
}

/// What it says of itself, as far as we ask.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Identity {
    /// Bit 0: it can forget its key; bit 1: it can erase all blocks.
    sanicap: u32,
    /// Bit 1: it can format.
    oacs: u32,
    /// Bit 2: by forgetting the key.
    fna: u32,
}

impl Controller {
    /// None where somebody else may live there, or nobody can be asked.
    pub(super) fn alone(sys: &Sys, commands: Commands, dir: &str) -> Result<Option<Self>> {
        let Some(Place { name, .. }) = Place::of(sys, dir)? else {
            return Ok(None);
        };
        let nsid = sys.optional(&format!("{dir}/nsid"))?.and_then(|nsid| nsid.parse().ok());
        let Some(nsid) = nsid.filter(|_| sys.has("usr/sbin/nvme")) else {
            return Ok(None);
        };
        if !is_alone(sys, &name)? {
            return Ok(None);
        }
        let device = format!("/dev/{name}");
        let ask = |args: &[&str]| commands.ask(Program::Nvme, args, ASK_LIMIT);
        // A tool that fails here is a tool that does not wipe; zeros do.
        let (Ok(identity), Ok(listed)) = (
            ask(&["id-ctrl", &device, "--output-format=json"]),
            ask(&["list-ns", &device, "--all", "--output-format=json"]),
        ) else {
            return Ok(None);
        };
        if namespaces(&listed) != [nsid] {
            return Ok(None);
        }
        let offers = offers(&serde_json::from_str(&identity).unwrap_or_default());
        Ok(Some(Self {
            device,
            nsid,
            offers,
            since: Instant::now(),
            commands,
        }))
    }

    pub(super) fn offers(&self) -> &[WipeMethod] {
        &self.offers
    }

    /// What the tool answered; a sanitize is waited for.
    pub(super) fn wipe(&self, method: WipeMethod) -> std::result::Result<i32, String> {
        let nsid = format!("--namespace-id={}", self.nsid);
        let args: &[&str] = match method {
            WipeMethod::SanitizeCrypto => &["sanitize", &self.device, "--sanact=4"],
            WipeMethod::SanitizeBlock => &["sanitize", &self.device, "--sanact=2"],
            WipeMethod::FormatCrypto => &["format", &self.device, &nsid, "--ses=2", "--force"],
            WipeMethod::FormatData => &["format", &self.device, &nsid, "--ses=1", "--force"],
            WipeMethod::WriteZeroes | WipeMethod::Overwrite => return Err("not a method of the controller".to_owned()),
        };
        let ended = self
            .commands
            .run(Program::Nvme, args, None, WIPE_LIMIT)
            .map_err(|error| error.to_string())?;
        let rc = ended.code().unwrap_or(-1);
        if rc != 0 {
            return Err(format!("nvme ended with {rc}: {}", ended.stderr()));
        }
        if matches!(method, WipeMethod::SanitizeCrypto | WipeMethod::SanitizeBlock) {
            self.wait()?;
        }
        Ok(rc)
    }

    /// A sanitize goes on whoever has begun it, over every restart; until it is done the disk takes nothing else.
    pub(super) fn wait_for_earlier(&self) -> std::result::Result<(), String> {
        let sanitizes = |method: &WipeMethod| matches!(method, WipeMethod::SanitizeCrypto | WipeMethod::SanitizeBlock);
        if self.offers.iter().any(sanitizes) {
            // One that says nothing of itself may still be written to, and that will show. Waited for once and not
            // before each method anew.
            self.settled(self.since + WIPE_LIMIT)?;
        }
        Ok(())
    }

    fn wait(&self) -> std::result::Result<(), String> {
        match self.settled(Instant::now() + WIPE_LIMIT)? {
            Some(1 | 4) => Ok(()),
            Some(other) => Err(format!("the controller reports sanitize status {other}")),
            None => Err("the controller's sanitize log cannot be read".to_owned()),
        }
    }

    /// What it says of its last sanitize once none is under way; None if it says nothing again and again.
    fn settled(&self, until: Instant) -> std::result::Result<Option<u64>, String> {
        let mut silent = 0;
        loop {
            let args = ["sanitize-log", &self.device, "--output-format=json"];
            let said = self.commands.ask(Program::Nvme, &args, ASK_LIMIT);
            match said.ok().and_then(|said| status(&said)) {
                Some(UNDER_WAY) => silent = 0,
                // A controller that is busy with it may fail to answer now and then.
                None if silent < FORGIVEN => silent += 1,
                settled => return Ok(settled),
            }
            if Instant::now() >= until {
                return Err("the controller still sanitizes".to_owned());
            }
            park_timeout(LOOK_EVERY);
        }
    }
}

/// Where the kernel shows the one controller of a disk.
pub(super) struct Place {
    /// `nvme0`
    pub(super) name: String,
    pub(super) dir: String,
}

impl Place {
    /// Of the disk whose directory this is. The kernel hangs a disk that could have several controllers on their
    /// subsystem, however many there are; None unless there is one.
    pub(super) fn of(sys: &Sys, disk: &str) -> Result<Option<Self>> {
        let device = format!("{disk}/device");
        let Some(name) = sys.link_name(&device)? else {
            return Ok(None);
        };
        if is_controller(&name) {
            return Ok(Some(Self { name, dir: device }));
        }
        if !name.starts_with("nvme-subsys") {
            return Ok(None);
        }
        let mut members = sys.names(&device)?;
        members.retain(|name| is_controller(name));
        Ok(match <[String; 1]>::try_from(members) {
            Ok([name]) => Some(Self {
                dir: format!("{device}/{name}"),
                name,
            }),
            Err(_) => None,
        })
    }
}

/// `nvme0n1`, or as a path of a disk that has a subsystem above it `nvme0c0n1`; the first number is then that of the
/// subsystem, and may be another than the controller's.
pub(super) fn is_namespace(name: &str) -> bool {
    name.strip_prefix("nvme").is_some_and(|rest| rest.contains('n'))
}

/// `nvme0`, and not a subsystem or a path of one.
fn is_controller(name: &str) -> bool {
    let number = name.strip_prefix("nvme").unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// One namespace on it, and no other controller in its subsystem.
fn is_alone(sys: &Sys, controller: &str) -> Result<bool> {
    let own = sys.names(&format!("sys/class/nvme/{controller}"))?;
    if own.iter().filter(|name| is_namespace(name)).count() != 1 {
        return Ok(false);
    }
    for subsystem in sys.names("sys/class/nvme-subsystem")? {
        let members = sys.names(&format!("sys/class/nvme-subsystem/{subsystem}"))?;
        if members.iter().any(|name| name == controller) {
            return Ok(members.iter().filter(|name| is_controller(name)).count() == 1);
        }
    }
    Ok(false)
}

fn offers(identity: &Identity) -> Vec<WipeMethod> {
    let formats = identity.oacs & 2 != 0;
    let all = [
        (identity.sanicap & 1 != 0, WipeMethod::SanitizeCrypto),
        (identity.sanicap & 2 != 0, WipeMethod::SanitizeBlock),
        (formats && identity.fna & 4 != 0, WipeMethod::FormatCrypto),
        (formats, WipeMethod::FormatData),
    ];
    all.into_iter()
        .filter_map(|(can, method)| can.then_some(method))
        .collect()
}

/// `{"nsid_list":[{"nsid":1}]}`
fn namespaces(said: &str) -> Vec<u32> {
    let document: Value = serde_json::from_str(said).unwrap_or_default();
    let list = document.get("nsid_list").and_then(Value::as_array);
    let number = |entry: &Value| {
        entry
            .get("nsid")
            .unwrap_or(entry)
            .as_u64()
            .and_then(|n| u32::try_from(n).ok())
    };
    // One that cannot be read is one that is not ours.
    list.into_iter()
        .flatten()
        .map(|entry| number(entry).unwrap_or(u32::MAX))
        .collect()
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
    use super::*;

    #[test]
    fn what_the_tool_says_is_understood_in_both_tongues() {
        assert_eq!(status(r#"{"nvme0":{"sprog":65535,"sstat":257}}"#), Some(1));
        assert_eq!(
            status(r#"{"nvme0":{"sprog":9,"sstat":{"status":"(2) Sanitize in Progress."}}}"#),
            Some(2)
        );
        assert_eq!(status("no"), None);
        assert_eq!(namespaces(r#"{"nsid_list":[{"nsid":1},{"nsid":2}]}"#), [1, 2]);
        assert_eq!(namespaces(r#"{"nsid_list":[1]}"#), [1]);
        assert_eq!(namespaces(r#"{"nsid_list":["x"]}"#), [u32::MAX]);
        let identity: Identity = serde_json::from_str(r#"{"vid":5197,"sanicap":3,"oacs":2,"fna":0}"#).expect("typed");
        let offered = [
            WipeMethod::SanitizeCrypto,
            WipeMethod::SanitizeBlock,
            WipeMethod::FormatData,
        ];
        assert_eq!(offers(&identity), offered);
    }
}
