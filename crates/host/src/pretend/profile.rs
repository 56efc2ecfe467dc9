//! Machines to pretend, by name. Figures are those of a typical host of that kind.

use std::fmt;
use std::str::FromStr;

use super::{Hardware, board};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    H100x8,
    L40sx4,
    /// A host without GPUs.
    Cpu,
}

impl Profile {
    pub const ALL: [Profile; 3] = [Profile::H100x8, Profile::L40sx4, Profile::Cpu];

    pub const fn as_str(self) -> &'static str {
        match self {
            Profile::H100x8 => "sim:h100x8",
            Profile::L40sx4 => "sim:l40sx4",
            Profile::Cpu => "sim:cpu",
        }
    }

    /// The devices of such a host, as its maker delivers it and its owner has prepared it for slices.
    pub(super) fn hardware(self) -> Hardware {
        match self {
            Profile::H100x8 => board::h100x8(),
            Profile::L40sx4 => board::l40sx4(),
            Profile::Cpu => Hardware::default(),
        }
    }

    pub(super) const fn free_memory_mib(self) -> u64 {
        match self {
            Profile::H100x8 => 2_015_232,
            Profile::L40sx4 => 503_808,
            Profile::Cpu => 62_976,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such simulated machine; there are sim:h100x8, sim:l40sx4 and sim:cpu")]
pub struct ProfileError;

impl FromStr for Profile {
    type Err = ProfileError;
    fn from_str(text: &str) -> Result<Self, ProfileError> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.as_str() == text)
            .ok_or(ProfileError)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
