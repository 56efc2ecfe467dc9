//! Slices as directories of root's alone: `owner`, the VM's own key, the host key that it will show, the first-boot
//! files and the disk made of them. Each file is there whole or not at all; keys that are there are kept, so that a
//! phase that runs again changes nothing.

mod first_boot;
mod guest;
mod iso;
mod openssh;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use model::digest::Sha256;
use model::id::AllocationId;
use model::signal::Code;
use model::task::vm_power::Power;
use model::telemetry::Registered;
use model::value::{MacAddress, Name};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};

use super::whole::Folder;
use crate::error::Doing;
use crate::{Baseline, Error, Kept, Result, Slice, Wish};
pub use first_boot::MARKER;
use first_boot::{Secrets, meta_data, reads, user_data, write};
pub use guest::PROGRAM as GUEST_PROGRAM;
use openssh::KeyPair;

const SLICES: &str = "var/lib/gpuaas/slices";
const TELEMETRY: &str = "var/lib/gpuaas/telemetry";
const OWNER: &str = "owner";
const WAY_IN: &str = "id_ed25519";
const HOST_KEY: &str = "ssh_host_ed25519_key";
const BASELINE: &str = "baseline";
const KEPT: &str = "kept";
const TOKEN: &str = "telemetry-token";
/// The hypervisor does not run as root and has to get at this one; it can pass through, and list nothing.
const SEEDS: &str = "var/lib/gpuaas/seeds";

pub struct Slices {
    root: PathBuf,
}

/// What the agent may know of a guest that sends numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Registration {
    allocation: AllocationId,
    token_sha256: Sha256,
    mac: MacAddress,
    ip: Ipv4Addr,
}

impl Slices {
    pub fn under(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) fn dir(&self, slice: &Slice) -> PathBuf {
        self.root.join(SLICES).join(slice.vm.as_str())
    }

    /// The slice's directory if it is there and this allocation's.
    fn own(&self, slice: &Slice) -> Result<Option<Folder>> {
        let Some(folder) = Folder::open(&self.dir(slice))? else {
            return Ok(None);
        };
        match folder.read(OWNER)? {
            Some(owner) if owner != slice.allocation.to_string() => Err(refused(&slice.vm, &owner)),
            Some(_) => Ok(Some(folder)),
            // Whoever made it was killed before the first file: empty, or nobody's.
            None if folder.names()?.is_empty() => Ok(None),
            None => Err(refused(&slice.vm, "nobody we know")),
        }
    }

    fn own_or_missing(&self, slice: &Slice) -> Result<Folder> {
        self.own(slice)?.ok_or_else(|| Error::Unreadable {
            path: self.dir(slice).display().to_string(),
            why: "there is no such slice",
        })
    }

    fn secret(folder: &Folder, name: &str) -> Result<String> {
        if let Some(kept) = folder.read(name)? {
            return Ok(kept);
        }
        let mut seed = [0; 32];
        getrandom(&mut seed[..], GetRandomFlags::empty()).doing(|| "make a secret".to_owned())?;
        let text = if name == TOKEN {
            HEXLOWER.encode(&seed)
        } else {
            let pair = KeyPair::from_seed(seed);
            // The public half first: where there is a private one there is a public one.
            folder.write(&format!("{name}.pub"), pair.public.as_bytes(), 0o600)?;
            pair.private
        };
        folder.write(name, text.as_bytes(), 0o600)?;
        Ok(text)
    }

    fn keep_with(&self, slice: &Slice, change: impl FnOnce(&mut Kept)) -> Result<()> {
        let Some(folder) = self.own(slice)? else {
            return Ok(());
        };
        let Some(kept) = kept_in(&folder)? else {
            return Ok(());
        };
        let mut changed = kept.clone();
        change(&mut changed);
        if changed == kept {
            return Ok(());
        }
        keep(&folder, &changed)
    }

    fn there(folder: &Folder, name: &str) -> Result<String> {
        folder.read(name)?.ok_or_else(|| Error::Unreadable {
            path: folder.path().join(name).display().to_string(),
            why: "it is not there",
        })
    }

    fn registration(&self, vm: &Name) -> Result<Option<Registration>> {
        let Some(folder) = Folder::open(&self.root.join(TELEMETRY))? else {
            return Ok(None);
        };
        let text = folder.read(vm.as_str())?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }
}

