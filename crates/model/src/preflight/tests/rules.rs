//! Ties, gates, verdicts and the dashboard's words, one rule at a time.

use super::*;

fn with(change: impl FnOnce(&mut Observations)) -> Classification {
    let mut seen = healthy();
    change(&mut seen);
    found(&seen)
}

#[test]
fn of_equal_signals_the_earlier_hop_is_the_cause() {
    let found = with(|s| {
        s.roundtrip = Seen::Seen(Roundtrip::ClockSkew);
        s.delivery = Seen::Seen(Delivery::NodeQuarantined);
    });
    assert_eq!(cause(&found), Some(("5", Code::NodeTaskClaimFailed, Reason::ClockSkew)));
    assert_eq!(found.signals, [Code::NodeTaskClaimFailed], "each signal once");
}

#[test]
fn a_higher_signal_wins_from_a_later_hop() {
    let found = with(|s| {
        s.heartbeat = Seen::Seen(Heartbeat::NeverSeen);
        s.api = Seen::Seen(ApiDial::EdgeRateLimited);
        s.recovery.auth = Seen::Seen(Auth::WrongNode);
    });
    assert_eq!(found.first_failed_hop, Some(Hop::NodeHeartbeat));
    let expected = ("4a", Code::NodeAgentApiUnreachable, Reason::EdgeRateLimited);
    assert_eq!(cause(&found), Some(expected));
    let in_hop_order = [
        Code::NodeAgentHeartbeatStale,
        Code::NodeAgentApiUnreachable,
        Code::NodeAgentAuthFailed,
    ];
    assert_eq!(found.signals, in_hop_order);
}

#[test]
fn within_the_agents_own_hop_the_explaining_failure_wins() {
    let found = with(|s| {
        s.recovery = Recovery {
            process: Seen::Seen(Process::CrashLoop),
            build: Seen::Seen(Build::Incompatible),
            auth: Seen::Seen(Auth::CertRevoked),
        };
    });
    let expected = ("4b", Code::NodeAgentBinaryInvalid, Reason::AgentIncompatible);
    assert_eq!(cause(&found), Some(expected));
}

#[test]
fn the_agents_own_hop_passes_only_when_all_of_it_was_seen() {
    let found = with(|s| s.recovery.build = Seen::Not(Skip::Forbidden));
    let result = found.chain.get(Hop::NodeRecoveryStatus);
    assert_eq!(result, HopResult::NotEvaluated(Skip::Forbidden));
    assert_eq!(found.verdict, Verdict::Inconclusive);
}

/// Each gate alone, and everything that closes behind it.
#[test]
fn a_failed_gate_silences_what_lies_behind_it() {
    let cases: [(Inject, &str); 7] = [
        (|s| s.binding = Seen::Seen(Binding::Unbound), "6 7b 8 10 11"),
        (|s| s.heartbeat = Seen::Seen(Heartbeat::NeverSeen), "5 8 10 11"),
        (|s| s.mint = Seen::Seen(Mint::Forbidden), "7b 8 10 11"),
        (|s| s.upgrade = Seen::Seen(Upgrade::NoAnswer), "8 10 11"),
        (|s| s.delivery = Seen::Seen(Delivery::NotClaimed), "10 11"),
        (|s| s.stream = Seen::Seen(Stream::NoStream), "11"),
        (|s| s.api = Seen::Seen(ApiDial::TcpRefused), ""),
    ];
    for (inject, behind) in cases {
        let found = with(inject);
        assert_eq!(silenced(&found), behind);
    }
}

#[test]
fn a_full_disk_is_a_gate_only_while_claims_are_paused() {
    let full = |claims_paused| {
        with(|s| {
            s.disk = Seen::Seen(Disk {
                writable: false,
                claims_paused,
                ..disk(100, 0)
            });
        })
    };
    assert_eq!(silenced(&full(true)), "5 8 10 11");
    assert_eq!(silenced(&full(false)), "");
}

#[test]
fn a_gate_closes_through_hops_that_nobody_asked_for() {
    let found = with(|s| {
        s.mint = Seen::Seen(Mint::Unauthenticated);
        s.upgrade = Seen::Not(Skip::NotRequested);
        s.startup = Seen::Seen(Startup::PtyDenied);
    });
    let asked = found.chain.get(Hop::BrowserTerminalWs);
    assert_eq!(asked, HopResult::NotEvaluated(Skip::NotRequested));
    assert_eq!(silenced(&found), "8 10 11");
    assert_eq!(found.signals, [Code::TerminalTokenMintFailed]);
}

fn silenced(found: &Classification) -> String {
    let behind = found
        .chain
        .iter()
        .filter(|(_, result)| *result == HopResult::NotEvaluated(Skip::UpstreamFailed))
        .map(|(hop, _)| hop.n());
    behind.collect::<Vec<_>>().join(" ")
}

#[test]
fn what_nobody_asked_for_leaves_a_chain_healthy_but_incomplete() {
    let found = with(|s| {
        s.upgrade = Seen::Not(Skip::NotRequested);
        s.delivery = Seen::Not(Skip::NotApplicable);
        s.stream = Seen::Not(Skip::NotRequested);
        s.startup = Seen::Not(Skip::NotRequested);
    });
    assert_eq!((found.verdict, found.complete), (Verdict::Healthy, false));
    assert_eq!(found.terminal, Some(Readiness::TokenReady));
}

#[test]
fn every_other_hole_is_inconclusive() {
    for &skip in Skip::ALL {
        let found = with(|s| s.terminal = Seen::Not(skip));
        let expected = if skip.expected() {
            Verdict::Healthy
        } else {
            Verdict::Inconclusive
        };
        assert_eq!(found.verdict, expected, "{skip}");
        assert_eq!(found.cause, None, "{skip}");
    }
}

