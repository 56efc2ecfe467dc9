//! The small program that a guest sends its numbers with, and what starts it: files that first boot writes as they
//! stand here. Nothing of a tenant or of a task is put into them.

/// For whoever wants to try it.
pub const PROGRAM: &str = include_str!("telemetry.py");

const SERVICE: &str = "[Unit]
Description=Numbers about this machine, for its owner to look at

[Service]
Type=oneshot
ExecStart=/usr/bin/python3 /usr/local/lib/gpuaas/telemetry.py
TimeoutStartSec=60
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
";

const TIMER: &str = "[Unit]
Description=Numbers about this machine, every half minute

[Timer]
OnBootSec=30
OnUnitActiveSec=30

[Install]
WantedBy=timers.target
";

/// Path, mode and content.
pub(super) const FILES: [(&str, &str, &str); 3] = [
    ("/usr/local/lib/gpuaas/telemetry.py", "0755", PROGRAM),
    ("/etc/systemd/system/gpuaas-telemetry.service", "0644", SERVICE),
    ("/etc/systemd/system/gpuaas-telemetry.timer", "0644", TIMER),
];

pub(super) const START: [&str; 4] = ["systemctl", "enable", "--now", "gpuaas-telemetry.timer"];
