//! A failure: one signal, for one reason, at one hop. Only combinations of the table exist.

use super::hop::Hop;
use super::result::Reason;
use super::signal::SIGNALS;
use crate::signal::Code;

/// A failure, or the warning of one. Its fields cannot be set one by one: what the table does
/// not list cannot be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fault {
    // Precedence first, so that the smallest fault is the cause.
    signal: Code,
    hop: Hop,
    reason: Reason,
}

/// The table has no such row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hop {hop} has no signal {signal} for reason {reason}")]
pub struct NotInTable {
    pub hop: Hop,
    pub signal: Code,
    pub reason: Reason,
}

impl Fault {
    /// A fault of the table, failure or warning.
    pub fn new(hop: Hop, signal: Code, reason: Reason) -> Result<Fault, NotInTable> {
        let listed = SIGNALS
            .iter()
            .filter(|row| row.code == signal)
            .flat_map(|row| row.fails.iter().chain(row.warns))
            .any(|(at, reasons)| *at == hop && reasons.contains(&reason));
        if listed {
            Ok(Fault { signal, hop, reason })
        } else {
            Err(NotInTable { hop, signal, reason })
        }
    }

    /// For the judges, whose every outcome a test compares with the table.
    pub(super) const fn judged(hop: Hop, signal: Code, reason: Reason) -> Fault {
        Fault { signal, hop, reason }
    }

    pub const fn signal(self) -> Code {
        self.signal
    }

    pub const fn hop(self) -> Hop {
        self.hop
    }

    pub const fn reason(self) -> Reason {
        self.reason
    }
}
