//! The systemd units give each half of a node no more than it needs. systemd's own measure is the
//! judge, from 0 (nothing exposed) to 10.

use crate::tree;

/// Program, and ten times the exposure it may have.
const LIMITS: [(&str, u32); 2] = [("gpuaas-node-agent", 15), ("gpuaas-node-executor", 42)];

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "asks systemd-analyze, which rates a unit file without a running systemd"
)]
fn units_are_as_closed_as_promised() {
    for (name, limit) in LIMITS {
        let unit = tree::root().join(format!("deploy/systemd/{name}.service"));
        assert!(unit.exists(), "{}", unit.display());
        let threshold = format!("--threshold={limit}");
        let rated = std::process::Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--no-pager", &threshold])
            .arg(&unit)
            .output();
        let Ok(rated) = rated else {
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
