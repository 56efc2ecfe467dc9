//! The preflight signals in order of precedence: where each can be seen and for which reasons,
//! how it shows, what it does to the dashboard's words, and what a tenant is told. Words shared
//! with every other code (owner, meaning, recovery) stand in [`Code`]'s own table.

use super::hop::Hop;
use super::result::Reason as R;
use super::status::NodeAgent;
use crate::signal::Code;

/// One row of the table.
#[derive(Debug)]
pub struct Signal {
    pub code: Code,
    /// Hops that fail with this signal, and why.
    pub fails: &'static [(Hop, &'static [R])],
    /// Hops that pass with it as a warning.
    pub warns: &'static [(Hop, &'static [R])],
    /// Reasons of the side check `ops_access`.
    pub side: &'static [R],
    /// How it looks to the one who reports it.
    pub symptom: &'static str,
    pub effect: Effect,
    pub tenant: Tenant,
}

/// What a signal does to the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Nothing,
    NodeAgent(NodeAgent),
    /// Terminal readiness becomes `failed`.
    Terminal,
}

/// What a tenant is told, always together with the correlation id and a way to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenant {
    /// Nothing: it is not theirs, or it does not touch them.
    Nothing,
    Node,
    Token,
    Edge,
    Stream,
    Pty,
    Stuck,
}

impl Tenant {
    /// The sentence; `reason` is named where it helps the tenant.
    pub fn text(self, reason: &str) -> Option<String> {
        let text = match self {
            Tenant::Nothing => return None,
            Tenant::Node => "The machine behind this allocation does not answer the platform. Your data is untouched.",
            Tenant::Token => return Some(format!("You cannot open a terminal here: {reason}.")),
            Tenant::Edge => "The terminal service cannot be reached from your browser.",
            Tenant::Stream => "Your machine did not connect to the terminal service in time.",
            Tenant::Pty => return Some(format!("The shell could not be started: {reason}.")),
            Tenant::Stuck => "The terminal gave no answer.",
        };
        Some(text.to_owned())
    }
}

impl Signal {
    /// The row of a code, if it is a preflight signal.
    pub fn of(code: Code) -> Option<&'static Signal> {
        SIGNALS.iter().find(|row| row.code == code)
    }
}

const fn row(code: Code, symptom: &'static str, effect: Effect, tenant: Tenant) -> Signal {
    Signal {
        code,
        fails: &[],
        warns: &[],
        side: &[],
        symptom,
        effect,
        tenant,
    }
}

const fn agent(status: NodeAgent) -> Effect {
    Effect::NodeAgent(status)
}

