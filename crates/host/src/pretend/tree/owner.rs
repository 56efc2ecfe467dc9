//! What the owner of a host prepares, as files.

use std::io;

use super::Tree;
use crate::readiness::REQUIRED_COMMANDS;

impl Tree<'_> {
    pub(super) fn owner(&self) -> io::Result<()> {
        let has = |what: &str| !self.hardware.lacks.contains(what);
        self.write(
            "proc/sys/kernel/osrelease",
            &format!("{}\n", super::super::KERNEL_VERSION),
        )?;
        self.write(
            "proc/cmdline",
            "BOOT_IMAGE=/vmlinuz root=/dev/md0 intel_iommu=on iommu=pt quiet\n",
        )?;
        let flags = if self.hardware.no_kvm { "fpu sse" } else { "fpu vmx sse" };
        self.write("proc/cpuinfo", &format!("processor\t: 0\nflags\t\t: {flags}\n"))?;
        self.write("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n")?;
        self.write("dev/kvm", "")?;
        for module in super::super::readiness::loaded(self.hardware) {
            self.write(&format!("sys/module/{module}/initstate"), "live\n")?;
        }
        for command in REQUIRED_COMMANDS.iter().filter(|command| has(command)) {
            self.write(&format!("usr/bin/{command}"), "")?;
        }
        if !has("no reboot") {
            self.write("run/reboot-required", "")?;
        }
        self.storage(&has)?;
        self.network(&has)?;
        self.processes(&has)
    }

    fn storage(&self, has: &dyn Fn(&str) -> bool) -> io::Result<()> {
        self.write("usr/sbin/lvm", "")?;
        let value = u8::from(!has("lvm filter"));
        let config = format!("# event_activation = 1\nglobal {{\n\tevent_activation = {value}\n}}\n");
        self.write("etc/lvm/lvm.conf", &config)?;
        let root = match has("root by uuid") {
            true => "UUID=6d0b7a4e-7d35-4a3c-9f0e-2f2f3d1c9b11",
            false => "LABEL=cloudimg-rootfs",
        };
        self.write(
            "etc/fstab",
            &format!("# LABEL=old / ext4\n{root} / ext4 defaults 0 1\n"),
        )?;
        self.write("usr/sbin/mdadm", "")?;
        let auto = if has("mdadm AUTO -all") { "AUTO -all\n" } else { "" };
        self.write(
            "etc/mdadm/mdadm.conf",
            &format!("# AUTO -all\nHOMEHOST <system>\n{auto}"),
        )
    }

    fn network(&self, has: &dyn Fn(&str) -> bool) -> io::Result<()> {
        if has("bridge br-slices") {
            self.write("sys/class/net/br-slices/type", "1\n")?;
        }
        if has("nat") {
            self.write("proc/net/ip_tables_names", "filter\nnat\n")?;
        }
        let forwards = u8::from(has("forwarding"));
        self.write("proc/sys/net/ipv4/ip_forward", &format!("{forwards}\n"))?;
        self.write("sys/class/net/ib0/type", "32\n")?;
        let planned = if has("netplan ib0") {
            "    ib0:\n      dhcp4: true\n"
        } else {
            ""
        };
        self.write(
            "etc/netplan/50-fabric.yaml",
            &format!("network:\n  ethernets:\n{planned}"),
        )
    }

    /// libvirt and what it may lock; the DHCP server; who partitions the GPUs' own fabric.
    fn processes(&self, has: &dyn Fn(&str) -> bool) -> io::Result<()> {
        let limit = self
            .hardware
            .memlock_bytes
            .map_or("unlimited".to_owned(), |bytes| bytes.to_string());
        let limits = format!("Limit  Soft Limit  Hard Limit  Units\nMax locked memory  8388608  {limit}  bytes\n");
        self.write("proc/77/comm", "libvirtd\n")?;
        self.write("proc/77/limits", &limits)?;
        self.write("proc/77/status", "Name:\tlibvirtd\nCapEff:\t0000000000000000\n")?;
        self.write("proc/78/comm", "dnsmasq\n")?;
        let hosts = if has("dhcp") {
            "--dhcp-hostsdir=/var/lib/gpuaas/dhcp-hosts\0"
        } else {
            ""
        };
        self.write("proc/78/cmdline", &format!("dnsmasq\0--interface=br-slices\0{hosts}"))?;
        if has("fabric manager") {
            self.write("proc/79/comm", "nv-fabricmanage\n")?;
        }
        self.write("usr/share/nvidia/nvswitch/fabricmanager.cfg", "# mode\nFABRIC_MODE=1\n")
    }
}