impl crate::Slices for Slices {
    fn ensure_dir(&self, slice: &Slice) -> Result<()> {
        if self.own(slice)?.is_some() {
            return Ok(());
        }
        let folder = Folder::ensure(&self.dir(slice))?;
        folder.write_new(OWNER, slice.allocation.to_string().as_bytes(), 0o600)?;
        self.own_or_missing(slice).map(drop)
    }

    fn ensure_no_dir(&self, slice: &Slice) -> Result<()> {
        let folder = match self.own(slice) {
            Ok(Some(folder)) => Some(folder),
            Ok(None) => Folder::open(&self.dir(slice))?,
            // Somebody else's.
            Err(Error::Slice { .. }) => None,
            Err(error) => return Err(error),
        };
        let Some(folder) = folder else { return Ok(()) };
        if let Some(seeds) = Folder::open(&self.root.join(SEEDS))? {
            seeds.remove(&seed_name(slice))?;
        }
        // Whose it is goes last: until then what is left is known to be ours.
        for name in folder.names()?.iter().filter(|name| *name != OWNER) {
            folder.remove(name)?;
        }
        folder.remove(OWNER)?;
        let path = self.dir(slice);
        std::fs::remove_dir(&path).doing(|| format!("remove {}", path.display()))?;
        match Folder::open(&self.root.join(SLICES))? {
            Some(above) => above.sync(),
            None => Ok(()),
        }
    }

    fn ensure_baseline(&self, slice: &Slice, baseline: &Baseline) -> Result<()> {
        let text = serde_json::to_string(baseline).unwrap_or_default();
        self.own_or_missing(slice)?.write(BASELINE, text.as_bytes(), 0o600)
    }

    fn baseline(&self, slice: &Slice) -> Result<Baseline> {
        let Some(folder) = self.own(slice)? else {
            return Ok(Baseline::new());
        };
        let Some(text) = folder.read(BASELINE)? else {
            return Ok(Baseline::new());
        };
        serde_json::from_str(&text).map_err(|_| Error::Unreadable {
            path: folder.path().join(BASELINE).display().to_string(),
            why: "it does not list digests",
        })
    }

    fn ensure_keys(&self, slice: &Slice) -> Result<()> {
        let folder = self.own_or_missing(slice)?;
        Self::secret(&folder, WAY_IN)?;
        Self::secret(&folder, HOST_KEY)?;
        let shown = Self::there(&folder, &format!("{HOST_KEY}.pub"))?;
        folder.write("known_hosts", format!("{} {shown}\n", slice.vm).as_bytes(), 0o600)
    }

    fn ensure_telemetry(&self, slice: &Slice, mac: MacAddress, ip: Ipv4Addr) -> Result<()> {
        if let Some(other) = self.registration(&slice.vm)?
            && other.allocation != slice.allocation
        {
            return Err(refused(&slice.vm, &other.allocation.to_string()));
        }
        let token = Self::secret(&self.own_or_missing(slice)?, TOKEN)?;
        let registration = Registration {
            allocation: slice.allocation,
            token_sha256: Sha256::of(token.as_bytes()),
            mac,
            ip,
        };
        let text = serde_json::to_string(&registration).unwrap_or_default();
        Folder::ensure(&self.root.join(TELEMETRY))?.write(slice.vm.as_str(), text.as_bytes(), 0o600)
    }

    fn ensure_no_telemetry(&self, slice: &Slice) -> Result<()> {
        match self.registration(&slice.vm)? {
            Some(registration) if registration.allocation == slice.allocation => {
                Folder::ensure(&self.root.join(TELEMETRY))?.remove(slice.vm.as_str())
            }
            Some(_) | None => Ok(()),
        }
    }

    fn registered(&self) -> Result<Vec<Registered>> {
        let Some(folder) = Folder::open(&self.root.join(TELEMETRY))? else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        for name in folder.names()? {
            // A file that is just being written begins with a dot, which no name does.
            let Ok(vm_name) = name.parse::<Name>() else { continue };
            all.extend(self.registration(&vm_name)?.map(|found| Registered {
                allocation_id: found.allocation,
                vm_name,
                address: found.ip,
                token_sha256: found.token_sha256,
            }));
        }
        Ok(all)
    }

