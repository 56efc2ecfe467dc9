//! From what was seen to pass, fail or not evaluated: one short function per hop, each a match
//! without a default arm, so that a new observation has to be judged before it compiles.

use super::classify::SideCheck;
use super::fault::Fault;
use super::gate::Chain;
use super::hop::Hop;
use super::limits::Limits;
use super::observation::{
    ApiDial, Auth, Binding, Build, Delivery, Dial, Disk, Heartbeat, Mint, Observations, OpsAccess, Process,
    PublicRoute, Recovery, Roundtrip, Seen, Startup, Stream, TerminalDial, Upgrade,
};
use super::result::{HopResult, Reason, Skip};
use crate::signal::Code;

/// Judges every hop, then closes the gates behind failed ones.
pub fn judge(seen: &Observations, limits: &Limits) -> Chain {
    let claims_paused = matches!(&seen.disk, Seen::Seen(disk) if disk.claims_paused);
    Chain::judged(|hop| match hop {
        Hop::AllocationBinding => each(&seen.binding, |&it| binding(it)),
        Hop::NodeHeartbeat => each(&seen.heartbeat, |&it| heartbeat(it, limits)),
        Hop::NodeReadiness => each(&seen.disk, |it| disk(it, limits)),
        Hop::NodeRuntimeApiReachability => each(&seen.api, |&it| api(it)),
        Hop::NodeRecoveryStatus => recovery(&seen.recovery),
        Hop::NodeTaskRoundtrip => each(&seen.roundtrip, |&it| roundtrip(it)),
        Hop::TerminalToken => each(&seen.mint, |&it| mint(it)),
        Hop::TerminalPublicRoute => each(&seen.public_route, |&it| public_route(it)),
        Hop::BrowserTerminalWs => each(&seen.upgrade, |&it| upgrade(it)),
        Hop::TerminalOpenTask => each(&seen.delivery, |&it| delivery(it)),
        Hop::NodeTerminalReachability => each(&seen.terminal, |&it| terminal(it)),
        Hop::GatewayNodeStream => each(&seen.stream, |&it| stream(it)),
        Hop::WorkloadTerminalStartupFailure => each(&seen.startup, |&it| startup(it)),
    })
    .gated(claims_paused)
}

fn each<T>(seen: &Seen<T>, judge: impl FnOnce(&T) -> HopResult) -> HopResult {
    match seen {
        Seen::Seen(it) => judge(it),
        Seen::Not(skip) => HopResult::NotEvaluated(*skip),
    }
}

const fn fail(hop: Hop, signal: Code, reason: Reason) -> HopResult {
    HopResult::Fail(Fault::judged(hop, signal, reason))
}

const fn warn(hop: Hop, signal: Code, reason: Reason) -> HopResult {
    HopResult::Pass {
        warning: Some(Fault::judged(hop, signal, reason)),
    }
}

fn binding(it: Binding) -> HopResult {
    let fail = |reason| fail(Hop::AllocationBinding, Code::AllocationBindingFailed, reason);
    match it {
        Binding::Bound => HopResult::PASS,
        Binding::NotFound => fail(Reason::NotFound),
        Binding::NotActive => fail(Reason::NotActive),
        Binding::Unbound => fail(Reason::Unbound),
        Binding::OtherNode => fail(Reason::OtherNode),
    }
}

fn heartbeat(it: Heartbeat, limits: &Limits) -> HopResult {
    let fail = |reason| fail(Hop::NodeHeartbeat, Code::NodeAgentHeartbeatStale, reason);
    match it {
        Heartbeat::NeverSeen => fail(Reason::NeverSeen),
        Heartbeat::AgeSeconds(age) if age > u64::from(limits.heartbeat_stale_seconds) => fail(Reason::Silent),
        Heartbeat::AgeSeconds(_) => HopResult::PASS,
    }
}

fn disk(it: &Disk, limits: &Limits) -> HopResult {
    let hop = Hop::NodeReadiness;
    if !it.writable {
        fail(hop, Code::DiskFull, Reason::WriteFailed)
    } else if it.free_bytes < limits.disk_free_bytes {
        fail(hop, Code::NodeObservabilityDiskPressure, Reason::FreeBytes)
    } else if it.used_percent >= limits.disk_used_percent {
        warn(hop, Code::NodeObservabilityDiskPressure, Reason::UsedPercent)
    } else {
        HopResult::PASS
    }
}

fn api(it: ApiDial) -> HopResult {
    let hop = Hop::NodeRuntimeApiReachability;
    let unreachable = |reason| fail(hop, Code::NodeAgentApiUnreachable, reason);
    let tls = |reason| fail(hop, Code::NodeAgentApiTlsFailed, reason);
    match it {
        ApiDial::Answered => HopResult::PASS,
        ApiDial::NotGpuaas => unreachable(Reason::NotGpuaas),
        ApiDial::EdgeRateLimited => unreachable(Reason::EdgeRateLimited),
        ApiDial::DnsFailed => unreachable(Reason::DnsFailed),
        ApiDial::TcpTimeout => unreachable(Reason::TcpTimeout),
        ApiDial::TcpRefused => unreachable(Reason::TcpRefused),
        ApiDial::ServerCertUntrusted => tls(Reason::ServerCertUntrusted),
        ApiDial::ServerCertExpired => tls(Reason::ServerCertExpired),
        ApiDial::ServerNameMismatch => tls(Reason::ServerNameMismatch),
    }
}

