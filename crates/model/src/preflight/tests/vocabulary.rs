//! The vocabulary is closed: the judges can say every row of the table and nothing else.

use std::collections::BTreeSet;

use super::*;

/// Every single observation that exists, each in an otherwise healthy chain.
fn every_observation() -> Vec<Observations> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Observations)| {
        let mut seen = healthy();
        change(&mut seen);
        all.push(seen);
    };
    Binding::ALL.iter().for_each(|&it| add(&|s| s.binding = Seen::Seen(it)));
    for it in [
        Heartbeat::NeverSeen,
        Heartbeat::AgeSeconds(50),
        Heartbeat::AgeSeconds(51),
    ] {
        add(&|s| s.heartbeat = Seen::Seen(it));
    }
    for (used, free, writable) in [(10, 1 << 40, true), (90, 1 << 40, true), (10, 1, true), (99, 0, false)] {
        add(&|s| {
            s.disk = Seen::Seen(Disk {
                writable,
                ..disk(used, free)
            })
        });
    }
    ApiDial::ALL.iter().for_each(|&it| add(&|s| s.api = Seen::Seen(it)));
    Process::ALL
        .iter()
        .for_each(|&it| add(&|s| s.recovery.process = Seen::Seen(it)));
    Build::ALL
        .iter()
        .for_each(|&it| add(&|s| s.recovery.build = Seen::Seen(it)));
    Auth::ALL
        .iter()
        .for_each(|&it| add(&|s| s.recovery.auth = Seen::Seen(it)));
    Roundtrip::ALL
        .iter()
        .for_each(|&it| add(&|s| s.roundtrip = Seen::Seen(it)));
    Mint::ALL.iter().for_each(|&it| add(&|s| s.mint = Seen::Seen(it)));
    PublicRoute::ALL
        .iter()
        .for_each(|&it| add(&|s| s.public_route = Seen::Seen(it)));
    Upgrade::ALL.iter().for_each(|&it| add(&|s| s.upgrade = Seen::Seen(it)));
    Delivery::ALL
        .iter()
        .for_each(|&it| add(&|s| s.delivery = Seen::Seen(it)));
    for &dial in Dial::ALL {
        for url_as_in_profile in [true, false] {
            add(&|s| {
                s.terminal = Seen::Seen(TerminalDial {
                    dial,
                    url_as_in_profile,
                })
            });
        }
    }
    Stream::ALL.iter().for_each(|&it| add(&|s| s.stream = Seen::Seen(it)));
    Startup::ALL.iter().for_each(|&it| add(&|s| s.startup = Seen::Seen(it)));
    OpsAccess::ALL
        .iter()
        .for_each(|&it| add(&|s| s.ops_access = Seen::Seen(it)));
    all
}

/// `place signal reason`, once per kind of outcome.
fn said() -> BTreeSet<String> {
    let mut said = BTreeSet::new();
    for seen in every_observation() {
        let found = found(&seen);
        for (hop, result) in found.chain.iter() {
            let (kind, fault) = match result {
                HopResult::Fail(fault) => ("fails", fault),
                HopResult::Pass { warning: Some(fault) } => ("warns", fault),
                HopResult::Pass { warning: None } | HopResult::NotEvaluated(_) => continue,
            };
            assert_eq!(fault.hop(), hop, "a fault names the hop it was found at");
            said.insert(format!("{hop} {kind} {} {}", fault.signal(), fault.reason()));
        }
        if let SideCheck::Fail { signal, reason } = found.ops_access {
            said.insert(format!("ops_access {signal} {reason}"));
        }
    }
    said
}

fn table() -> BTreeSet<String> {
    let mut table = BTreeSet::new();
    for row in &SIGNALS {
        for (kind, hops) in [("fails", row.fails), ("warns", row.warns)] {
            for (hop, reasons) in hops {
                for reason in *reasons {
                    table.insert(format!("{hop} {kind} {} {reason}", row.code));
                }
            }
        }
        for reason in row.side {
            table.insert(format!("ops_access {} {reason}", row.code));
        }
    }
    table
}

#[test]
fn the_judges_say_every_row_of_the_table_and_nothing_else() {
    let (said, table) = (said(), table());
    let unsaid: Vec<_> = table.difference(&said).collect();
    let unlisted: Vec<_> = said.difference(&table).collect();
    assert!(unsaid.is_empty() && unlisted.is_empty(), "{unsaid:#?} {unlisted:#?}");
}

#[test]
fn a_fault_exists_only_if_the_table_lists_it() {
    let mut listed = 0;
    for &hop in Hop::ALL {
        for row in &SIGNALS {
            for &reason in Reason::ALL {
                let expected = row
                    .fails
                    .iter()
                    .chain(row.warns)
                    .any(|(at, reasons)| *at == hop && reasons.contains(&reason));
                let made = Fault::new(hop, row.code, reason);
                assert_eq!(made.is_ok(), expected, "{hop} {} {reason}", row.code);
                listed += usize::from(expected);
            }
        }
    }
    assert_eq!(listed, 71, "cells of the table, ours and the 21 signals of the seed");
    let stranger = Fault::new(Hop::NodeReadiness, Code::Internal, Reason::WriteFailed);
    assert!(stranger.is_err(), "a code that is no preflight signal");
}

#[test]
fn words_are_distinct_and_survive_json() {
    let words: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(words.len(), Reason::ALL.len());
    for &reason in Reason::ALL {
        let json = serde_json::to_string(&reason).unwrap();
        assert_eq!(json, format!("{:?}", reason.as_str()));
        assert_eq!(serde_json::from_str::<Reason>(&json).unwrap(), reason);
        assert_eq!(Reason::from_word(reason.as_str()), Some(reason));
    }
    assert_eq!(Reason::from_word("quantum_tunnel"), None);
}
