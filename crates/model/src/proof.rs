//! What is shown before a device is given to the next tenant: that a GPU was reset and that a disk was wiped. The
//! executor signs both with its result; a slot without them is not free.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Sha256;
use crate::id::SlotId;
use crate::time::Timestamp;
use crate::value::{DiskId, Nonce, Pci, Serial};

/// That a GPU or virtual function was reset between two tenants, and answers again. There is none of a reset that
/// failed: then the task fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResetProof {
    pub pci_address: Pci,
    /// The kernel's word for what it did: `flr`, `bus`, `pm`, …
    pub reset_method: String,
    /// What the kernel answered to the request; 0.
    pub rc: i32,
    /// Not all ones.
    pub config_readable: bool,
    /// `D0`
    pub power_state: String,
    /// Bound afterwards, for slices `vfio-pci`.
    pub driver: Option<String>,
    /// None where the function has no ROM that can be read.
    pub vbios_sha256: Option<Sha256>,
    /// Was it compared with one that was taken before the tenant came?
    pub vbios_compared: bool,
    /// The kernel that did it: methods have broken between two of them.
    pub kernel_version: String,
    /// Overwriting a GPU's memory needs the vendor's driver, which a host of slices does not have: what happens to it
    /// is what the reset does.
    pub memory_overwritten: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WipeMethod {
    /// The controller forgets the key of everything it has stored.
    SanitizeCrypto,
    SanitizeBlock,
    FormatCrypto,
    FormatData,
    /// The kernel asks the disk for zeros.
    WriteZeroes,
    /// Zeros are written.
    Overwrite,
}

impl WipeMethod {
    pub const fn as_str(self) -> &'static str {
        match self {
            WipeMethod::SanitizeCrypto => "sanitize_crypto",
            WipeMethod::SanitizeBlock => "sanitize_block",
            WipeMethod::FormatCrypto => "format_crypto",
            WipeMethod::FormatData => "format_data",
            WipeMethod::WriteZeroes => "write_zeroes",
            WipeMethod::Overwrite => "overwrite",
        }
    }

    /// Does it reach further than one namespace may? Then only a controller with no other namespace gets it.
    pub const fn reaches_the_controller(self) -> bool {
        match self {
            WipeMethod::SanitizeCrypto
            | WipeMethod::SanitizeBlock
            | WipeMethod::FormatCrypto
            | WipeMethod::FormatData => true,
            WipeMethod::WriteZeroes | WipeMethod::Overwrite => false,
        }
    }

    /// Must every byte be zero afterwards? After a lost key they are anything.
    pub const fn leaves_zeros(self) -> bool {
        match self {
            WipeMethod::WriteZeroes | WipeMethod::Overwrite => true,
            WipeMethod::SanitizeCrypto
            | WipeMethod::SanitizeBlock
            | WipeMethod::FormatCrypto
            | WipeMethod::FormatData => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Clean,
    /// Or not known to be clean, which is the same.
    Dirty,
}

/// What a wipe did and what was found after it. Only a clean one frees a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WipeProof {
    pub slot_id: SlotId,
    pub nvme_device: DiskId,
    pub serial: Serial,
    pub wwn: Serial,
    pub size_bytes: u64,
    pub method: WipeMethod,
    pub tool_rc: i32,
    pub nonce: Nonce,
    /// Written before and read back.
    pub markers_planted: u32,
    /// Of them, how many are still there, in whole or in part.
    pub markers_found: u32,
    /// Partition tables, file systems and the like.
    pub signatures_found: u32,
    /// How much of the disk was read after the wipe.
    pub read_back_bytes: u64,
    /// Blocks of 4 KiB that are not zero although the method leaves zeros.
    pub blocks_not_zero: u64,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub verdict: Verdict,
}

impl WipeProof {
    /// What the figures say, whatever the verdict claims.
    pub fn judge(&self) -> Verdict {
        let all_read = !self.method.leaves_zeros() || self.read_back_bytes == self.size_bytes;
        let nothing_left = self.markers_found == 0 && self.signatures_found == 0 && self.blocks_not_zero == 0;
        if self.tool_rc == 0 && self.markers_planted > 0 && all_read && nothing_left {
            Verdict::Clean
        } else {
            Verdict::Dirty
        }
    }

    pub fn is_clean(&self) -> bool {
        self.verdict == Verdict::Clean && self.judge() == Verdict::Clean
    }
}
