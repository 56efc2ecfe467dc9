//! The numbers that judgement depends on. They are configuration; a report carries the ones used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Thresholds and deadlines, with the product's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub heartbeat_seconds: u32,
    pub heartbeat_stale_seconds: u32,
    pub disk_used_percent: u32,
    pub disk_free_bytes: u64,
    pub node_stream_timeout_seconds: u32,
    pub pty_seconds: u32,
    /// An error frame follows a missed deadline within this time.
    pub error_frame_seconds: u32,
    /// The console's own timer, longer than every deadline behind it.
    pub console_seconds: u32,
    pub token_seconds: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            heartbeat_seconds: 10,
            heartbeat_stale_seconds: 50,
            disk_used_percent: 90,
            disk_free_bytes: 256 * 1024 * 1024,
            node_stream_timeout_seconds: 15,
            pty_seconds: 10,
            error_frame_seconds: 1,
            console_seconds: 27,
            token_seconds: 300,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_waits_longer_than_everything_behind_it() {
        let limits = Limits::default();
        let behind = limits.node_stream_timeout_seconds + limits.pty_seconds + limits.error_frame_seconds;
        assert!(limits.console_seconds > behind);
    }
}
