//! Node evidence as a document, made only by the agent's own code: posted by the agent itself,
//! fetched by an operator's ssh, or handed over as a file. It carries facts and no verdict.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evidence::{Source, usable};
use super::observation::{ApiDial, Auth, Dial, Disk, Observations, Process, Seen, TerminalDial};
use super::result::Skip;
use crate::id::NodeId;
use crate::time::Timestamp;

/// The document's name; a document of another name does not parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProbeSchema {
    #[serde(rename = "gpuaas.node_probe.v1")]
    V1,
}

/// What the node sees of itself and of its way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeProbe {
    pub schema: ProbeSchema,
    /// None before enrolment.
    pub node_id: Option<NodeId>,
    pub agent_version: String,
    pub observed_at: Timestamp,
    pub disk: Disk,
    pub process: Process,
    pub last_exit: Option<i32>,
    pub api_url: String,
    pub api: ApiDial,
    /// What the API said to the node's certificate; None if no answer came.
    pub auth: Option<Auth>,
    /// None while the node has no terminal endpoint.
    pub terminal_url: Option<String>,
    pub terminal: Option<Dial>,
}

impl NodeProbe {
    /// Enters this evidence into the observations, or the reason why it may not speak. What the
    /// control plane itself decided about the certificate stands above what the node was told.
    pub fn enter(
        &self,
        seen: &mut Observations,
        source: Source,
        now: Timestamp,
        heartbeat_failed: bool,
        profile_terminal_url: Option<&str>,
    ) {
        let age_ms = now.since_ms(self.observed_at);
        let age_seconds = u64::try_from(age_ms).unwrap_or(0).div_ceil(1000);
        if let Err(skip) = usable(source, age_seconds, heartbeat_failed, self.api) {
            seen.disk = Seen::Not(skip);
            seen.api = Seen::Not(skip);
            seen.recovery.process = Seen::Not(skip);
            seen.terminal = Seen::Not(skip);
            return;
        }
        seen.disk = Seen::Seen(self.disk.clone());
        seen.api = Seen::Seen(self.api);
        seen.recovery.process = Seen::Seen(self.process);
        if let (Seen::Not(_), Some(auth)) = (seen.recovery.auth, self.auth) {
            seen.recovery.auth = Seen::Seen(auth);
        }
        seen.terminal = match self.terminal {
            None => Seen::Not(Skip::NotApplicable),
            Some(dial) => Seen::Seen(TerminalDial {
                dial,
                url_as_in_profile: profile_terminal_url
                    .is_none_or(|expected| Some(expected) == self.terminal_url.as_deref()),
            }),
        };
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProbeErrorSchema {
    #[serde(rename = "gpuaas.node_probe_error.v1")]
    V1,
}

/// What is left when the probe could not even be started on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeProbeError {
    pub schema: ProbeErrorSchema,
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
