//! Node evidence entered into the observations: the agent's own document, or what is left when
//! its program could not even be started. Refuses evidence that is too old to speak.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evidence::{Source, usable};
use super::limits::Limits;
use super::observation::{ApiDial, Disk, Observations, Process, Seen};
use super::result::Skip;
use crate::node_api::NodeProbe;
use crate::time::Timestamp;

/// Enters a node's evidence, or the reason why it may not speak. `heartbeat_failed` voids what
/// the node itself reported before it fell silent.
pub fn enter_probe(
    seen: &mut Observations,
    probe: &NodeProbe,
    source: Source,
    now: Timestamp,
    heartbeat_failed: bool,
    limits: &Limits,
) {
    // An agent of another release may know a word that we do not: then nothing was seen.
    let api = match &probe.api.reason {
        None if probe.api.ok => Some(ApiDial::Answered),
        None => None,
        Some(word) => ApiDial::from_word(word),
    };
    let age_ms = u64::try_from(now.since_ms(probe.at)).unwrap_or(0);
    if let Err(skip) = usable(source, age_ms.div_ceil(1000), heartbeat_failed, api) {
        seen.api = Seen::Not(skip);
        seen.disk = Seen::Not(skip);
        seen.recovery.process = Seen::Not(skip);
        return;
    }
    seen.api = api.map_or(Seen::Not(Skip::NoNodeAccess), Seen::Seen);
    seen.disk = match &probe.disk {
        None => Seen::Not(Skip::NoNodeAccess),
        Some(disk) => Seen::Seen(Disk {
            path: disk.path.clone(),
            used_percent: disk.used_percent,
            free_bytes: disk.free_bytes,
            diagnostic_path: None,
            writable: disk.writable,
            claims_paused: !disk.writable || disk.free_bytes < limits.disk_free_bytes,
        }),
    };
    // Only a running agent reports by itself; a probe started by hand proves the program alone.
    if source == Source::AgentReport {
        seen.recovery.process = Seen::Seen(Process::Running);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NodeProbeErrorSchema {
    #[serde(rename = "gpuaas.node_probe_error.v1")]
    V1,
}

/// What is left when the probe could not be started on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeProbeError {
    pub schema: NodeProbeErrorSchema,
    /// As a shell reports it: 126 cannot be executed, 127 not there.
    pub exit_code: i32,
}

impl NodeProbeError {
    /// A login that failed in another way says nothing about the node.
    pub fn enter(&self, seen: &mut Observations) {
        seen.recovery.process = match self.exit_code {
            126 => Seen::Seen(Process::ExecFormat),
            127 => Seen::Seen(Process::Missing),
            _ => Seen::Not(Skip::NoNodeAccess),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_api::{self, NodeProbeSchema, ProbedHop};

    const AT: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn probe(reason: Option<&str>) -> NodeProbe {
        NodeProbe {
            schema: NodeProbeSchema::V1,
            at: AT,
            agent_version: "0.1.0".into(),
            process_started_at: AT,
            executor_connected: true,
            disk: Some(node_api::Disk {
                path: "/".into(),
                used_percent: 41,
                free_bytes: 1 << 40,
                writable: true,
            }),
            api: ProbedHop {
                url: "https://node-api.gpuaas.test".into(),
                ok: reason.is_none(),
                reason: reason.map(str::to_owned),
                took_ms: 3,
            },
            held: None,
        }
    }

    fn entered(probe: &NodeProbe, source: Source, age_s: i64, silent: bool) -> Observations {
        let mut seen = Observations::default();
        enter_probe(&mut seen, probe, source, AT.plus_s(age_s), silent, &Limits::default());
        seen
    }

    #[test]
    fn a_fresh_report_speaks_for_three_hops() {
        let seen = entered(&probe(None), Source::AgentReport, 60, false);
        assert_eq!(seen.api, Seen::Seen(ApiDial::Answered));
        assert!(matches!(&seen.disk, Seen::Seen(disk) if !disk.claims_paused));
        assert_eq!(seen.recovery.process, Seen::Seen(Process::Running));
    }

    #[test]
    fn an_old_report_is_silent() {
        let seen = entered(&probe(None), Source::AgentReport, 91, false);
        assert_eq!(seen.api, Seen::Not(Skip::StaleEvidence));
        assert_eq!(seen.disk, Seen::Not(Skip::StaleEvidence));
        assert_eq!(seen.recovery.process, Seen::Not(Skip::StaleEvidence));
    }

    #[test]
    fn a_silent_node_may_still_say_that_an_edge_slowed_it() {
        let limited = probe(Some("edge_rate_limited"));
        let seen = entered(&limited, Source::AgentReport, 600, true);
        assert_eq!(seen.api, Seen::Seen(ApiDial::EdgeRateLimited));
        let refused = probe(Some("tcp_refused"));
        let seen = entered(&refused, Source::AgentReport, 5, true);
        assert_eq!(seen.api, Seen::Not(Skip::StaleEvidence));
    }

    #[test]
    fn a_word_of_another_release_is_not_taken_for_health() {
        let seen = entered(&probe(Some("quantum_tunnel")), Source::Ssh, 1, false);
        assert_eq!(seen.api, Seen::Not(Skip::NoNodeAccess));
        assert_eq!(
            seen.recovery.process,
            Seen::Not(Skip::NoNodeAccess),
            "not a running agent"
        );
    }

    #[test]
    fn only_a_shells_two_statuses_blame_the_program() {
        let entered = |exit_code| {
            let mut seen = Observations::default();
            NodeProbeError {
                schema: NodeProbeErrorSchema::V1,
                exit_code,
            }
            .enter(&mut seen);
            seen.recovery.process
        };
        assert_eq!(entered(126), Seen::Seen(Process::ExecFormat));
        assert_eq!(entered(127), Seen::Seen(Process::Missing));
        assert_eq!(entered(255), Seen::Not(Skip::NoNodeAccess));
    }
}
