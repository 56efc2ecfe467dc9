//! The limits that the process sets on itself and that its children inherit: no IP sockets, no new privileges, no core
//! dumps. Sockets fail with EAFNOSUPPORT and not by a signal, because harmless programs probe for them.

use std::collections::BTreeMap;

use anyhow::Context as _;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter_all_threads,
};

const AF_UNIX: u64 = 1;
const AF_NETLINK: u64 = 16;
const ENOSYS: u32 = 38;
const EAFNOSUPPORT: u32 = 97;

#[cfg(target_arch = "x86_64")]
mod number {
    pub(super) const SOCKET: i64 = 41;
    /// The same call by its x32 name, which a filter on the number alone would miss.
    pub(super) const SOCKET_TOO: i64 = 0x4000_0000 + SOCKET;
    pub(super) const IO_URING_SETUP: i64 = 425;
    pub(super) const IO_URING_SETUP_TOO: i64 = 0x4000_0000 + IO_URING_SETUP;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub(super) const SOCKET: i64 = 198;
    pub(super) const SOCKET_TOO: i64 = SOCKET;
    pub(super) const IO_URING_SETUP: i64 = 425;
    pub(super) const IO_URING_SETUP_TOO: i64 = IO_URING_SETUP;
}

/// Sets all limits, for every thread of this process and for every child.
pub fn enter() -> anyhow::Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none).context("forbid core dumps")?;
    let family = |not: u64| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, not);
    let foreign = || SeccompRule::new(vec![family(AF_UNIX)?, family(AF_NETLINK)?]);
    let sockets = [
        (number::SOCKET, vec![foreign()?]),
        (number::SOCKET_TOO, vec![foreign()?]),
    ];
    apply(sockets, EAFNOSUPPORT).context("forbid IP sockets")?;
    // A ring opens sockets without this filter ever being asked.
    let rings = [(number::IO_URING_SETUP, vec![]), (number::IO_URING_SETUP_TOO, vec![])];
    apply(rings, ENOSYS).context("forbid io_uring")
}

/// Also sets no_new_privs, which the kernel asks for.
fn apply<const N: usize>(rules: [(i64, Vec<SeccompRule>); N], errno: u32) -> anyhow::Result<()> {
    let rules: BTreeMap<i64, Vec<SeccompRule>> = rules.into_iter().collect();
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), arch)?;
    let program: BpfProgram = filter.try_into()?;
    Ok(apply_filter_all_threads(&program)?)
}

/// Tries what is forbidden and prints what came of it: in this process and, unless it is the child, in a child.
pub fn check(inside: bool) -> anyhow::Result<()> {
    if !inside {
        enter()?;
    }
    for (name, family) in [
        ("inet", AddressFamily::INET),
        ("inet6", AddressFamily::INET6),
        ("packet", AddressFamily::PACKET),
        ("vsock", AddressFamily::VSOCK),
        ("unix", AddressFamily::UNIX),
        ("netlink", AddressFamily::NETLINK),
    ] {
        let kind = if family == AddressFamily::NETLINK {
            SocketType::RAW
        } else {
            SocketType::DGRAM
        };
        let outcome = match socket(family, kind, None) {
            Ok(_) => "open".to_owned(),
            Err(error) => error.raw_os_error().to_string(),
        };
        println!("{} {name} {outcome}", if inside { "child" } else { "self" });
    }
    if inside {
        return Ok(());
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "this very program, to see that children inherit the filter"
    )]
    let mut child = std::process::Command::new(std::env::current_exe()?);
    let status = child.args(["sandbox-check", "--inside"]).status()?;
    anyhow::ensure!(status.success(), "the child ended with {status}");
    Ok(())
}
