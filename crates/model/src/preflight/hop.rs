//! The chain from an allocation to a running shell, in the order in which it is reported. All
//! hops are judged that can be: stopping at the first failed one would call every node fault a
//! stale heartbeat.

words! {
    /// One link of the chain.
    Hop {
        /// The allocation is active and bound to the node.
        AllocationBinding = "allocation_binding",
        /// The node has lately made an authenticated request.
        NodeHeartbeat = "node_heartbeat",
        /// The node has room and can write.
        NodeReadiness = "node_readiness",
        /// From the node, the API answers as itself: names, connection, server certificate.
        NodeRuntimeApiReachability = "node_runtime_api_reachability",
        /// The agent runs, its build fits, its certificate is accepted.
        NodeRecoveryStatus = "node_recovery_status",
        /// A health probe goes to the node and its result comes back.
        NodeTaskRoundtrip = "node_task_roundtrip",
        /// A terminal token is issued.
        TerminalToken = "terminal_token",
        /// The terminal service answers as itself at its public address.
        TerminalPublicRoute = "terminal_public_route",
        /// The browser's WebSocket opens.
        BrowserTerminalWs = "browser_terminal_ws",
        /// The node takes this session's `terminal.open`. Delivery only: its outcome is judged later.
        TerminalOpenTask = "terminal_open_task",
        /// From the node, the terminal gateway's node listener can be reached.
        NodeTerminalReachability = "node_terminal_reachability",
        /// The node's stream for this session arrives, with the bound node's certificate.
        GatewayNodeStream = "gateway_node_stream",
        /// The shell starts and says so.
        WorkloadTerminalStartupFailure = "workload_terminal_startup_failure",
    }
}

/// Who can look at a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    ControlPlane,
    /// Evidence that the agent's own code made on the node.
    Node,
    /// The machine on which doctor runs.
    Doctor,
    /// The gateway's record of the session.
    Gateway,
}

impl Hop {
    /// The number in tables; 4 and 7 are two hops each.
    pub const fn n(self) -> &'static str {
        match self {
            Hop::AllocationBinding => "1",
            Hop::NodeHeartbeat => "2",
            Hop::NodeReadiness => "3",
            Hop::NodeRuntimeApiReachability => "4a",
            Hop::NodeRecoveryStatus => "4b",
            Hop::NodeTaskRoundtrip => "5",
            Hop::TerminalToken => "6",
            Hop::TerminalPublicRoute => "7a",
            Hop::BrowserTerminalWs => "7b",
            Hop::TerminalOpenTask => "8",
            Hop::NodeTerminalReachability => "9",
            Hop::GatewayNodeStream => "10",
            Hop::WorkloadTerminalStartupFailure => "11",
        }
    }

    /// Where its evidence comes from.
    pub const fn places(self) -> &'static [Place] {
        match self {
            Hop::AllocationBinding
            | Hop::NodeHeartbeat
            | Hop::NodeTaskRoundtrip
            | Hop::TerminalToken
            | Hop::TerminalOpenTask => &[Place::ControlPlane],
            Hop::NodeReadiness | Hop::NodeRuntimeApiReachability | Hop::NodeTerminalReachability => &[Place::Node],
            Hop::NodeRecoveryStatus => &[Place::ControlPlane, Place::Node],
            Hop::TerminalPublicRoute | Hop::BrowserTerminalWs => &[Place::Doctor],
            Hop::GatewayNodeStream => &[Place::Gateway],
            Hop::WorkloadTerminalStartupFailure => &[Place::Doctor, Place::Gateway],
        }
    }

    /// How long looking at it may take.
    pub const fn limit_s(self) -> u32 {
        match self {
            Hop::AllocationBinding | Hop::NodeHeartbeat => 2,
            Hop::NodeReadiness | Hop::TerminalToken => 3,
            Hop::TerminalPublicRoute | Hop::BrowserTerminalWs | Hop::TerminalOpenTask => 5,
            Hop::NodeRuntimeApiReachability | Hop::NodeRecoveryStatus | Hop::NodeTerminalReachability => 10,
            Hop::WorkloadTerminalStartupFailure => 12,
            Hop::NodeTaskRoundtrip | Hop::GatewayNodeStream => 15,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirteen_hops_in_eleven_steps() {
        let numbers: Vec<_> = Hop::ALL.iter().map(|hop| hop.n()).collect();
        assert_eq!(
            numbers.join(" "),
            "1 2 3 4a 4b 5 6 7a 7b 8 9 10 11",
            "the order of the enum is the order of the report"
        );
    }
}
