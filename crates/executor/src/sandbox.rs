//! The limits that the process sets on itself and that its children inherit: no IP sockets, no new privileges, no core
//! dumps. Sockets fail with EAFNOSUPPORT and not by a signal, because harmless programs probe for them. A call of
//! another architecture ends the process. Descriptors that the parent left open are not closed: that cannot be said
//! without `unsafe`, and the service manager that starts us passes none.

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
    // Also sets no_new_privs, which the kernel asks for.
    for program in programs()? {
        apply_filter_all_threads(&program).context("forbid IP sockets and rings")?;
    }
    Ok(())
}

fn programs() -> anyhow::Result<[BpfProgram; 2]> {
    let family = |not: u64| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, not);
    let foreign = || SeccompRule::new(vec![family(AF_UNIX)?, family(AF_NETLINK)?]);
    let sockets = [
        (number::SOCKET, vec![foreign()?]),
        (number::SOCKET_TOO, vec![foreign()?]),
    ];
    // A ring opens sockets without this filter ever being asked.
    let rings = [(number::IO_URING_SETUP, vec![]), (number::IO_URING_SETUP_TOO, vec![])];
    Ok([program(sockets, EAFNOSUPPORT)?, program(rings, ENOSYS)?])
}

fn program<const N: usize>(rules: [(i64, Vec<SeccompRule>); N], errno: u32) -> anyhow::Result<BpfProgram> {
    let rules: BTreeMap<i64, Vec<SeccompRule>> = rules.into_iter().collect();
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), arch)?;
    Ok(filter.try_into()?)
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

/// Rings and calls by their x32 name cannot be tried from safe code; so the filters are run by hand here. What the
/// kernel makes of them is tried by `check`.
#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    const NATIVE: u32 = 0xc000_003e;
    const I386: u32 = 0x4000_0003;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    const KILL_PROCESS: u32 = 0x8000_0000;
    const X32: u32 = 0x4000_0000;

    /// What the kernel would be told for this call: the strictest word of all filters.
    fn verdict(arch: u32, number: u32, argument: u64) -> u32 {
        let words = programs().expect("they compile").map(|program| {
            let load = |offset: u32| match offset {
                0 => number,
                4 => arch,
                16 => argument as u32,
                20 => (argument >> 32) as u32,
                _ => 0,
            };
            let (mut accumulator, mut at) = (0, 0);
            loop {
                let line = &program[at];
                at += 1;
                let jump = |yes: bool| usize::from(if yes { line.jt } else { line.jf });
                match line.code {
                    0x20 => accumulator = load(line.k),
                    0x54 => accumulator &= line.k,
                    0x05 => at += line.k as usize,
                    0x15 => at += jump(accumulator == line.k),
                    0x25 => at += jump(accumulator > line.k),
                    0x35 => at += jump(accumulator >= line.k),
                    0x06 => return line.k,
                    other => panic!("an instruction that is not known here: {other:#x}"),
                }
            }
        });
        // Compared as signed numbers: to kill the process has the highest bit, and is the strictest.
        if words[0].cast_signed() < words[1].cast_signed() {
            words[0]
        } else {
            words[1]
        }
    }

    #[test]
    fn rings_and_foreign_sockets_are_refused_by_either_name() {
        let (socket, ring) = (number::SOCKET as u32, number::IO_URING_SETUP as u32);
        for name in [0, X32] {
            assert_eq!(verdict(NATIVE, ring + name, 8), ERRNO | ENOSYS);
            for family in [2, 10, 17, 40, 0, 1 << 31] {
                assert_eq!(verdict(NATIVE, socket + name, family), ERRNO | EAFNOSUPPORT, "{family}");
            }
            for family in [AF_UNIX, AF_NETLINK, AF_UNIX | 1 << 32] {
                assert_eq!(
                    verdict(NATIVE, socket + name, family),
                    ALLOW,
                    "the kernel reads 32 bits of it"
                );
            }
        }
        assert_eq!(verdict(NATIVE, 0, 2), ALLOW, "reading is not a socket");
        assert_eq!(verdict(I386, 102, 1), KILL_PROCESS, "not only refused");
    }
}
