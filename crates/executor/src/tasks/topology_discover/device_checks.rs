//! The passthrough checks, device by device: each names the function, what was seen and the way out. They are the same
//! that the phases of a slice fail with; here they are told before anybody has paid.

use host::devices::VFIO_PCI;
use host::{Function, Holder};
use model::id::AllocationId;
use model::signal::Code;
use model::value::Pci;

use super::found::{Found, HOST};
use super::pairing::Pair;
use super::seen::Seen;

pub(super) fn check(seen: &Seen, pairs: &[Pair<'_>], found: &mut Found) {
    for pair in pairs {
        class(pair.gpu, found);
        console(pair.gpu, found);
        answers(seen, pair.gpu, found);
        group(seen, pair, pair.gpu, found);
        holders(seen, pair.gpu, found);
        reset(seen, pair.gpu, found);
        if let Some(function) = pair.fabric {
            group(seen, pair, function, found);
            isolated(seen, pair, function, found);
        }
    }
    nvswitches(seen, found);
    for disk in &seen.disks.nameless {
        let fix = format!(
            "nvme id-ctrl /dev/{}; udevadm trigger /dev/{}",
            disk.kernel_name, disk.kernel_name
        );
        found.misses(&disk.kernel_name, Code::DiskIdentityMissing, &disk.why, fix);
    }
}

fn class(gpu: &Function, found: &mut Found) {
    let pci = gpu.pci;
    if gpu.is_mdev_parent || gpu.virtual_functions > 0 {
        let split = match gpu.virtual_functions {
            0 => "offers mediated devices".to_owned(),
            n => format!("has {n} virtual functions turned on"),
        };
        let fix = format!(
            "echo 0 > /sys/bus/pci/devices/{pci}/sriov_numvfs, and boot it on vfio-pci without the vGPU manager"
        );
        found.blocks(pci, Code::GpuClassAmbiguous, format!("it {split}"), fix);
    }
}

fn console(gpu: &Function, found: &mut Found) {
    if let Some(console) = &gpu.framebuffer {
        let fix =
            "boot with initcall_blacklist=sysfb_init, or make the board's own display the primary one in the firmware";
        found.blocks(
            gpu.pci,
            Code::GpuHeldByFramebuffer,
            format!("{console} draws on it"),
            fix,
        );
    }
}

fn answers(seen: &Seen, gpu: &Function, found: &mut Found) {
    let unreadable = || {
        let state = &gpu.power_state;
        format!("it is in {state} and its configuration space reads as all ones")
    };
    let unreachable = !gpu.config_readable || gpu.power_state == "D3cold";
    let detail = unreachable
        .then(unreadable)
        .or_else(|| seen.asleep.get(&gpu.pci).cloned());
    if let Some(detail) = detail {
        let fix = format!(
            "power-cycle the host; then echo 0 > /sys/bus/pci/devices/{}/d3cold_allowed",
            gpu.pci
        );
        found.blocks(gpu.pci, Code::GpuUnreachableD3cold, detail, fix);
    }
}

/// Every function of the group can go to a guest, and the group is still the one that was looked at.
fn group(seen: &Seen, pair: &Pair<'_>, of: &Function, found: &mut Found) {
    let gpu = pair.gpu.pci;
    if let Some(now) = seen.group_now.get(&of.pci)
        && *now != of.iommu_group
    {
        let name = |group: Option<u32>| group.map_or("none".to_owned(), |group| group.to_string());
        let detail = format!("its IOMMU group was {} and is {}", name(of.iommu_group), name(*now));
        found.blocks(
            gpu,
            Code::VfioGroupChanged,
            detail,
            "discover again once nobody plugs or resets devices",
        );
    }
    if of.driver.is_none() {
        let fix = bind(of.pci);
        found.blocks_by(
            gpu,
            of.pci.to_string(),
            Code::GpuNotReturned,
            "it is on no driver, not on vfio-pci",
            fix,
        );
    }
    for member in seen.group(of) {
        let is_viable = match &member.driver {
            Some(driver) if member.is_bridge() => driver == "pcieport",
            Some(driver) => driver == VFIO_PCI,
            None => true,
        };
        if !is_viable {
            let driver = member.driver.as_deref().unwrap_or("no driver");
            let detail = format!("{} of its IOMMU group is on {driver}", member.pci);
            let subject = of.pci.to_string();
            found.blocks_by(gpu, subject, Code::VfioGroupNotViable, detail, bind(member.pci));
        }
    }
}

fn bind(pci: Pci) -> String {
    format!(
        "echo vfio-pci > /sys/bus/pci/devices/{pci}/driver_override; echo {pci} > /sys/bus/pci/drivers_probe (at boot, before its driver)"
    )
}

/// Whose guest it is, by the name that the platform gives to guests. Nobody is told to switch off a tenant's.
fn tenant(domain: &str) -> Option<AllocationId> {
    format!("alloc_{}", domain.strip_prefix("vm-")?).parse().ok()
}

/// A guest that has it is no fault, but who approves should know; anybody else is in the way.
fn holders(seen: &Seen, gpu: &Function, found: &mut Found) {
    for Holder { pid, program, domain } in seen.holders.get(&gpu.pci).into_iter().flatten() {
        let detail = format!("process {pid} ({program}) has its group open");
        match domain {
            Some(domain) => match tenant(domain) {
                Some(allocation) => {
                    let detail = format!("the guest of {allocation} has it");
                    let fix = format!("none, unless it should not be there: gpuaas allocation release {allocation}");
                    found.warns(gpu.pci, Code::VfioGroupBusy, detail, fix);
                }
                None => {
                    let detail = format!("{detail} for domain {domain}");
                    found.warns(gpu.pci, Code::VfioGroupBusy, detail, format!("virsh shutdown {domain}"));
                }
            },
            None => found.blocks(gpu.pci, Code::VfioGroupBusy, detail, format!("kill {pid}")),
        }
    }
}

fn reset(seen: &Seen, gpu: &Function, found: &mut Found) {
    if gpu.reset_methods.is_empty() {
        let fix = format!(
            "cat /sys/bus/pci/devices/{}/reset_method; update kernel and firmware",
            gpu.pci
        );
        found.blocks(
            gpu.pci,
            Code::GpuResetFailed,
            "the kernel knows no way to reset it",
            fix,
        );
    } else if let Some(other) = shares_its_only_reset(seen, gpu) {
        let detail = format!("its only reset is that of its bus, and {other} is there too: the kernel refuses it");
        let fix = "bring firmware that offers a reset of the function alone, or hide the other function";
        found.blocks(gpu.pci, Code::GpuResetFailed, detail, fix);
    }
    if let Some(words) = seen.hung.get(&gpu.pci) {
        found.blocks(
            gpu.pci,
            Code::HostWriteTimeout,
            words,
            "dmesg | tail; reboot the host if the driver hangs",
        );
    }
}

/// The kernel lists the reset of a bus before it has seen who else is there, and refuses it afterwards.
fn shares_its_only_reset(seen: &Seen, gpu: &Function) -> Option<Pci> {
    if gpu.reset_methods.iter().any(|method| method != "bus") {
        return None;
    }
    let mut others = seen.functions.iter().map(|function| function.pci);
    others.find(|pci| *pci != gpu.pci && pci.same_device(gpu.pci))
}

/// A partition that two share is nobody's own.
fn isolated(seen: &Seen, pair: &Pair<'_>, function: &Function, found: &mut Found) {
    let physical = function
        .physical_function
        .map_or("its port".to_owned(), |pci| pci.to_string());
    let detail = match seen.partitions.get(&function.pci) {
        None => format!("virtual function of {physical} without a partition key or VLAN of its own"),
        Some(partition) => match seen.shares(function.pci, partition) {
            None => return,
            Some(other) => format!("virtual function of {physical} in {partition}, which {other} is in too"),
        },
    };
    let fix = "ip link set PORT vf N vlan ID; on InfiniBand give it a pkey by the subnet manager";
    found.blocks_by(
        pair.gpu.pci,
        function.pci.to_string(),
        Code::FabricNotIsolated,
        detail,
        fix,
    );
}

fn nvswitches(seen: &Seen, found: &mut Found) {
    let Some(switch) = seen.functions.iter().find(|function| function.is_nvswitch()) else {
        return;
    };
    let manager = seen.readiness.fabric_manager;
    if !manager.partitions() {
        let state = match manager.is_running {
            true => format!("the fabric manager runs with FABRIC_MODE={}", manager.mode),
            false => "no fabric manager runs".to_owned(),
        };
        let detail = format!("{} joins the GPUs, and {state}", switch.pci);
        let fix =
            "set FABRIC_MODE=1 in /usr/share/nvidia/nvswitch/fabricmanager.cfg; systemctl restart nvidia-fabricmanager";
        found.blocks_all(HOST, Code::NvswitchUnmanaged, detail, fix);
    }
}
