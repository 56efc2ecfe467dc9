//! Gates: a hop behind a failed one says nothing of its own, so it is not blamed. A gate closes
//! for everything behind it, also through hops that nobody asked for.

use super::hop::Hop;
use super::result::{HopResult, Skip};

const HOPS: usize = Hop::ALL.len();

/// The result at every hop, in chain order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain([HopResult; HOPS]);

impl Hop {
    /// The hops without which this one cannot work.
    pub const fn gates(self) -> &'static [Hop] {
        match self {
            Hop::TerminalToken => &[Hop::AllocationBinding],
            Hop::NodeTaskRoundtrip => &[Hop::NodeHeartbeat, Hop::NodeReadiness],
            Hop::BrowserTerminalWs => &[Hop::TerminalToken],
            Hop::TerminalOpenTask => &[Hop::NodeHeartbeat, Hop::NodeReadiness, Hop::BrowserTerminalWs],
            Hop::GatewayNodeStream => &[Hop::TerminalOpenTask],
            Hop::WorkloadTerminalStartupFailure => &[Hop::GatewayNodeStream],
            Hop::AllocationBinding
            | Hop::NodeHeartbeat
            | Hop::NodeReadiness
            | Hop::NodeRuntimeApiReachability
            | Hop::NodeRecoveryStatus
            | Hop::TerminalPublicRoute
            | Hop::NodeTerminalReachability => &[],
        }
    }
}

impl Chain {
    /// The judgement of each hop on its own.
    pub fn judged(mut judge: impl FnMut(Hop) -> HopResult) -> Chain {
        let mut results = [HopResult::NotEvaluated(Skip::NotRequested); HOPS];
        for (result, &hop) in results.iter_mut().zip(Hop::ALL) {
            *result = judge(hop);
        }
        Chain(results)
    }

    pub fn get(&self, hop: Hop) -> HopResult {
        self.0[hop as usize]
    }

    pub fn iter(&self) -> impl Iterator<Item = (Hop, HopResult)> + use<> {
        Hop::ALL.iter().copied().zip(self.0)
    }

    /// Turns what lies behind a failed gate into `upstream_failed`. A node short of disk is a
    /// gate only while its agent takes no tasks because of it.
    #[must_use]
    pub fn gated(mut self, claims_paused: bool) -> Chain {
        let mut closed = [false; HOPS];
        for &hop in Hop::ALL {
            // Gates always stand earlier in the chain, so one pass settles all of them.
            let blocked = hop.gates().iter().any(|&gate| {
                let counts = gate != Hop::NodeReadiness || claims_paused;
                counts && closed[gate as usize]
            });
            let result = &mut self.0[hop as usize];
            let unasked = matches!(result, HopResult::NotEvaluated(skip) if skip.expected());
            if blocked && !unasked {
                *result = HopResult::NotEvaluated(Skip::UpstreamFailed);
            }
            closed[hop as usize] = blocked || result.fault().is_some();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_stand_before_what_they_gate() {
        for &hop in Hop::ALL {
            assert!(hop.gates().iter().all(|&gate| gate < hop), "{hop}");
        }
    }

    #[test]
    fn a_chain_is_indexed_by_hop() {
        let chain = Chain::judged(|hop| match hop {
            Hop::TerminalToken => HopResult::PASS,
            _ => HopResult::NotEvaluated(Skip::Forbidden),
        });
        let passed: Vec<Hop> = chain
            .iter()
            .filter(|(_, result)| result.passed())
            .map(|(hop, _)| hop)
            .collect();
        assert_eq!(passed, [Hop::TerminalToken]);
        assert!(chain.get(Hop::TerminalToken).passed());
    }
}
