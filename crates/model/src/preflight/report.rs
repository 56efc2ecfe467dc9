//! The document `gpuaas.preflight.v1`: one shape for operators and tenants, every key always
//! there, `null` where nothing is known, so that a reader never has to ask whether a key exists.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::classify::{Classification, SideCheck, Verdict, Warning};
use super::evidence::Source;
use super::fault::Fault;
use super::hop::Hop;
use super::limits::Limits;
use super::observation::Disk;
use super::result::{HopResult, Reason};
use super::status::{NodeAgent, Readiness};
use crate::id::{AllocationId, NodeId, PreflightId, SessionId};
use crate::signal::Code;
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReportSchema {
    #[serde(rename = "gpuaas.preflight.v1")]
    V1,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    pub schema: ReportSchema,
    pub preflight_id: PreflightId,
    /// Of this run.
    pub correlation_id: Uuid,
    pub tool_version: String,
    pub profile: Option<String>,
    pub started_at: Timestamp,
    pub duration_ms: u64,
    pub verdict: Verdict,
    pub complete: bool,
    pub first_failed_hop: Option<Hop>,
    pub cause: Option<Cause>,
    pub signals: Vec<Code>,
    pub warnings: Vec<Warning>,
    pub status: Status,
    pub ids: Ids,
    pub disk: DiskFacts,
    pub hops: Vec<HopRow>,
    pub side_checks: Vec<SideRow>,
    pub limits: Limits,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    pub signal: Code,
    pub hop: Hop,
    pub reason: Reason,
    pub owner: String,
    pub recovery: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    pub node_agent: NodeAgent,
    pub terminal: Option<Readiness>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ids {
    pub allocation_id: Option<AllocationId>,
    pub node_id: Option<NodeId>,
    /// Of the request that failed, which is seldom this run's.
    pub correlation_id: Option<Uuid>,
    pub session_id: Option<SessionId>,
    pub node_hostname: Option<String>,
    pub provider: Option<String>,
    pub private_ip: Option<String>,
    pub api_url: Option<String>,
    pub terminal_url: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskFacts {
    pub path: Option<String>,
    pub used_percent: Option<u32>,
    pub free_bytes: Option<u64>,
    pub diagnostic_path: Option<String>,
    pub writable: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HopRow {
    pub n: String,
    pub hop: Hop,
    /// `pass`, `fail` or `not_evaluated`.
    pub result: String,
    pub signal: Option<Code>,
    /// Why it failed, or why it was not evaluated.
    pub reason: Option<String>,
    pub source: Option<Source>,
    pub observed_at: Option<Timestamp>,
    pub duration_ms: Option<u64>,
    pub detail: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SideRow {
    pub check: String,
    pub result: String,
    pub signal: Option<Code>,
    pub reason: Option<String>,
}

/// What a report needs besides the classification: who ran it, and how each hop was looked at.
#[derive(Clone, Debug)]
pub struct Run {
    pub preflight_id: PreflightId,
    pub correlation_id: Uuid,
    pub tool_version: String,
    pub profile: Option<String>,
    pub started_at: Timestamp,
    pub duration_ms: u64,
    pub ids: Ids,
    pub disk: Option<Disk>,
    pub looks: BTreeMap<Hop, Look>,
    pub limits: Limits,
}

/// How one hop was looked at.
#[derive(Clone, Debug)]
pub struct Look {
    pub source: Source,
    pub observed_at: Timestamp,
    pub duration_ms: u64,
    pub detail: Map<String, Value>,
}

impl Report {
    pub fn new(run: Run, found: &Classification) -> Report {
        let mut looks = run.looks;
        let hops = found
            .chain
            .iter()
            .map(|(hop, result)| HopRow::new(hop, result, looks.remove(&hop)));
        Report {
            schema: ReportSchema::V1,
            preflight_id: run.preflight_id,
            correlation_id: run.correlation_id,
            tool_version: run.tool_version,
            profile: run.profile,
            started_at: run.started_at,
            duration_ms: run.duration_ms,
            verdict: found.verdict,
            complete: found.complete,
            first_failed_hop: found.first_failed_hop,
            cause: found.cause.map(Cause::from),
            signals: found.signals.clone(),
            warnings: found.warnings.clone(),
            status: Status {
                node_agent: found.node_agent,
                terminal: found.terminal,
            },
            ids: run.ids,
            disk: run.disk.map(DiskFacts::from).unwrap_or_default(),
            hops: hops.collect(),
            side_checks: vec![SideRow::new("ops_access", found.ops_access)],
            limits: run.limits,
        }
    }

    /// The same document for a tenant: what tells of the machine behind the allocation is null.
    #[must_use]
    pub fn for_tenant(mut self) -> Report {
        self.ids = Ids {
            allocation_id: self.ids.allocation_id,
            correlation_id: self.ids.correlation_id,
            session_id: self.ids.session_id,
            ..Ids::default()
        };
        self.disk = DiskFacts::default();
        for row in &mut self.hops {
            row.detail = None;
        }
        self
    }
}

impl From<Fault> for Cause {
    fn from(fault: Fault) -> Cause {
        Cause {
            signal: fault.signal(),
            hop: fault.hop(),
            reason: fault.reason(),
            owner: fault.signal().owner().to_owned(),
            recovery: fault.signal().recovery().to_owned(),
        }
    }
}

impl From<Disk> for DiskFacts {
    fn from(disk: Disk) -> DiskFacts {
        DiskFacts {
            path: Some(disk.path),
            used_percent: Some(disk.used_percent),
            free_bytes: Some(disk.free_bytes),
            diagnostic_path: disk.diagnostic_path,
            writable: Some(disk.writable),
        }
    }
}

impl HopRow {
    fn new(hop: Hop, result: HopResult, look: Option<Look>) -> HopRow {
        let reason = match result {
            HopResult::Pass { .. } => None,
            HopResult::Fail(fault) => Some(fault.reason().as_str()),
            HopResult::NotEvaluated(skip) => Some(skip.as_str()),
        };
        HopRow {
            n: hop.n().to_owned(),
            hop,
            result: result.as_str().to_owned(),
            signal: result.fault().map(Fault::signal),
            reason: reason.map(str::to_owned),
            source: look.as_ref().map(|look| look.source),
            observed_at: look.as_ref().map(|look| look.observed_at),
            duration_ms: look.as_ref().map(|look| look.duration_ms),
            detail: Some(look.map(|look| look.detail).unwrap_or_default()),
        }
    }
}

impl SideRow {
    fn new(check: &str, outcome: SideCheck) -> SideRow {
        let (result, signal, reason) = match outcome {
            SideCheck::Pass => ("pass", None, None),
            SideCheck::Fail { signal, reason } => ("fail", Some(signal), Some(reason.as_str())),
            SideCheck::NotEvaluated(skip) => ("not_evaluated", None, Some(skip.as_str())),
        };
        SideRow {
            check: check.to_owned(),
            result: result.to_owned(),
            signal,
            reason: reason.map(str::to_owned),
        }
    }
}