/// The three parts are judged apart; of several failures the one that explains the others wins,
/// and one failure seen outweighs two parts unseen.
fn recovery(it: &Recovery) -> HopResult {
    let parts = [
        each(&it.process, |&it| process(it)),
        each(&it.build, |&it| build(it)),
        each(&it.auth, |&it| auth(it)),
    ];
    if let Some(fault) = parts.iter().filter_map(|part| part.fault()).min() {
        return HopResult::Fail(fault);
    }
    let unseen = parts.into_iter().find(|part| !part.passed());
    unseen.unwrap_or(HopResult::PASS)
}

fn process(it: Process) -> HopResult {
    let hop = Hop::NodeRecoveryStatus;
    let down = |reason| fail(hop, Code::NodeAgentProcessDown, reason);
    let invalid = |reason| fail(hop, Code::NodeAgentBinaryInvalid, reason);
    match it {
        Process::Running => HopResult::PASS,
        Process::NotRunning => down(Reason::NotRunning),
        Process::CrashLoop => down(Reason::CrashLoop),
        Process::JournalCorrupt => down(Reason::JournalCorrupt),
        Process::ExecFormat => invalid(Reason::ExecFormat),
        Process::Missing => invalid(Reason::Missing),
    }
}

fn build(it: Build) -> HopResult {
    match it {
        Build::Compatible => HopResult::PASS,
        Build::Incompatible => fail(
            Hop::NodeRecoveryStatus,
            Code::NodeAgentBinaryInvalid,
            Reason::AgentIncompatible,
        ),
    }
}

fn auth(it: Auth) -> HopResult {
    let fail = |reason| fail(Hop::NodeRecoveryStatus, Code::NodeAgentAuthFailed, reason);
    match it {
        Auth::Accepted => HopResult::PASS,
        Auth::CertExpired => fail(Reason::CertExpired),
        Auth::CertRevoked => fail(Reason::CertRevoked),
        Auth::CertUntrusted => fail(Reason::CertUntrusted),
        Auth::ClientCertNotSeen => fail(Reason::ClientCertNotSeen),
        Auth::WrongNode => fail(Reason::WrongNode),
    }
}

fn roundtrip(it: Roundtrip) -> HopResult {
    let hop = Hop::NodeTaskRoundtrip;
    let claim = |reason| fail(hop, Code::NodeTaskClaimFailed, reason);
    let post = |reason| fail(hop, Code::NodeTaskResultPostFailed, reason);
    match it {
        Roundtrip::ResultAccepted => HopResult::PASS,
        Roundtrip::NotClaimed => claim(Reason::NotClaimed),
        Roundtrip::SignatureRefused => claim(Reason::SignatureRefused),
        Roundtrip::NodeLacksTaskType => claim(Reason::NodeLacksTaskType),
        Roundtrip::ClockSkew => claim(Reason::ClockSkew),
        Roundtrip::NodeQuarantined => claim(Reason::NodeQuarantined),
        Roundtrip::NoResult => post(Reason::NoResult),
        Roundtrip::ResultRejected => post(Reason::ResultRejected),
    }
}

fn mint(it: Mint) -> HopResult {
    let fail = |reason| fail(Hop::TerminalToken, Code::TerminalTokenMintFailed, reason);
    match it {
        Mint::Minted => HopResult::PASS,
        Mint::Unauthenticated => fail(Reason::Unauthenticated),
        Mint::Forbidden => fail(Reason::Forbidden),
        Mint::AllocationNotActive => fail(Reason::AllocationNotActive),
        Mint::SessionStoreUnavailable => fail(Reason::SessionStoreUnavailable),
    }
}

fn public_route(it: PublicRoute) -> HopResult {
    let fail = |reason| fail(Hop::TerminalPublicRoute, Code::TerminalPublicRouteMissing, reason);
    match it {
        PublicRoute::Answered => HopResult::PASS,
        PublicRoute::DnsFailed => fail(Reason::DnsFailed),
        PublicRoute::ConnectFailed => fail(Reason::ConnectFailed),
        PublicRoute::HttpStatus => fail(Reason::HttpStatus),
        PublicRoute::NotGpuaas => fail(Reason::NotGpuaas),
    }
}

