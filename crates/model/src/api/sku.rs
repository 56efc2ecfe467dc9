//! What can be rented: a shape, the images that fit it, and a price that a later one never changes for what was rented
//! under it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::SkuId;
use crate::time::Timestamp;
use crate::value::FileName;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkuKind {
    /// A virtual machine on slots of a host.
    Slice,
    /// A whole host.
    Machine,
}

impl SkuKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Slice => "slice",
            Self::Machine => "machine",
        }
    }
}

impl std::str::FromStr for SkuKind {
    type Err = crate::state::UnknownState;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "slice" => Ok(Self::Slice),
            "machine" => Ok(Self::Machine),
            other => Err(crate::state::UnknownState(
                other.to_owned(),
                "slice, machine".to_owned(),
            )),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkuCreate {
    /// `slice.h100.1`: 1 to 63 of `a-z`, `0-9`, `.` and `-`.
    pub name: String,
    pub kind: SkuKind,
    /// As discovery names what it finds: `H100`, `L40S`; `10de:2330` for one that has no name.
    pub gpu_model: String,
    pub gpu_count: u32,
    /// How many slots of one node it takes; 0 for a machine.
    pub slots: u32,
    pub vcpu: u32,
    pub memory_mib: u64,
    pub nvme_gib: u64,
    pub fabric: bool,
    /// Names of the signed catalogue; the first one is taken unless told.
    pub images: Vec<FileName>,
    pub price_micro_per_hour: u64,
    /// Three capital letters.
    pub currency: String,
}

/// A new price is a new version; what was rented before keeps its own.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkuPrice {
    pub price_micro_per_hour: u64,
}

/// What is left out stays as it is. What is rented already goes on as it was agreed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkuChange {
    /// False: nobody who rents sees it any more.
    #[serde(default)]
    pub visible: Option<bool>,
    /// Names of the signed catalogue, all that there are from now on.
    #[serde(default)]
    pub images: Option<Vec<FileName>>,
}

/// How many can be had right now, as far as tenants are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FreeCount {
    #[serde(rename = "0")]
    None,
    #[serde(rename = "1–4")]
    Few,
    #[serde(rename = "5+")]
    Many,
}

impl FreeCount {
    pub const fn of(count: i64) -> Self {
        match count {
            ..=0 => Self::None,
            1..=4 => Self::Few,
            5.. => Self::Many,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SkuView {
    pub id: SkuId,
    pub name: String,
    pub kind: SkuKind,
    pub gpu_model: String,
    pub gpu_count: u32,
    pub slots: u32,
    pub vcpu: u32,
    pub memory_mib: u64,
    pub nvme_gib: u64,
    pub fabric: bool,
    pub images: Vec<FileName>,
    pub price_micro_per_hour: u64,
    pub currency: String,
    pub visible: bool,
    pub free: FreeCount,
    pub version: i64,
    pub created_at: Timestamp,
}