    fn ensure_seed_files(&self, slice: &Slice, wish: &Wish) -> Result<()> {
        let folder = self.own_or_missing(slice)?;
        let way_in = Self::there(&folder, &format!("{WAY_IN}.pub"))?;
        let host_private = Self::there(&folder, HOST_KEY)?;
        let host_public = Self::there(&folder, &format!("{HOST_KEY}.pub"))?;
        let telemetry_token = Self::there(&folder, TOKEN)?;
        let user_data = user_data(
            wish,
            &Secrets {
                way_in: &way_in,
                host_private: &host_private,
                host_public: &host_public,
                telemetry_token: &telemetry_token,
            },
        );
        let meta_data = meta_data(&slice.vm, slice.allocation);
        let changed = || Error::Unreadable {
            path: folder.path().display().to_string(),
            why: "the first-boot files do not read as they were written",
        };
        let (user_text, meta_text) = (write(true, &user_data), write(false, &meta_data));
        let (user_text, meta_text) = user_text.zip(meta_text).ok_or_else(changed)?;
        folder.write("user-data", user_text.as_bytes(), 0o600)?;
        folder.write("meta-data", meta_text.as_bytes(), 0o600)?;
        let user_back = reads(&Self::there(&folder, "user-data")?, &user_data);
        let meta_back = reads(&Self::there(&folder, "meta-data")?, &meta_data);
        if user_back && meta_back { Ok(()) } else { Err(changed()) }
    }

    fn ensure_seed_image(&self, slice: &Slice) -> Result<PathBuf> {
        let folder = self.own_or_missing(slice)?;
        let user_data = Self::there(&folder, "user-data")?;
        let meta_data = Self::there(&folder, "meta-data")?;
        let files = [("user-data", user_data.as_bytes()), ("meta-data", meta_data.as_bytes())];
        let seeds = Folder::ensure_with(&self.root.join(SEEDS), 0o711)?;
        seeds.write(&seed_name(slice), &iso::image("cidata", &files), 0o600)?;
        Ok(self.seed_image(slice))
    }

    fn seed_image(&self, slice: &Slice) -> PathBuf {
        self.root.join(SEEDS).join(seed_name(slice))
    }

    fn ensure_kept(&self, slice: &Slice, kept: &Kept) -> Result<()> {
        let folder = self.own_or_missing(slice)?;
        keep(&folder, &kept.clone().after(kept_in(&folder)?))
    }

    fn ensure_wanted(&self, slice: &Slice, power: Power) -> Result<()> {
        self.keep_with(slice, |kept| kept.power = power)
    }

    fn ensure_started_in(&self, slice: &Slice, boot_id: &str) -> Result<()> {
        self.keep_with(slice, |kept| boot_id.clone_into(&mut kept.boot_id))
    }

    fn ensure_not_kept(&self, slice: &Slice) -> Result<()> {
        match self.own(slice) {
            Ok(Some(folder)) => folder.remove(KEPT),
            // There is none, or it is somebody else's.
            Ok(None) | Err(Error::Slice { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn kept(&self) -> Result<Vec<Kept>> {
        let Some(all) = Folder::open(&self.root.join(SLICES))? else {
            return Ok(Vec::new());
        };
        let mut kept = Vec::new();
        for name in all.names()? {
            // One that is being taken away may be gone by now.
            if let Some(folder) = Folder::open(&all.path().join(name))? {
                kept.extend(kept_in(&folder)?);
            }
        }
        Ok(kept)
    }

    fn has_dir(&self, slice: &Slice) -> Result<bool> {
        Ok(Folder::open(&self.dir(slice))?.is_some())
    }

    fn has_telemetry(&self, slice: &Slice) -> Result<bool> {
        Ok(self.registration(&slice.vm)?.is_some())
    }
}

fn keep(folder: &Folder, kept: &Kept) -> Result<()> {
    let text = serde_json::to_string(kept).unwrap_or_default();
    folder.write(KEPT, text.as_bytes(), 0o600)
}

fn kept_in(folder: &Folder) -> Result<Option<Kept>> {
    let Some(text) = folder.read(KEPT)? else {
        return Ok(None);
    };
    let kept = serde_json::from_str(&text);
    kept.map(Some).map_err(|_| Error::Unreadable {
        path: folder.path().join(KEPT).display().to_string(),
        why: "it does not say which VM is meant",
    })
}

fn seed_name(slice: &Slice) -> String {
    format!("{}.iso", slice.vm)
}

fn refused(vm: &Name, holder: &str) -> Error {
    Error::Slice {
        code: Code::VmRefused,
        subject: vm.to_string(),
        why: format!("the name belongs to {holder}"),
    }
}
