//! The systemd units give each half of a node no more than it needs. systemd's own measure is the
//! judge, from 0 (nothing exposed) to 10.

use std::collections::BTreeSet;

use crate::tree;

/// Program, and ten times the exposure it may have.
const LIMITS: [(&str, u32); 2] = [("gpuaas-node-agent", 15), ("gpuaas-node-executor", 43)];

#[expect(
    clippy::disallowed_methods,
    reason = "systemd-analyze rates a unit file without a running systemd, and tells what its groups of calls are"
)]
fn analyze(args: &[&str]) -> Option<std::process::Output> {
    let mut program = std::process::Command::new("systemd-analyze");
    program.arg("--no-pager").args(args).output().ok()
}

#[test]
fn units_are_as_closed_as_promised() {
    for (name, limit) in LIMITS {
        let unit = tree::root().join(format!("deploy/systemd/{name}.service"));
        assert!(unit.exists(), "{}", unit.display());
        let threshold = format!("--threshold={limit}");
        let path = unit.display().to_string();
        let Some(rated) = analyze(&["security", "--offline=true", &threshold, &path]) else {
            println!("not run: systemd-analyze not found, so {name}.service is not rated");
            continue;
        };
        let said = String::from_utf8_lossy(&rated.stdout);
        let verdict = said.lines().last().unwrap_or("nothing").to_owned();
        assert!(rated.status.success(), "{name}, limit {limit}/10: {verdict}");
    }
}

#[test]
fn the_executor_has_no_ip_sockets_and_the_agent_no_capabilities() {
    let executor = tree::read("deploy/systemd/gpuaas-node-executor.service");
    assert!(executor.contains("\nRestrictAddressFamilies=AF_UNIX AF_NETLINK\n"));
    assert!(executor.contains("\nIPAddressDeny=any\n"));
    // What slices need of the kernel, and no more.
    assert!(executor.contains("\nReadWritePaths=-/sys/bus/pci -/sys/devices\n"));
    assert!(executor.contains("\nDevicePolicy=closed\n") && executor.contains("\nDeviceAllow=block-blkext rw\n"));
    let agent = tree::read("deploy/systemd/gpuaas-node-agent.service");
    assert!(agent.contains("\nCapabilityBoundingSet=\n"));
    assert!(agent.contains("\nUser=gpuaas\n"));
    for unit in [executor, agent] {
        assert!(unit.contains("\nNoNewPrivileges=yes\n"));
        assert!(unit.contains("\nLimitCORE=0\n"));
    }
}

const EXECUTOR: &str = "deploy/systemd/gpuaas-node-executor.service";

/// What some part of the executor cannot do without: where it does it, and the words there that do.
struct Need {
    file: &'static str,
    words: &'static str,
    /// Calls of the kernel, of which the filter has to know each.
    calls: &'static [&'static str],
    /// Words of lines in the unit, and the lines' names.
    granted: &'static [(&'static str, &'static str)],
}

const fn need(
    file: &'static str,
    words: &'static str,
    calls: &'static [&'static str],
    granted: &'static [(&'static str, &'static str)],
) -> Need {
    Need {
        file,
        words,
        calls,
        granted,
    }
}

const CAP: &str = "CapabilityBoundingSet";
const DEVICE: &str = "DeviceAllow";
const WRITE: &str = "ReadWritePaths";
const FAMILY: &str = "RestrictAddressFamilies";