fn upgrade(it: Upgrade) -> HopResult {
    let fail = |reason| fail(Hop::BrowserTerminalWs, Code::TerminalGatewayUpgradeFailed, reason);
    match it {
        Upgrade::Upgraded => HopResult::PASS,
        Upgrade::EdgeLogin => HopResult::NotEvaluated(Skip::EdgeAuthRequired),
        Upgrade::UpgradeStripped => fail(Reason::UpgradeStripped),
        Upgrade::SubprotocolMissing => fail(Reason::SubprotocolMissing),
        Upgrade::SessionStoreUnavailable => fail(Reason::SessionStoreUnavailable),
        Upgrade::TokenRefused => fail(Reason::TokenRefused),
        Upgrade::NoAnswer => fail(Reason::NoAnswer),
    }
}

fn delivery(it: Delivery) -> HopResult {
    let fail = |reason| fail(Hop::TerminalOpenTask, Code::NodeTaskClaimFailed, reason);
    match it {
        Delivery::Delivered => HopResult::PASS,
        Delivery::NotClaimed => fail(Reason::NotClaimed),
        Delivery::SignatureRefused => fail(Reason::SignatureRefused),
        Delivery::NodeLacksTaskType => fail(Reason::NodeLacksTaskType),
        Delivery::ClockSkew => fail(Reason::ClockSkew),
        Delivery::NodeQuarantined => fail(Reason::NodeQuarantined),
    }
}

/// A wrong URL that fails is drift, whatever the dial met there; one that works is a warning.
fn terminal(it: TerminalDial) -> HopResult {
    let hop = Hop::NodeTerminalReachability;
    let timeout = |reason| fail(hop, Code::TerminalNodeStreamTimeout, reason);
    match (it.dial, it.url_as_in_profile) {
        (Dial::Connected, true) => HopResult::PASS,
        (Dial::Connected, false) => warn(hop, Code::TerminalEnvProfileDrift, Reason::UrlMismatch),
        (_, false) => fail(hop, Code::TerminalEnvProfileDrift, Reason::UrlMismatch),
        (Dial::DnsFailed, true) => timeout(Reason::DnsFailed),
        (Dial::TcpTimeout, true) => timeout(Reason::TcpTimeout),
        (Dial::TcpRefused, true) => timeout(Reason::TcpRefused),
        // One reason for all three: at this hop the remedy is the same.
        (Dial::ServerCertUntrusted | Dial::ServerCertExpired | Dial::ServerNameMismatch, true) => {
            fail(hop, Code::TerminalNodeStreamMtlsFailed, Reason::ServerCertUntrusted)
        }
    }
}

fn stream(it: Stream) -> HopResult {
    let hop = Hop::GatewayNodeStream;
    let mtls = |reason| fail(hop, Code::TerminalNodeStreamMtlsFailed, reason);
    let timeout = |reason| fail(hop, Code::TerminalNodeStreamTimeout, reason);
    match it {
        Stream::Connected => HopResult::PASS,
        Stream::ClientCertUntrusted => mtls(Reason::ClientCertUntrusted),
        Stream::ClientCertExpired => mtls(Reason::ClientCertExpired),
        Stream::ClientCertRevoked => mtls(Reason::ClientCertRevoked),
        Stream::WrongNode => mtls(Reason::WrongNode),
        Stream::TaskSucceeded => fail(hop, Code::TerminalOpenWithoutStream, Reason::TaskSucceeded),
        Stream::NoStream => timeout(Reason::NoStream),
        Stream::StreamLate => timeout(Reason::StreamLate),
    }
}

fn startup(it: Startup) -> HopResult {
    let hop = Hop::WorkloadTerminalStartupFailure;
    let pty = |reason| fail(hop, Code::TerminalPtyFailed, reason);
    let stuck = |reason| fail(hop, Code::TerminalUiConnectingStuck, reason);
    match it {
        Startup::Ready => HopResult::PASS,
        Startup::UserMissing => pty(Reason::UserMissing),
        Startup::ShellFailed => pty(Reason::ShellFailed),
        Startup::PtyDenied => pty(Reason::PtyDenied),
        Startup::PtyTimeout => pty(Reason::PtyTimeout),
        Startup::NoFrame => stuck(Reason::NoFrame),
        Startup::NotRendered => stuck(Reason::NotRendered),
    }
}

/// Judges the side check. It warns and never fails a preflight: an operator's login says nothing
/// about the agent.
pub fn judge_ops_access(seen: Seen<OpsAccess>) -> SideCheck {
    let warn = |signal, reason| SideCheck::Fail { signal, reason };
    match seen {
        Seen::Not(skip) => SideCheck::NotEvaluated(skip),
        Seen::Seen(OpsAccess::Works) => SideCheck::Pass,
        Seen::Seen(OpsAccess::Connect) => warn(Code::NodeOpsSshFailed, Reason::Connect),
        Seen::Seen(OpsAccess::Auth) => warn(Code::NodeOpsSshFailed, Reason::Auth),
        Seen::Seen(OpsAccess::ResetBeforeBanner) => warn(Code::NodeOpsAccessUnhealthy, Reason::ResetBeforeBanner),
        Seen::Seen(OpsAccess::GuestAgentDown) => warn(Code::NodeOpsAccessUnhealthy, Reason::GuestAgentDown),
    }
}
