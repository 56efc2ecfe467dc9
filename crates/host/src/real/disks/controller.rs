//! What only a disk's controller can do: sanitize, which works on everything behind it, and format, which may. Both are
//! offered only where all of it is ours: one controller in the subsystem, one namespace on it, counted by the kernel
//! and once more by the controller itself, which knows those that no host sees. Told by nvme-cli, as the kernel's own
//! calls are out of reach of safe code; our open file keeps the number of the controller from being given to another.

mod sanitize;

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
pub const WIPE_LIMIT: Duration = Duration::from_secs(4 * 3600);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Questions in a row that may go unanswered.
const FORGIVEN: u32 = 4;

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
        let identity = ["id-ctrl", &device, "--output-format=json"];
        let listed = ["list-ns", &device, "--all", "--output-format=json"];
        // A tool that fails here is a tool that does not wipe; zeros do.
        let Some(identity) = answer(&commands, &identity, |said| serde_json::from_str(said).ok()) else {
            return Ok(None);
        };
        if answer(&commands, &listed, namespaces).is_none_or(|listed| listed != [nsid]) {
            return Ok(None);
        }
        let offers = offers(&identity);
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
        let erase = match method {
            WipeMethod::SanitizeCrypto | WipeMethod::SanitizeBlock => return self.sanitize(method).map(|()| 0),
            WipeMethod::FormatCrypto => "--ses=2",
            WipeMethod::FormatData => "--ses=1",
            WipeMethod::WriteZeroes | WipeMethod::Overwrite => return Err("not a method of the controller".to_owned()),
        };
        self.tell(&["format", &self.device, &nsid, erase, "--force"], WIPE_LIMIT)
            .map(|()| 0)
    }

    fn tell(&self, args: &[&str], limit: Duration) -> std::result::Result<(), String> {
        let ended = self.commands.run(Program::Nvme, args, None, limit);
        let ended = ended.map_err(|error| error.to_string())?;
        match ended.code().unwrap_or(-1) {
            0 => Ok(()),
            rc => Err(format!("nvme ended with {rc}: {}", ended.stderr())),
        }
    }
}

/// What a controller says of itself, as `read` understands it; None if that is nothing, again and again: one that has
/// just woken up answers late, and one that sanitizes may fail to answer now and then. One that was waited for in full is
/// not asked any more: there may be many like it.
fn answer<T>(commands: &Commands, args: &[&str], read: impl Fn(&str) -> Option<T>) -> Option<T> {
    for silent in 0..=FORGIVEN {
        if silent > 0 {
            park_timeout(LOOK_EVERY);
        }
        let asked_at = Instant::now();
        let said = commands.ask(Program::Nvme, args, ASK_LIMIT).ok();
        if let Some(understood) = said.and_then(|said| read(&said)) {
            return Some(understood);
        }
        if asked_at.elapsed() >= ASK_LIMIT {
            break;
        }
    }
    None
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

/// `{"nsid_list":[{"nsid":1}]}`; None if it is no such list.
fn namespaces(said: &str) -> Option<Vec<u32>> {
    let document: Value = serde_json::from_str(said).ok()?;
    let list = document.get("nsid_list")?.as_array()?;
    let number = |entry: &Value| {
        entry
            .get("nsid")
            .unwrap_or(entry)
            .as_u64()
            .and_then(|n| u32::try_from(n).ok())
    };
    // One that cannot be read is one that is not ours.
    let all = list.iter().map(|entry| number(entry).unwrap_or(u32::MAX));
    Some(all.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tool_says_is_understood_in_both_tongues() {
        assert_eq!(namespaces(r#"{"nsid_list":[{"nsid":1},{"nsid":2}]}"#), Some(vec![1, 2]));
        assert_eq!(namespaces(r#"{"nsid_list":[1]}"#), Some(vec![1]));
        assert_eq!(namespaces(r#"{"nsid_list":["x"]}"#), Some(vec![u32::MAX]));
        assert_eq!(namespaces("{}"), None);
        let identity: Identity = serde_json::from_str(r#"{"vid":5197,"sanicap":3,"oacs":2,"fna":0}"#).expect("typed");
        let offered = [
            WipeMethod::SanitizeCrypto,
            WipeMethod::SanitizeBlock,
            WipeMethod::FormatData,
        ];
        assert_eq!(offers(&identity), offered);
    }
}
