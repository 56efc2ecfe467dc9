//! Every row of the chaos table as observations: what the faults make visible at each hop, and
//! which hop must be named first and which as the cause.

use super::*;

/// Name, fault, first failed hop, cause, what the tenant is told.
type Row = (&'static str, Inject, &'static str, (&'static str, Code, Reason), Tenant);

fn silent(seen: &mut Observations) {
    seen.heartbeat = Seen::Seen(Heartbeat::AgeSeconds(51));
    // What the task queue shows then; the gate hides it.
    seen.roundtrip = Seen::Seen(Roundtrip::NotClaimed);
    seen.delivery = Seen::Seen(Delivery::NotClaimed);
}

fn no_node_evidence(seen: &mut Observations) {
    seen.disk = Seen::Not(Skip::StaleEvidence);
    seen.api = Seen::Not(Skip::StaleEvidence);
    seen.recovery.process = Seen::Not(Skip::NoNodeAccess);
    seen.terminal = Seen::Not(Skip::StaleEvidence);
}

fn api(seen: &mut Observations, dial: ApiDial) {
    silent(seen);
    seen.api = Seen::Seen(dial);
    // No answer, so nothing was decided about the certificate.
    seen.recovery.auth = Seen::Not(Skip::StaleEvidence);
}

fn auth(seen: &mut Observations, auth: Auth) {
    silent(seen);
    seen.recovery.auth = Seen::Seen(auth);
}

fn short_of_disk(seen: &mut Observations, writable: bool) {
    seen.disk = Seen::Seen(Disk {
        writable,
        claims_paused: true,
        ..disk(99, 1 << 20)
    });
    seen.roundtrip = Seen::Seen(Roundtrip::NotClaimed);
}

fn terminal(seen: &mut Observations, dial: Dial, url_as_in_profile: bool) {
    seen.terminal = Seen::Seen(TerminalDial {
        dial,
        url_as_in_profile,
    });
    seen.stream = Seen::Seen(Stream::NoStream);
    seen.startup = Seen::Seen(Startup::NoFrame);
}

fn stream(seen: &mut Observations, stream: Stream) {
    seen.stream = Seen::Seen(stream);
    seen.startup = Seen::Seen(Startup::NoFrame);
}

fn process(seen: &mut Observations, process: Process) {
    silent(seen);
    no_node_evidence(seen);
    seen.recovery.process = Seen::Seen(process);
}

const ROWS: &[Row] = &[
    (
        "1a agent killed, no evidence",
        |s| {
            silent(s);
            no_node_evidence(s);
        },
        "2",
        ("2", Code::NodeAgentHeartbeatStale, Reason::Silent),
        Tenant::Node,
    ),
    (
        "1b agent killed, with evidence",
        |s| {
            silent(s);
            s.recovery.process = Seen::Seen(Process::NotRunning);
        },
        "2",
        ("4b", Code::NodeAgentProcessDown, Reason::NotRunning),
        Tenant::Node,
    ),
    (
        "2a way to the API dropped",
        |s| api(s, ApiDial::TcpTimeout),
        "2",
        ("4a", Code::NodeAgentApiUnreachable, Reason::TcpTimeout),
        Tenant::Node,
    ),
    (
        "2b no resolve entry",
        |s| api(s, ApiDial::DnsFailed),
        "2",
        ("4a", Code::NodeAgentApiUnreachable, Reason::DnsFailed),
        Tenant::Node,
    ),
    (
        "3a expired certificate",
        |s| auth(s, Auth::CertExpired),
        "2",
        ("4b", Code::NodeAgentAuthFailed, Reason::CertExpired),
        Tenant::Node,
    ),
    (
        "3b URL of a TLS-ending edge",
        |s| auth(s, Auth::ClientCertNotSeen),
        "2",
        ("4b", Code::NodeAgentAuthFailed, Reason::ClientCertNotSeen),
        Tenant::Node,
    ),
    (
        "4a state file system full",
        |s| short_of_disk(s, false),
        "3",
        ("3", Code::DiskFull, Reason::WriteFailed),
        Tenant::Node,
    ),
    (
        "4b little free, writes work",
        |s| short_of_disk(s, true),
        "3",
        ("3", Code::NodeObservabilityDiskPressure, Reason::FreeBytes),
        Tenant::Nothing,
    ),
    (
        "5 result reset after the claim",
        |s| s.roundtrip = Seen::Seen(Roundtrip::NoResult),
        "5",
        ("5", Code::NodeTaskResultPostFailed, Reason::NoResult),
        Tenant::Nothing,
    ),
    (
        "6 edge answers 404",
        |s| {
            s.public_route = Seen::Seen(PublicRoute::answered(404, None));
            s.upgrade = Seen::Seen(Upgrade::NoAnswer);
        },
        "7a",
        ("7a", Code::TerminalPublicRouteMissing, Reason::HttpStatus),
        Tenant::Edge,
    ),
    (
        "7a Upgrade stripped",
        |s| s.upgrade = Seen::Seen(Upgrade::UpgradeStripped),
        "7b",
        ("7b", Code::TerminalGatewayUpgradeFailed, Reason::UpgradeStripped),
        Tenant::Edge,
    ),
    (
        "7b subprotocol stripped",
        |s| s.upgrade = Seen::Seen(Upgrade::SubprotocolMissing),
        "7b",
        ("7b", Code::TerminalGatewayUpgradeFailed, Reason::SubprotocolMissing),
        Tenant::Edge,
    ),
    (
        "7c gateway cut from its store",
        |s| s.upgrade = Seen::Seen(Upgrade::SessionStoreUnavailable),
        "7b",
        (
            "7b",
            Code::TerminalGatewayUpgradeFailed,
            Reason::SessionStoreUnavailable,
        ),
        Tenant::Edge,
    ),
    (
        "7d store down for the API too",
        |s| {
            s.mint = Seen::Seen(Mint::SessionStoreUnavailable);
            s.upgrade = Seen::Seen(Upgrade::SessionStoreUnavailable);
        },
        "6",
        ("6", Code::TerminalTokenMintFailed, Reason::SessionStoreUnavailable),
        Tenant::Token,
    ),
    (
        "8a way to the gateway dropped",
        |s| terminal(s, Dial::TcpTimeout, true),
        "9",
        ("9", Code::TerminalNodeStreamTimeout, Reason::TcpTimeout),
        Tenant::Stream,
    ),
    (
        "8b no resolve entry",
        |s| terminal(s, Dial::DnsFailed, true),
        "9",
        ("9", Code::TerminalNodeStreamTimeout, Reason::DnsFailed),
        Tenant::Stream,
    ),
    (
        "9 gateway trusts another CA",
        |s| stream(s, Stream::ClientCertUntrusted),
        "10",
        ("10", Code::TerminalNodeStreamMtlsFailed, Reason::ClientCertUntrusted),
        Tenant::Stream,
    ),
    (
        "10a OS user deleted",
        |s| s.startup = Seen::Seen(Startup::UserMissing),
        "11",
        ("11", Code::TerminalPtyFailed, Reason::UserMissing),
        Tenant::Pty,
    ),
    (
        "10b shell exits",
        |s| s.startup = Seen::Seen(Startup::ShellFailed),
        "11",
        ("11", Code::TerminalPtyFailed, Reason::ShellFailed),
        Tenant::Pty,
    ),
    (
        "11a PTY delayed",
        |s| s.startup = Seen::Seen(Startup::PtyTimeout),
        "11",
        ("11", Code::TerminalPtyFailed, Reason::PtyTimeout),
        Tenant::Pty,
    ),
    (
        "11b slow flights",
        |s| stream(s, Stream::StreamLate),
        "10",
        ("10", Code::TerminalNodeStreamTimeout, Reason::StreamLate),
        Tenant::Stream,
    ),
    (
        "12 stale CA bundle",
        |s| {
            api(s, ApiDial::ServerCertUntrusted);
            terminal(s, Dial::ServerCertUntrusted, true);
        },
        "2",
        ("4a", Code::NodeAgentApiTlsFailed, Reason::ServerCertUntrusted),
        Tenant::Node,
    ),
    (
        "13a incompatible protocol version",
        |s| {
            s.recovery.build = Seen::Seen(Build::Incompatible);
            s.roundtrip = Seen::Seen(Roundtrip::NotClaimed);
        },
        "4b",
        ("4b", Code::NodeAgentBinaryInvalid, Reason::AgentIncompatible),
        Tenant::Node,
    ),
    (
        "13b wrong architecture",
        |s| process(s, Process::ExecFormat),
        "2",
        ("4b", Code::NodeAgentBinaryInvalid, Reason::ExecFormat),
        Tenant::Node,
    ),
    (
        "13b no binary",
        |s| process(s, Process::Missing),
        "2",
        ("4b", Code::NodeAgentBinaryInvalid, Reason::Missing),
        Tenant::Node,
    ),
    (
        "13c task types not built in",
        |s| {
            s.roundtrip = Seen::Seen(Roundtrip::NodeLacksTaskType);
            s.delivery = Seen::Seen(Delivery::NodeLacksTaskType);
        },
        "5",
        ("5", Code::NodeTaskClaimFailed, Reason::NodeLacksTaskType),
        Tenant::Node,
    ),
    (
        "15 wrong terminal port",
        |s| terminal(s, Dial::TcpRefused, false),
        "9",
        ("9", Code::TerminalEnvProfileDrift, Reason::UrlMismatch),
        Tenant::Stream,
    ),
];

#[test]
fn every_fault_is_found_at_its_hop_and_blamed_on_its_cause() {
    for &(name, inject, first, expected, tenant) in ROWS {
        let mut seen = healthy();
        inject(&mut seen);
        let found = found(&seen);
        assert_eq!(found.first_failed_hop.map(Hop::n), Some(first), "{name}");
        assert_eq!(cause(&found), Some(expected), "{name}");
        assert_eq!(found.verdict, Verdict::Failed, "{name}");
        assert_eq!(found.exit_status(false), 7, "{name}");
        assert!(!found.complete, "{name}");
        let reason = expected.2.phrase();
        assert_eq!(found.tenant_text(), tenant.text(&reason), "{name}");
    }
}

#[test]
fn no_fault_is_ever_called_stuck() {
    for &(name, inject, ..) in ROWS {
        let mut seen = healthy();
        inject(&mut seen);
        let signals = found(&seen).signals;
        assert!(!signals.contains(&Code::TerminalUiConnectingStuck), "{name}");
    }
}

#[test]
fn row_4c_a_filling_disk_only_warns() {
    let mut seen = healthy();
    seen.disk = Seen::Seen(disk(91, 256 * 1024 * 1024));
    let found = found(&seen);
    assert_eq!((found.verdict, found.complete), (Verdict::Healthy, true));
    let warning = Warning {
        signal: Code::NodeObservabilityDiskPressure,
        hop: Some(Hop::NodeReadiness),
        reason: Reason::UsedPercent,
    };
    assert_eq!(found.warnings, [warning]);
    assert_eq!((found.exit_status(false), found.exit_status(true)), (0, 7));
    assert_eq!(found.tenant_text(), None);
}

#[test]
fn row_14_rotation_shows_nothing() {
    let found = found(&healthy());
    assert_eq!(
        (found.verdict, found.complete, cause(&found)),
        (Verdict::Healthy, true, None)
    );
    assert_eq!(found.exit_status(true), 0);
}
