//! Where a broken terminal or node is broken: thirteen hops, what was seen at each, and from that
//! the one cause, its owner and its remedy. Pure: whoever looked (control plane, node, doctor,
//! gateway) hands in typed observations, and the same observations give the same answer in CLI,
//! console and chaos runs. Promises that every failure is a signal and a reason of the closed
//! table; refuses to guess: what nobody saw is `not_evaluated`, never `pass`.

#[macro_use]
mod word;

mod classify;
mod evidence;
mod fault;
mod gate;
mod hop;
mod judge;
mod limits;
mod observation;
mod probe;
mod report;
mod result;
mod signal;
mod status;

pub use classify::{Classification, SideCheck, Verdict, Warning, classify};
pub use evidence::{Source, usable};
pub use fault::{Fault, NotInTable};
pub use gate::Chain;
pub use hop::{Hop, Place};
pub use judge::{judge, judge_ops_access};
pub use limits::Limits;
pub use observation::{
    ApiDial, Auth, Binding, Build, Delivery, Dial, Disk, Heartbeat, Mint, Observations, OpsAccess, Process,
    PublicRoute, Recovery, Roundtrip, Seen, Startup, Stream, TerminalDial, Upgrade,
};
pub use probe::{NodeProbeError, NodeProbeErrorSchema, enter_probe};
pub use report::{Cause, DiskFacts, HopRow, Ids, Look, Report, ReportSchema, Run, SideRow, Status};
pub use result::{HopResult, Reason, Skip};
pub use signal::{Effect, SIGNALS, Signal, Tenant};
pub use status::{NodeAgent, Readiness};

#[cfg(test)]
mod tests;
