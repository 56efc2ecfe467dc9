//! Numbers that a guest sends about itself, for its tenant to look at. Whoever is root in the guest can send any it
//! likes, so they are shown and nothing else: no bill and no decision reads them. The fields are these and no others,
//! which bounds how many series there can ever be.

use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Sha256;
use crate::id::AllocationId;
use crate::json;
use crate::signal::Code;
use crate::value::Name;

/// Where the agent listens, on the bridges of slices only.
pub const PORT: u16 = 9110;
pub const PATH: &str = "/internal/v1/guest-telemetry";
/// The largest body.
pub const MAX_BODY: usize = 8 * 1024;
pub const MAX_GPUS: usize = 16;
/// The most samples that a node relays at once.
pub const MAX_SAMPLES: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestNumbers {
    pub uptime_s: u64,
    pub cpu_pct: Option<u32>,
    pub memory_total_mib: Option<u64>,
    pub memory_used_mib: Option<u64>,
    #[serde(default)]
    pub gpus: Vec<GpuNumbers>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuNumbers {
    pub index: u32,
    pub utilization_pct: Option<u32>,
    pub memory_total_mib: Option<u64>,
    pub memory_used_mib: Option<u64>,
    pub temperature_c: Option<u32>,
    pub power_w: Option<u32>,
}

impl GuestNumbers {
    pub fn parse(body: &[u8]) -> Result<Self, Code> {
        if body.len() > MAX_BODY {
            return Err(Code::TelemetryLimited);
        }
        if !json::nesting_within(body, 8) {
            return Err(Code::TelemetryRefused);
        }
        let numbers: Self = serde_json::from_slice(body).map_err(|_| Code::TelemetryRefused)?;
        numbers.checked()
    }

    /// Few enough and small enough to be kept and shown.
    pub fn checked(self) -> Result<Self, Code> {
        let small = |number: Option<u64>| number.unwrap_or(0) < 1 << 53;
        let all = self
            .gpus
            .iter()
            .flat_map(|gpu| [gpu.memory_total_mib, gpu.memory_used_mib]);
        let own = [Some(self.uptime_s), self.memory_total_mib, self.memory_used_mib];
        if self.gpus.len() > MAX_GPUS {
            Err(Code::TelemetryLimited)
        } else if all.chain(own).all(small) {
            Ok(self)
        } else {
            Err(Code::TelemetryRefused)
        }
    }
}

/// A guest that may send, as the executor registered it. The token itself is in the guest alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registered {
    pub allocation_id: AllocationId,
    pub vm_name: Name,
    pub address: Ipv4Addr,
    pub token_sha256: Sha256,
}

/// `POST /internal/v1/nodes/{id}/telemetry`: what guests have sent since the last time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TelemetryRequest {
    pub samples: Vec<GuestSample>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestSample {
    pub allocation_id: AllocationId,
    pub numbers: GuestNumbers,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_that_are_known_and_only_so_many() {
        let parse = |text: &str| GuestNumbers::parse(text.as_bytes()).map(drop);
        assert_eq!(
            parse(r#"{"uptime_s":1,"cpu_pct":3,"memory_total_mib":null,"memory_used_mib":2}"#),
            Ok(())
        );
        for text in [
            r#"{"uptime_s":1,"cpu_pct":3,"label_1":2}"#,
            r#"{"uptime_s":"1"}"#,
            r#"{"uptime_s":1.5}"#,
            r#"{"uptime_s":-1}"#,
            r#"{"uptime_s":9007199254740993}"#,
            "[]",
            "",
        ] {
            assert_eq!(parse(text), Err(Code::TelemetryRefused), "{text}");
        }
        let gpu = r#"{"index":0,"utilization_pct":1}"#;
        let many = format!(r#"{{"uptime_s":1,"gpus":[{}]}}"#, vec![gpu; MAX_GPUS + 1].join(","));
        assert_eq!(parse(&many), Err(Code::TelemetryLimited));
        assert_eq!(parse(&" ".repeat(MAX_BODY + 1)), Err(Code::TelemetryLimited));
    }
}
