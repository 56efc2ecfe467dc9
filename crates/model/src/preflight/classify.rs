//! From thirteen results to one answer: the first failed hop, the cause, the verdict and the two
//! words of the dashboard. The cause is the failure that explains the others, not the first one
//! met: it is the failed signal of highest precedence, and among equals the earlier hop.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::gate::Chain;
use super::hop::Hop;
use super::result::{HopResult, Reason, Skip};
use super::signal::{Effect, Signal};
use super::status::{NodeAgent, Readiness};
use crate::signal::Code;

words! {
    Verdict {
        /// Everything that was asked for was seen, and works.
        Healthy = "healthy",
        /// Something is broken.
        Failed = "failed",
        /// Nothing was seen to be broken, but not everything could be seen.
        Inconclusive = "inconclusive",
    }
}

/// The side check's outcome; at worst a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideCheck {
    Pass,
    Fail { signal: Code, reason: Reason },
    NotEvaluated(Skip),
}

/// Works now, but should be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    pub signal: Code,
    /// None for the side check.
    pub hop: Option<Hop>,
    pub reason: Reason,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classification {
    pub chain: Chain,
    pub ops_access: SideCheck,
    pub verdict: Verdict,
    /// All thirteen hops passed.
    pub complete: bool,
    pub first_failed_hop: Option<Hop>,
    pub cause: Option<Fault>,
    /// Of failed hops, in hop order, each once.
    pub signals: Vec<Code>,
    pub warnings: Vec<Warning>,
    pub node_agent: NodeAgent,
    /// None before anything of the terminal was tried.
    pub terminal: Option<Readiness>,
}

/// Classifies a judged chain.
pub fn classify(chain: Chain, ops_access: SideCheck) -> Classification {
    let faults: Vec<Fault> = chain.iter().filter_map(|(_, result)| result.fault()).collect();
    let mut signals = Vec::new();
    for fault in &faults {
        if !signals.contains(&fault.signal()) {
            signals.push(fault.signal());
        }
    }
    Classification {
        verdict: verdict(&chain),
        complete: chain.iter().all(|(_, result)| result.passed()),
        first_failed_hop: faults.first().map(|fault| fault.hop()),
        cause: faults.iter().copied().min(),
        warnings: warnings(&chain, ops_access),
        node_agent: node_agent(&chain, &faults),
        terminal: terminal(&chain, &signals),
        signals,
        chain,
        ops_access,
    }
}

impl Classification {
    /// The sentence for the tenant, if the cause concerns them.
    pub fn tenant_text(&self) -> Option<String> {
        let cause = self.cause?;
        Signal::of(cause.signal())?.tenant.text(&cause.reason().phrase())
    }

    /// Doctor's exit status. `strict` counts warnings as failures.
    pub fn exit_status(&self, strict: bool) -> u8 {
        match self.verdict {
            Verdict::Failed => 7,
            Verdict::Healthy | Verdict::Inconclusive if strict && !self.warnings.is_empty() => 7,
            Verdict::Inconclusive => 8,
            Verdict::Healthy => 0,
        }
    }
}

fn verdict(chain: &Chain) -> Verdict {
    let unsure = |result| matches!(result, HopResult::NotEvaluated(skip) if !skip.expected());
    if chain.iter().any(|(_, result)| result.fault().is_some()) {
        Verdict::Failed
    } else if chain.iter().any(|(_, result)| unsure(result)) {
        Verdict::Inconclusive
    } else {
        Verdict::Healthy
    }
}

fn warnings(chain: &Chain, ops_access: SideCheck) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = chain
        .iter()
        .filter_map(|(_, result)| match result {
            HopResult::Pass { warning } => warning,
            HopResult::Fail(_) | HopResult::NotEvaluated(_) => None,
        })
        .map(|fault| Warning {
            signal: fault.signal(),
            hop: Some(fault.hop()),
            reason: fault.reason(),
        })
        .collect();
    if let SideCheck::Fail { signal, reason } = ops_access {
        warnings.push(Warning {
            signal,
            hop: None,
            reason,
        });
    }
    warnings
}

/// The word of the highest failed signal that has one. A node never seen is unknown, not stale:
/// there is nothing it could have stopped doing.
fn node_agent(chain: &Chain, faults: &[Fault]) -> NodeAgent {
    let mut ranked = faults.to_vec();
    ranked.sort();
    let word = ranked
        .into_iter()
        .find_map(|fault| match (Signal::of(fault.signal())?.effect, fault.reason()) {
            (Effect::NodeAgent(NodeAgent::Healthy) | Effect::Nothing | Effect::Terminal, _) => None,
            (Effect::NodeAgent(_), Reason::NeverSeen) => Some(NodeAgent::Unknown),
            (Effect::NodeAgent(word), _) => Some(word),
        });
    match word {
        Some(word) => word,
        None if chain.get(Hop::NodeHeartbeat).passed() => NodeAgent::Healthy,
        None => NodeAgent::Unknown,
    }
}

fn terminal(chain: &Chain, signals: &[Code]) -> Option<Readiness> {
    let failed = |code: &Code| Signal::of(*code).is_some_and(|row| row.effect == Effect::Terminal);
    if signals.iter().any(failed) {
        return Some(Readiness::Failed);
    }
    let furthest_first = [
        (Hop::WorkloadTerminalStartupFailure, Readiness::PtyReady),
        (Hop::GatewayNodeStream, Readiness::NodeStreamConnected),
        (Hop::TerminalOpenTask, Readiness::TerminalOpenSent),
        (Hop::BrowserTerminalWs, Readiness::BrowserWsReady),
        (Hop::TerminalToken, Readiness::TokenReady),
    ];
    let reached = furthest_first.into_iter().find(|(hop, _)| chain.get(*hop).passed());
    reached.map(|(_, word)| word)
}
