//! The classifier against its tables: chaos rows, the closed vocabulary, ties, gates, verdicts,
//! and properties over arbitrary chains.

mod chaos;
mod properties;
mod report;
mod rules;
mod vocabulary;

use super::*;
use crate::signal::Code;

/// A fault, as what it makes visible.
type Inject = fn(&mut Observations);

/// Everything was looked at and works.
fn healthy() -> Observations {
    Observations {
        binding: Seen::Seen(Binding::Bound),
        heartbeat: Seen::Seen(Heartbeat::AgeSeconds(8)),
        disk: Seen::Seen(disk(41, 1 << 40)),
        api: Seen::Seen(ApiDial::Answered),
        recovery: Recovery {
            process: Seen::Seen(Process::Running),
            build: Seen::Seen(Build::Compatible),
            auth: Seen::Seen(Auth::Accepted),
        },
        roundtrip: Seen::Seen(Roundtrip::ResultAccepted),
        mint: Seen::Seen(Mint::Minted),
        public_route: Seen::Seen(PublicRoute::Answered),
        upgrade: Seen::Seen(Upgrade::Upgraded),
        delivery: Seen::Seen(Delivery::Delivered),
        terminal: Seen::Seen(TerminalDial {
            dial: Dial::Connected,
            url_as_in_profile: true,
        }),
        stream: Seen::Seen(Stream::Connected),
        startup: Seen::Seen(Startup::Ready),
        ops_access: Seen::Seen(OpsAccess::Works),
    }
}

fn disk(used_percent: u32, free_bytes: u64) -> Disk {
    Disk {
        path: "/".into(),
        used_percent,
        free_bytes,
        diagnostic_path: Some("/var/lib/gpuaas/agent/diag".into()),
        writable: true,
        claims_paused: false,
    }
}

fn found(seen: &Observations) -> Classification {
    classify(judge(seen, &Limits::default()), judge_ops_access(seen.ops_access))
}

/// The cause as a row of a table: hop number, signal, reason.
fn cause(found: &Classification) -> Option<(&'static str, Code, Reason)> {
    found
        .cause
        .map(|fault| (fault.hop().n(), fault.signal(), fault.reason()))
}