/// Highest precedence first.
pub static SIGNALS: [Signal; 22] = [
    Signal {
        fails: &[(
            Hop::AllocationBinding,
            &[R::NotFound, R::NotActive, R::Unbound, R::OtherNode],
        )],
        ..row(
            Code::AllocationBindingFailed,
            "wrong id or state",
            Effect::Nothing,
            Tenant::Nothing,
        )
    },
    Signal {
        fails: &[(Hop::NodeReadiness, &[R::WriteFailed])],
        ..row(
            Code::DiskFull,
            "writes fail",
            agent(NodeAgent::TaskResultFailed),
            Tenant::Node,
        )
    },
    Signal {
        fails: &[(
            Hop::NodeRecoveryStatus,
            &[R::ExecFormat, R::Missing, R::AgentIncompatible],
        )],
        ..row(
            Code::NodeAgentBinaryInvalid,
            "agent cannot run",
            agent(NodeAgent::Unknown),
            Tenant::Node,
        )
    },
    Signal {
        fails: &[(
            Hop::NodeRecoveryStatus,
            &[R::NotRunning, R::CrashLoop, R::JournalCorrupt],
        )],
        ..row(
            Code::NodeAgentProcessDown,
            "process exits",
            agent(NodeAgent::Stale),
            Tenant::Node,
        )
    },
    Signal {
        fails: &[(
            Hop::NodeRuntimeApiReachability,
            &[
                R::DnsFailed,
                R::TcpTimeout,
                R::TcpRefused,
                R::NotGpuaas,
                R::EdgeRateLimited,
            ],
        )],
        ..row(
            Code::NodeAgentApiUnreachable,
            "node cannot reach the API",
            agent(NodeAgent::ApiUnreachable),
            Tenant::Node,
        )
    },
    Signal {
        fails: &[(
            Hop::NodeRuntimeApiReachability,
            &[R::ServerCertUntrusted, R::ServerCertExpired, R::ServerNameMismatch],
        )],
        ..row(
            Code::NodeAgentApiTlsFailed,
            "API TLS fails from the node",
            agent(NodeAgent::ApiUnreachable),
            Tenant::Node,
        )
    },
    Signal {
        fails: &[(
            Hop::NodeRecoveryStatus,
            &[
                R::CertExpired,
                R::CertRevoked,
                R::CertUntrusted,
                R::ClientCertNotSeen,
                R::WrongNode,
            ],
        )],
        ..row(
            Code::NodeAgentAuthFailed,
            "identity refused",
            agent(NodeAgent::AuthFailed),
            Tenant::Node,
        )
    },
    Signal {
        fails: &[(Hop::NodeTaskRoundtrip, CLAIM), (Hop::TerminalOpenTask, CLAIM)],
        ..row(
            Code::NodeTaskClaimFailed,
            "node polls, claims nothing",
            agent(NodeAgent::TaskResultFailed),
            Tenant::Node,
        )
    },
    Signal {
        // The workload goes on: a tenant is not told of a result that is only late.
        fails: &[(Hop::NodeTaskRoundtrip, &[R::NoResult, R::ResultRejected])],
        ..row(
            Code::NodeTaskResultPostFailed,
            "result does not land",
            agent(NodeAgent::TaskResultFailed),
            Tenant::Nothing,
        )
    },
    Signal {
        fails: &[(Hop::NodeHeartbeat, &[R::Silent, R::NeverSeen])],
        ..row(
            Code::NodeAgentHeartbeatStale,
            "node silent",
            agent(NodeAgent::Stale),
            Tenant::Node,
        )
    },
    Signal {
        fails: &[(
            Hop::TerminalToken,
            &[
                R::Unauthenticated,
                R::Forbidden,
                R::AllocationNotActive,
                R::SessionStoreUnavailable,
            ],
        )],
        ..row(
            Code::TerminalTokenMintFailed,
            "no token",
            Effect::Terminal,
            Tenant::Token,
        )
    },
    Signal {
        fails: &[(
            Hop::TerminalPublicRoute,
            &[R::DnsFailed, R::ConnectFailed, R::HttpStatus, R::NotGpuaas],
        )],
        ..row(
            Code::TerminalPublicRouteMissing,
            "route error",
            Effect::Terminal,
            Tenant::Edge,
        )
    },
    Signal {
        fails: &[(
            Hop::BrowserTerminalWs,
            &[
                R::UpgradeStripped,
                R::SubprotocolMissing,
                R::SessionStoreUnavailable,
                R::TokenRefused,
                R::NoAnswer,
            ],
        )],
        ..row(
            Code::TerminalGatewayUpgradeFailed,
            "upgrade fails",
            Effect::Terminal,
            Tenant::Edge,
        )
    },
    Signal {
        fails: &[(Hop::NodeTerminalReachability, &[R::UrlMismatch])],
        warns: &[(Hop::NodeTerminalReachability, &[R::UrlMismatch])],
        ..row(
            Code::TerminalEnvProfileDrift,
            "works elsewhere, not here",
            Effect::Terminal,
            Tenant::Stream,
        )
    },
    Signal {
        fails: &[
            (Hop::NodeTerminalReachability, &[R::ServerCertUntrusted]),
            (
                Hop::GatewayNodeStream,
                &[
                    R::ClientCertUntrusted,
                    R::ClientCertExpired,
                    R::ClientCertRevoked,
                    R::WrongNode,
                ],
            ),
        ],
        ..row(
            Code::TerminalNodeStreamMtlsFailed,
            "stream TLS refused",
            Effect::Terminal,
            Tenant::Stream,
        )
    },
    Signal {
        fails: &[(Hop::GatewayNodeStream, &[R::TaskSucceeded])],
        ..row(
            Code::TerminalOpenWithoutStream,
            "task done, no stream",
            Effect::Terminal,
            Tenant::Stream,
        )
    },
    Signal {
        fails: &[
            (
                Hop::NodeTerminalReachability,
                &[R::DnsFailed, R::TcpTimeout, R::TcpRefused],
            ),
            (Hop::GatewayNodeStream, &[R::NoStream, R::StreamLate]),
        ],
        ..row(
            Code::TerminalNodeStreamTimeout,
            "gateway closes with node_stream_timeout",
            Effect::Terminal,
            Tenant::Stream,
        )
    },
    Signal {
        fails: &[(
            Hop::WorkloadTerminalStartupFailure,
            &[R::UserMissing, R::ShellFailed, R::PtyDenied, R::PtyTimeout],
        )],
        ..row(
            Code::TerminalPtyFailed,
            "stream up, no shell",
            Effect::Terminal,
            Tenant::Pty,
        )
    },
    Signal {
        fails: &[(Hop::WorkloadTerminalStartupFailure, &[R::NoFrame, R::NotRendered])],
        ..row(
            Code::TerminalUiConnectingStuck,
            "\"Connecting...\" for ever",
            Effect::Terminal,
            Tenant::Stuck,
        )
    },
    Signal {
        fails: &[(Hop::NodeReadiness, &[R::FreeBytes])],
        warns: &[(Hop::NodeReadiness, &[R::UsedPercent])],
        ..row(
            Code::NodeObservabilityDiskPressure,
            "low or filling, writes work",
            agent(NodeAgent::Healthy),
            Tenant::Nothing,
        )
    },
    Signal {
        side: &[R::Connect, R::Auth],
        ..row(
            Code::NodeOpsSshFailed,
            "SSH fails, agent polls",
            Effect::Nothing,
            Tenant::Nothing,
        )
    },
    Signal {
        side: &[R::ResetBeforeBanner, R::GuestAgentDown],
        ..row(
            Code::NodeOpsAccessUnhealthy,
            "SSH resets, agent polls",
            Effect::Nothing,
            Tenant::Nothing,
        )
    },
];