#[test]
fn an_edge_login_is_not_our_failure() {
    let found = with(|s| s.upgrade = Seen::Seen(Upgrade::EdgeLogin));
    assert_eq!((found.verdict, found.exit_status(false)), (Verdict::Inconclusive, 8));
}

#[test]
fn seeing_nothing_is_inconclusive() {
    let found = found(&Observations::default());
    assert_eq!((found.verdict, found.cause), (Verdict::Inconclusive, None));
    assert_eq!((found.node_agent, found.terminal), (NodeAgent::Unknown, None));
}

#[test]
fn operators_locked_out_is_a_warning_and_not_a_broken_agent() {
    let found = with(|s| s.ops_access = Seen::Seen(OpsAccess::ResetBeforeBanner));
    assert_eq!((found.verdict, found.complete), (Verdict::Healthy, true));
    assert_eq!(found.node_agent, NodeAgent::Healthy);
    assert_eq!(found.warnings.len(), 1);
    assert_eq!(found.warnings[0].signal, Code::NodeOpsAccessUnhealthy);
}

#[test]
fn a_wrong_url_that_works_is_a_warning() {
    let dial = TerminalDial {
        dial: Dial::Connected,
        url_as_in_profile: false,
    };
    let found = with(|s| s.terminal = Seen::Seen(dial));
    assert_eq!(
        (found.verdict, found.terminal),
        (Verdict::Healthy, Some(Readiness::PtyReady))
    );
    assert_eq!(found.warnings[0].signal, Code::TerminalEnvProfileDrift);
}

#[test]
fn the_agents_word_follows_the_highest_failure() {
    let cases: [(Inject, NodeAgent); 8] = [
        (|_| (), NodeAgent::Healthy),
        (
            |s| s.heartbeat = Seen::Seen(Heartbeat::AgeSeconds(60)),
            NodeAgent::Stale,
        ),
        (|s| s.heartbeat = Seen::Seen(Heartbeat::NeverSeen), NodeAgent::Unknown),
        (
            |s| s.recovery.auth = Seen::Seen(Auth::CertRevoked),
            NodeAgent::AuthFailed,
        ),
        (
            |s| s.roundtrip = Seen::Seen(Roundtrip::NoResult),
            NodeAgent::TaskResultFailed,
        ),
        (|s| s.disk = Seen::Seen(disk(99, 1)), NodeAgent::Healthy),
        (|s| s.startup = Seen::Seen(Startup::ShellFailed), NodeAgent::Healthy),
        (
            |s| {
                s.heartbeat = Seen::Seen(Heartbeat::AgeSeconds(60));
                s.api = Seen::Seen(ApiDial::ServerCertExpired);
            },
            NodeAgent::ApiUnreachable,
        ),
    ];
    for (number, (inject, word)) in cases.into_iter().enumerate() {
        assert_eq!(with(inject).node_agent, word, "case {number}");
    }
}

#[test]
fn the_terminals_word_is_the_furthest_point_or_failed() {
    assert_eq!(with(|_| ()).terminal, Some(Readiness::PtyReady));
    let failed = with(|s| s.stream = Seen::Seen(Stream::WrongNode));
    assert_eq!(failed.terminal, Some(Readiness::Failed));
    let undelivered = with(|s| s.delivery = Seen::Seen(Delivery::NotClaimed));
    assert_eq!(
        undelivered.terminal,
        Some(Readiness::BrowserWsReady),
        "the node failed, not it"
    );
}

#[test]
fn thresholds_stand_on_the_good_side() {
    let limit = Limits::default().disk_free_bytes;
    for (used, free, verdict, warnings) in [
        (89, limit, Verdict::Healthy, 0),
        (90, limit, Verdict::Healthy, 1),
        (89, limit - 1, Verdict::Failed, 0),
    ] {
        let found = with(|s| s.disk = Seen::Seen(disk(used, free)));
        assert_eq!(
            (found.verdict, found.warnings.len()),
            (verdict, warnings),
            "{used} {free}"
        );
    }
}

#[test]
fn what_lacks_our_header_came_from_an_edge() {
    assert_eq!(ApiDial::answered(200, Some("api")), ApiDial::Answered);
    assert_eq!(
        ApiDial::answered(429, Some("api")),
        ApiDial::Answered,
        "our own rate limit"
    );
    for status in [403, 429, 503] {
        assert_eq!(ApiDial::answered(status, None), ApiDial::EdgeRateLimited);
    }
    assert_eq!(ApiDial::answered(200, None), ApiDial::NotGpuaas);
    assert_eq!(ApiDial::answered(200, Some("terminal-gateway")), ApiDial::NotGpuaas);
    assert_eq!(
        PublicRoute::answered(200, Some("terminal-gateway")),
        PublicRoute::Answered
    );
    assert_eq!(PublicRoute::answered(200, None), PublicRoute::NotGpuaas);
    assert_eq!(PublicRoute::answered(502, None), PublicRoute::HttpStatus);
}

#[test]
fn a_task_that_came_back_proves_the_way_whatever_it_says() {
    for (code, expected) in [
        (Code::HostCommandFailed, Roundtrip::ResultAccepted),
        (Code::SignatureInvalid, Roundtrip::SignatureRefused),
        (Code::UnsupportedType, Roundtrip::NodeLacksTaskType),
        (Code::ClockSkew, Roundtrip::ClockSkew),
        (Code::TaskExpired, Roundtrip::NotClaimed),
    ] {
        assert_eq!(Roundtrip::ended_with(code), expected, "{code}");
    }
}