const NEEDS: [Need; 30] = [
    need("executor/src/sandbox.rs", "apply_filter_all_threads", &["seccomp"], &[]),
    need("executor/src/sandbox.rs", "setrlimit(", &["prlimit64"], &[]),
    need("executor/src/shelf.rs", "setpriority_process", &["setpriority"], &[]),
    need(
        "executor/src/socket.rs",
        "fs::chown(",
        &["chown"],
        &[(CAP, "CAP_CHOWN"), (FAMILY, "AF_UNIX")],
    ),
    need(
        "host/src/real/images/cage.rs",
        "restrict_self",
        &[
            "landlock_create_ruleset",
            "landlock_add_rule",
            "landlock_restrict_self",
            "prctl",
        ],
        &[],
    ),
    need(
        "host/src/real/images/known.rs",
        "fstatfs(",
        &["fstatfs", "fdatasync"],
        &[],
    ),
    need("host/src/real/images/inside.rs", "fadvise(", &["fadvise64"], &[]),
    need(
        "host/src/real/network/mod.rs",
        "\"tuntap\"",
        &["ioctl", "sendmsg", "recvmsg"],
        &[(CAP, "CAP_NET_ADMIN"), (DEVICE, "/dev/net/tun"), (FAMILY, "AF_NETLINK")],
    ),
    need(
        "host/src/real/dhcp.rs",
        "kill_process(",
        &["kill"],
        &[(CAP, "CAP_KILL")],
    ),
    need("host/src/real/network/mod.rs", "memfd_create(", &["memfd_create"], &[]),
    need(
        "host/src/real/readiness/network.rs",
        "\"ruleset\"",
        &[],
        &[(CAP, "CAP_NET_ADMIN")],
    ),
    need(
        "host/src/real/guests/passing.rs",
        "\"/run/gpuaas/guests\"",
        &["sendmsg", "recvmsg"],
        &[("RuntimeDirectory", "gpuaas"), ("RuntimeDirectoryMode", "0711")],
    ),
    need(
        "host/src/real/command.rs",
        ".uid(NOBODY)",
        &["setuid", "setgid", "setgroups"],
        &[(CAP, "CAP_SETUID"), (CAP, "CAP_SETGID")],
    ),
    need(
        "host/src/real/command/running.rs",
        "pidfd_open(",
        &["pidfd_open", "setpgid"],
        &[],
    ),
    need(
        "host/src/real/operations.rs",
        "cgroup.events",
        &[],
        &[("Delegate", "yes")],
    ),
    need(
        "host/src/real/devices/bind.rs",
        "sys/bus/pci/drivers_probe",
        &[],
        &[(WRITE, "-/sys/bus/pci"), (WRITE, "-/sys/devices")],
    ),
    need(
        "host/src/real/devices/console.rs",
        "proc/iomem",
        &[],
        &[(CAP, "CAP_SYS_ADMIN")],
    ),
    need(
        "host/src/real/devices/holders.rs",
        "dev/vfio",
        &[],
        &[
            (DEVICE, "char-vfio"),
            (CAP, "CAP_SYS_PTRACE"),
            ("After", "modprobe@vfio_pci.service"),
        ],
    ),
    need(
        "host/src/real/disks/controller.rs",
        "/dev/{name}",
        &["ioctl"],
        &[
            (DEVICE, "char-nvme"),
            (CAP, "CAP_SYS_ADMIN"),
            ("After", "modprobe@nvme.service"),
        ],
    ),
    need(
        "host/src/real/disks/open.rs",
        "fallocate(",
        &["fallocate"],
        &[(DEVICE, "block-blkext")],
    ),
    need(
        "host/src/real/whole.rs",
        "openat2(",
        &["openat2", "linkat", "renameat", "fsync"],
        &[],
    ),
    need(
        "host/src/real/users/mounts.rs",
        "unmount(",
        &["umount2", "statx"],
        &[(CAP, "CAP_SYS_ADMIN")],
    ),
    need(
        "host/src/real/users/trash.rs",
        "renameat_with(",
        &["renameat2", "mkdirat"],
        &[],
    ),
    need("host/src/real/users/lock.rs", "flock(", &["flock"], &[]),
    need(
        "host/src/real/users/files.rs",
        "chownat(",
        &["fchownat"],
        &[(CAP, "CAP_CHOWN"), (CAP, "CAP_FOWNER")],
    ),
    need(
        "host/src/real/users/processes.rs",
        "pidfd_send_signal(",
        &["pidfd_send_signal"],
        &[(CAP, "CAP_KILL")],
    ),
    need(
        "host/src/real/users/sweep.rs",
        "set_thread_res_uid(",
        &["setresuid", "setgroups"],
        &[(CAP, "CAP_SETUID")],
    ),
    need(
        "host/src/real/users/account.rs",
        "Program::Useradd",
        &[],
        &[(CAP, "CAP_AUDIT_WRITE")],
    ),
    need(
        "host/src/real/users/ipc.rs",
        "Program::Ipcrm",
        &["shmctl", "semctl", "msgctl"],
        &[(CAP, "CAP_SYS_ADMIN")],
    ),
    need(
        "executor/src/journal/tape.rs",
        "fallocate(",
        &["fallocate", "renameat2"],
        &[("StateDirectory", "gpuaas/executor")],
    ),
];

