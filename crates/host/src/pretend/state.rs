//! What a pretend machine remembers.

use std::collections::{BTreeMap, BTreeSet};

use model::id::AllocationId;
use serde::{Deserialize, Serialize};

use super::{Hardware, Profile, Slicing};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    pub accounts: BTreeMap<String, Account>,
    /// Owner's uid by name of the account.
    pub homes: BTreeMap<String, u32>,
    /// Lines of `authorized_keys` by name of the account.
    pub keys: BTreeMap<String, Vec<String>>,
    /// What tenants left lying about, by uid.
    pub leftovers: BTreeMap<u32, BTreeSet<Leftover>>,
    /// Whose a uid is, written down before the account is made and until its absence is proved.
    #[serde(default)]
    pub records: BTreeMap<u32, (String, AllocationId)>,
    /// Kinds that resist removal, to see what happens then.
    pub immovable: BTreeSet<Leftover>,
    /// How often it was started again.
    #[serde(default)]
    pub boots: u32,
    #[serde(default)]
    pub hardware: Hardware,
    #[serde(default)]
    pub slicing: Slicing,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    pub uid: u32,
    /// None: an account of the host's own.
    pub owner: Option<AllocationId>,
    pub gpu_access: bool,
    pub locked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leftover {
    Process,
    Cron,
    At,
    Linger,
    File,
    Ipc,
}

impl State {
    /// A machine of this kind that nobody has used yet.
    pub(super) fn of(profile: Profile) -> Self {
        Self {
            hardware: profile.hardware(),
            ..Self::default()
        }
    }

    pub fn has(&self, uid: u32, kind: Leftover) -> bool {
        self.leftovers.get(&uid).is_some_and(|kinds| kinds.contains(&kind))
    }

    /// True if there was one and it is gone.
    pub(super) fn remove(&mut self, uid: u32, kind: Leftover) -> bool {
        if self.immovable.contains(&kind) {
            return false;
        }
        let Some(kinds) = self.leftovers.get_mut(&uid) else {
            return false;
        };
        let removed = kinds.remove(&kind);
        if kinds.is_empty() {
            self.leftovers.remove(&uid);
        }
        removed
    }
}
