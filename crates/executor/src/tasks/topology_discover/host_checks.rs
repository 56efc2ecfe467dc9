//! What concerns every slot: virtualisation, programs, the slice network, and whether the host would take hold of what
//! a tenant writes to a disk.

use model::signal::Code;
use model::task::topology_discover::{MEMORY_MIB, Prerequisites, SliceNetwork};

use super::found::{Found, HOST};
use super::seen::Seen;
use crate::policy::SlicePolicy;

const MIB: u64 = 1 << 20;

pub(super) fn prerequisites(seen: &Seen) -> Prerequisites {
    let (ready, network) = (&seen.readiness, &seen.network);
    Prerequisites {
        kvm_available: ready.has_kvm,
        iommu_group_count: ready.iommu_group_count,
        iommu_kernel_args: ready.iommu_kernel_args.clone(),
        cpu_virtualization: ready.cpu_virtualization,
        loaded_modules: ready.loaded_modules.clone(),
        required_commands: ready.commands.clone(),
        slice_network: SliceNetwork {
            bridges: network.bridges.clone(),
            nat: network.has_nat == Some(true),
            ip_forwarding: network.forwards,
            ipoib_netplan: network.unplanned_ipoib.is_empty(),
            dhcp: network.has_dhcp,
        },
        reboot_required: ready.reboot_required.is_some(),
    }
}

pub(super) fn check(seen: &Seen, slices: &SlicePolicy, found: &mut Found) {
    machine(seen, found);
    takes_hold(seen, found);
    network(seen, slices, found);
}

fn machine(seen: &Seen, found: &mut Found) {
    let ready = &seen.readiness;
    if !ready.has_kvm {
        let cpu = ready.cpu_virtualization;
        let detail = format!(
            "/dev/kvm is not usable; the processor shows vmx: {}, svm: {}",
            cpu.vmx, cpu.svm
        );
        found.blocks_all(
            HOST,
            Code::KvmUnavailable,
            detail,
            "turn on virtualisation in the firmware; modprobe kvm_intel",
        );
    }
    if ready.iommu_group_count == 0 {
        let args = ready.iommu_kernel_args.join(" ");
        let detail = format!("the kernel has no IOMMU groups; its command line says {args:?}");
        found.blocks_all(
            HOST,
            Code::IommuOff,
            detail,
            "boot with intel_iommu=on or amd_iommu=on, and iommu=pt",
        );
    }
    if !ready.loaded_modules.iter().any(|name| name == "vfio_pci") {
        let fix = "echo vfio-pci > /etc/modules-load.d/vfio.conf; modprobe vfio-pci";
        found.blocks_all(HOST, Code::VfioNotLoaded, "the module vfio_pci is not loaded", fix);
    }
    for (name, _) in ready.commands.iter().filter(|(_, is_there)| !**is_there) {
        let fix = format!("install {}", package(name));
        found.blocks_all(name, Code::CommandMissing, format!("there is no program {name}"), fix);
    }
    if let Some(marker) = &ready.reboot_required {
        found.blocks_all(
            HOST,
            Code::RebootRequired,
            format!("{marker} is there"),
            "gpuaas node drain NODE; reboot",
        );
    }
    let needed = MEMORY_MIB * MIB * 5 / 4;
    if let Some(limit) = ready.memlock_bytes.filter(|limit| *limit < needed) {
        let detail = format!(
            "{} may lock {limit} bytes, a slot's guest needs {needed}",
            ready.memlock_of
        );
        let fix = format!("systemctl edit {}: LimitMEMLOCK=infinity; restart it", ready.memlock_of);
        found.blocks_all(HOST, Code::VfioMemlockLow, detail, fix);
    }
}

fn package(command: &str) -> &'static str {
    match command {
        "qemu-img" => "qemu-utils",
        "virsh" => "libvirt-clients",
        "ovs-vsctl" | "ovs-ofctl" => "openvswitch-switch",
        "ssh" => "OpenSSH's client",
        "nvme" => "nvme-cli",
        _ => "the package that brings it",
    }
}

fn takes_hold(seen: &Seen, found: &mut Found) {
    if let Some(why) = &seen.readiness.lvm_autoactivation {
        let fix = "set event_activation = 0 in /etc/lvm/lvm.conf; update-initramfs -u";
        found.blocks_all(HOST, Code::LvmAutoactivation, why, fix);
    }
    if let Some(why) = &seen.readiness.md_autoassembly {
        let fix = "echo 'AUTO -all' >> /etc/mdadm/mdadm.conf; update-initramfs -u";
        found.blocks_all(HOST, Code::MdAutoassembly, why, fix);
    }
    if let Some(why) = &seen.readiness.root_by_label {
        let fix = "name it by UUID=, PARTUUID= or path, update-grub, update-initramfs -u; in the firmware, boot from no \
            disk of a slot";
        found.blocks_all(HOST, Code::HostRootByLabel, why, fix);
    }
}

fn network(seen: &Seen, slices: &SlicePolicy, found: &mut Found) {
    let state = &seen.network;
    let unset = [
        ("slice_cidr", slices.cidr.is_none()),
        ("ovs_bridges", slices.bridges.is_empty()),
    ];
    for (key, _) in unset.iter().filter(|(_, is_unset)| *is_unset) {
        let fix = format!("set {key} in /etc/gpuaas/node.toml");
        found.blocks_all(
            *key,
            Code::SliceNetworkUnset,
            format!("local policy says no {key}"),
            fix,
        );
    }
    for (bridge, _) in state.bridges.iter().filter(|(_, is_there)| !**is_there) {
        let fix = format!("ovs-vsctl --may-exist add-br {bridge}; ip link set {bridge} up");
        found.blocks_all(
            bridge.as_str(),
            Code::SliceBridgeMissing,
            format!("there is no bridge {bridge}"),
            fix,
        );
    }
    let network = slices
        .cidr
        .map_or("the slice network".to_owned(), |cidr| cidr.to_string());
    let fix = format!("nft add rule ip nat postrouting ip saddr {network} masquerade");
    match state.has_nat {
        Some(true) => {}
        Some(false) => found.blocks_all(
            HOST,
            Code::SliceNatMissing,
            format!("no rule masquerades {network}"),
            fix,
        ),
        None => {
            let detail = format!("whether a rule masquerades {network} is shown only to who may change it");
            found.warns_all(Code::SliceNatMissing, detail, "nft list ruleset | grep masquerade");
        }
    }
    if !state.forwards {
        let fix = "echo net.ipv4.ip_forward=1 > /etc/sysctl.d/60-slices.conf; sysctl --system";
        found.blocks_all(HOST, Code::SliceForwardingOff, "net.ipv4.ip_forward is not 1", fix);
    }
    for link in &state.unplanned_ipoib {
        let detail = format!("{link} is in no file of /etc/netplan");
        found.blocks_all(
            link,
            Code::IpoibNetplanMissing,
            detail,
            format!("add {link} to /etc/netplan; netplan apply"),
        );
    }
    if !state.has_dhcp {
        let bridge = slices.bridges.first().map_or("BRIDGE", |bridge| bridge.as_str());
        let fix = format!("dnsmasq --interface={bridge} --dhcp-hostsdir=/var/lib/gpuaas/dhcp-hosts …");
        found.blocks_all(
            HOST,
            Code::SliceDhcpMissing,
            "no dnsmasq runs with --dhcp-hostsdir",
            fix,
        );
    }
}