/// Lines that would each keep some part from its work.
const NEVER: [(&str, &str); 10] = [
    ("PrivateDevices=yes", "disks and VFIO groups are devices of the host"),
    ("PrivateNetwork=yes", "guests are plugged into the host's own switch"),
    ("PrivateTmp=yes", "what a tenant left in /tmp has to be found"),
    ("PrivateUsers=yes", "accounts are the host's own"),
    ("ProtectHome=yes", "homes are made and removed"),
    ("ProtectSystem=full", "accounts are in /etc"),
    (
        "ProtectSystem=strict",
        "accounts are in /etc, and images, seeds and leases in /var/lib/gpuaas",
    ),
    ("ProtectControlGroups=yes", "each operation has a control group"),
    (
        "ProtectProc=invisible",
        "who has a device open is asked of every process",
    ),
    ("ProcSubset=pid", "the kernel's tables are read in /proc"),
];

/// Every program that the host starts. Whoever adds one looks here first: does the unit let it do its work?
const PROGRAMS: [&str; 15] = [
    "dd",
    "groupadd",
    "groupdel",
    "ip",
    "ipcrm",
    "nft",
    "nvme",
    "ovs-ofctl",
    "ovs-vsctl",
    "qemu-img",
    "ssh",
    "useradd",
    "userdel",
    "usermod",
    "virsh",
];

/// Everything that the lines of this name say, if none of them takes something away.
fn said<'a>(unit: &'a str, name: &str) -> BTreeSet<&'a str> {
    let lines = unit
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    lines
        .filter(|words| !words.starts_with('~'))
        .flat_map(str::split_whitespace)
        .collect()
}

#[test]
fn the_executors_unit_grants_what_its_code_needs() {
    let unit = tree::read(EXECUTOR);
    for need in &NEEDS {
        let code = tree::read(&format!("crates/{}", need.file));
        assert!(
            code.contains(need.words),
            "{} does not say {} any more",
            need.file,
            need.words
        );
        for (line, word) in need.granted {
            assert!(said(&unit, line).contains(word), "{} needs {line}={word}", need.file);
        }
    }
    for (line, why) in NEVER {
        assert!(!unit.lines().any(|there| there == line), "{line}: {why}");
    }
}

#[test]
fn every_program_was_held_against_the_executors_unit() {
    let code = tree::read("crates/host/src/real/command.rs");
    let started = code.lines().filter_map(|line| {
        let (name, path) = line.trim().strip_prefix("Program::")?.split_once(" => \"")?;
        let program = path.trim_end_matches("\",").rsplit('/').next()?;
        (!name.is_empty()).then_some(program)
    });
    let started: BTreeSet<&str> = started.collect();
    assert_eq!(started, BTreeSet::from(PROGRAMS));
}

/// The calls behind a name of systemd's; None if it knows no such group.
fn calls(name: &str) -> Option<BTreeSet<String>> {
    if !name.starts_with('@') {
        return Some([name.to_owned()].into());
    }
    let told = analyze(&["syscall-filter", name])?;
    let text = String::from_utf8(told.stdout).ok().filter(|_| told.status.success())?;
    let inside = text.lines().skip(1).map(str::trim);
    let inside = inside.filter(|line| !line.is_empty() && !line.starts_with('#'));
    inside.map(calls).try_fold(BTreeSet::new(), |mut all, more| {
        all.extend(more?);
        Some(all)
    })
}

#[test]
fn the_executors_filter_lets_through_every_call_that_its_code_needs() {
    if calls("@system-service").is_none() {
        println!("not run: systemd-analyze does not tell which calls a group has");
        return;
    }
    let unit = tree::read(EXECUTOR);
    let mut allowed = BTreeSet::new();
    for line in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        for name in line.trim_start_matches('~').split_whitespace() {
            let of_name = calls(name).unwrap_or_else(|| panic!("systemd knows no {name}"));
            if line.starts_with('~') {
                allowed.retain(|call| !of_name.contains(call));
            } else {
                allowed.extend(of_name);
            }
        }
    }
    for need in &NEEDS {
        for call in need.calls {
            assert!(allowed.contains(*call), "{} needs {call}", need.file);
        }
    }
    for call in ["mount", "init_module", "kexec_load", "ptrace", "clock_settime"] {
        assert!(!allowed.contains(call), "nothing here needs {call}");
    }
}