/// Why a node does not take a task, whichever task it is.
const CLAIM: &[R] = &[
    R::NotClaimed,
    R::SignatureRefused,
    R::NodeLacksTaskType,
    R::ClockSkew,
    R::NodeQuarantined,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_head_of_the_codes_in_the_same_order() {
        let rows: Vec<Code> = SIGNALS.iter().map(|row| row.code).collect();
        assert_eq!(rows, Code::ALL[..22], "precedence is the order of both");
    }

    #[test]
    fn every_reason_of_the_vocabulary_stands_in_the_table() {
        for reason in R::ALL {
            let used = SIGNALS.iter().any(|row| {
                let hops = row.fails.iter().chain(row.warns);
                hops.flat_map(|(_, reasons)| *reasons)
                    .chain(row.side)
                    .any(|r| r == reason)
            });
            assert!(used, "{reason} stands in no row");
        }
    }

    #[test]
    fn a_tenant_is_told_the_reason_where_it_helps() {
        let told = |code| Signal::of(code).and_then(|row| row.tenant.text("user missing"));
        assert_eq!(
            told(Code::TerminalPtyFailed).as_deref(),
            Some("The shell could not be started: user missing.")
        );
        assert_eq!(told(Code::NodeOpsSshFailed), None);
        assert_eq!(told(Code::Internal), None);
    }
}
