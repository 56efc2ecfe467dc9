//! What a discovery finds: good hosts have slots and nothing in the way; every obstacle, planted, is found with its
//! code, its subject and a way out; and on a host without it nobody hears of it.

use std::collections::BTreeSet;

use executor::SlicePolicy;
use host::Holder;
use host::pretend::{Fault, Hardware, Pretend, Profile, vast};
use model::id::{AllocationId, NodeId};
use model::signal::Code;
use model::task::topology_discover::{Blocker, Output, changes};
use model::value::Pci;

pub(crate) fn policy() -> SlicePolicy {
    SlicePolicy {
        cidr: Some("10.77.0.0/24".parse().expect("a network")),
        bridges: vec!["br-slices".parse().expect("a name")],
    }
}

fn node() -> NodeId {
    uuid::Uuid::from_u128(7).into()
}

fn discover(machine: &Pretend, policy: &SlicePolicy) -> Output {
    executor::discover(&machine.host(), node(), policy).expect("a discovery")
}

fn on(profile: Profile, plant: impl FnOnce(&mut Hardware)) -> Output {
    let machine = Pretend::in_memory(profile);
    machine.meddle(|state| plant(&mut state.hardware));
    discover(&machine, &policy())
}

fn codes(blockers: &[Blocker]) -> BTreeSet<Code> {
    blockers.iter().map(|blocker| blocker.code).collect()
}

fn first_gpu(hardware: &Hardware) -> Pci {
    hardware.functions.values().find(|f| f.is_gpu()).expect("a GPU").pci
}

#[test]
fn good_hosts_have_all_their_slots() {
    for (profile, slots) in [(Profile::H100x8, 8), (Profile::L40sx4, 4), (Profile::Cpu, 0)] {
        let output = on(profile, |_| ());
        let summary = &output.candidate_summary;
        assert_eq!(
            (summary.slots, summary.schedulable),
            (slots, slots),
            "{profile}: {summary:?}"
        );
        assert_eq!(summary.warnings, [], "{profile}");
        if profile != Profile::Cpu {
            assert_eq!(summary.blockers, [], "{profile}");
        }
        assert!(output.approval_required);
        assert_eq!(output.gpu_devices.len(), slots as usize);
        let functions = Pretend::in_memory(profile).snapshot().hardware.functions;
        for (n, slot) in (0u8..).zip(&output.candidate_slots) {
            assert_eq!(slot.private_ip.octets(), [10, 77, 0, 10 + n]);
            assert_eq!(slot.slot_index, u32::from(n));
            let fabric = slot.fabric_device.expect("one each");
            let complex = |pci| functions[pci].root_complex.clone();
            assert_eq!(complex(&fabric), complex(&slot.pci_address), "{profile}");
        }
        let distinct = |what: Vec<String>| what.into_iter().collect::<BTreeSet<_>>().len();
        let of = |text: fn(&model::task::topology_discover::CandidateSlot) -> String| {
            distinct(output.candidate_slots.iter().map(text).collect())
        };
        assert_eq!(of(|slot| slot.nvme_device.to_string()), slots as usize);
        assert_eq!(of(|slot| slot.mac_address.to_string()), slots as usize);
        assert_eq!(of(|slot| format!("{:?}", slot.fabric_device)), slots as usize);
    }
}

#[test]
fn a_discovery_is_the_same_each_time_and_changes_nothing() {
    let machine = Pretend::in_memory(Profile::H100x8);
    let before = machine.snapshot();
    assert_eq!(discover(&machine, &policy()), discover(&machine, &policy()));
    assert_eq!(machine.snapshot(), before);
    let members = &on(Profile::L40sx4, |_| ()).gpu_devices[0].group_members;
    assert_eq!(members.len(), 2, "the audio function is told");
}

type Plant = fn(&mut Hardware);

fn gpu(hardware: &mut Hardware) -> &mut host::Function {
    let pci = first_gpu(hardware);
    hardware.functions.get_mut(&pci).expect("there")
}

fn lacks(hardware: &mut Hardware, what: &str) {
    hardware.lacks.insert(what.to_owned());
}

/// Each with how many of the eight slots remain.
const PLANTS: [(Code, u32, Plant); 27] = [
    (Code::VfioGroupNotViable, 7, |h| {
        gpu(h).driver = Some("nouveau".to_owned())
    }),
    (Code::VfioMemlockLow, 0, |h| h.memlock_bytes = Some(8 << 20)),
    (Code::VfioGroupBusy, 7, |h| {
        let group = gpu(h).iommu_group.expect("a group");
        let (pid, program) = (4711, "dpdk-testpmd".to_owned());
        h.holders.insert(
            group,
            vec![Holder {
                pid,
                program,
                domain: None,
            }],
        );
    }),
    (Code::GpuHeldByFramebuffer, 7, |h| {
        gpu(h).framebuffer = Some("efifb".to_owned())
    }),
    (Code::GpuUnreachableD3cold, 7, |h| gpu(h).config_readable = false),
    (Code::GpuUnreachableD3cold, 7, |h| {
        gpu(h).power_state = "D3hot".to_owned()
    }),
    (Code::GpuResetFailed, 7, |h| gpu(h).reset_methods.clear()),
    (Code::GpuNotReturned, 7, |h| gpu(h).driver = None),
    (Code::GpuClassAmbiguous, 7, |h| gpu(h).is_mdev_parent = true),
    (Code::GpuClassAmbiguous, 7, |h| gpu(h).virtual_functions = 4),
    (Code::SlotRootComplexMismatch, 7, |h| {
        let complex = gpu(h).root_complex.clone();
        let all = h.functions.values_mut();
        for function in all.filter(|f| f.root_complex == complex && f.is_fabric()) {
            function.root_complex = "pci0000:fe".to_owned();
        }
    }),
    (Code::NvswitchUnmanaged, 0, |h| lacks(h, "fabric manager")),
    (Code::FabricNotIsolated, 7, |h| {
        let all = h.functions.values();
        let pci = all
            .filter(|f| f.is_fabric())
            .find_map(|f| f.physical_function.and(Some(f.pci)));
        lacks(h, &format!("partition {}", pci.expect("a virtual function")));
    }),
    (Code::FabricNotIsolated, 0, |h| lacks(h, "own partitions")),
    (Code::LvmAutoactivation, 0, |h| lacks(h, "lvm filter")),
    (Code::MdAutoassembly, 0, |h| lacks(h, "mdadm AUTO -all")),
    (Code::HostRootByLabel, 0, |h| lacks(h, "root by uuid")),
    (Code::KvmUnavailable, 0, |h| h.no_kvm = true),
    (Code::VfioNotLoaded, 0, |h| h.no_vfio = true),
    (Code::CommandMissing, 0, |h| lacks(h, "virsh")),
    (Code::RebootRequired, 0, |h| lacks(h, "no reboot")),
    (Code::SliceBridgeMissing, 0, |h| lacks(h, "bridge br-slices")),
    (Code::SliceNatMissing, 0, |h| lacks(h, "nat")),
    (Code::SliceForwardingOff, 0, |h| lacks(h, "forwarding")),
    (Code::IpoibNetplanMissing, 0, |h| lacks(h, "netplan ib0")),
    (Code::SliceDhcpMissing, 0, |h| lacks(h, "dhcp")),
    (Code::DiskIdentityMissing, 8, |h| {
        let (kernel_name, why) = ("nvme9n1".to_owned(), "it has no world-wide name".to_owned());
        h.nameless.push(host::Nameless { kernel_name, why });
    }),
];

#[test]
fn every_obstacle_is_named_alone() {
    for (code, remain, plant) in PLANTS {
        let output = on(Profile::H100x8, plant);
        let summary = output.candidate_summary;
        assert_eq!(
            codes(&summary.blockers),
            BTreeSet::from([code]),
            "{:?}",
            summary.blockers
        );
        assert_eq!((summary.slots, summary.schedulable), (8, remain), "{code}");
        for blocker in &summary.blockers {
            let Blocker {
                subject, detail, fix, ..
            } = blocker;
            assert!(!subject.is_empty() && detail.len() > 10 && fix.len() > 6, "{blocker:?}");
        }
        let one_gpu = (remain == 7).then_some(1);
        let blocked = output.candidate_slots.iter().filter(|slot| !slot.schedulable).count();
        assert_eq!(one_gpu.unwrap_or(8 - remain as usize), blocked, "{code}");
    }
}

#[test]
fn names_object_and_cause() {
    let of = |plant: Plant| on(Profile::L40sx4, plant).candidate_summary.blockers.remove(0);
    let audio = of(|h| {
        let pci = first_gpu(h);
        let all = h.functions.values_mut();
        for function in all.filter(|f| f.pci != pci && f.pci.same_device(pci)) {
            function.driver = Some("snd_hda_intel".to_owned());
        }
    });
    assert_eq!(
        (audio.code, audio.subject.as_str()),
        (Code::VfioGroupNotViable, "0000:21:00.0")
    );
    assert_eq!(audio.detail, "0000:21:00.1 of its IOMMU group is on snd_hda_intel");
    // As a real kernel does it, though it lists that way of resetting.
    let stuck = of(|h| gpu(h).reset_methods = vec!["bus".to_owned()]);
    assert_eq!(
        (stuck.code, stuck.subject.as_str()),
        (Code::GpuResetFailed, "0000:21:00.0")
    );
    assert!(stuck.detail.contains("0000:21:00.1 is there too"), "{}", stuck.detail);
    assert!(
        audio.fix.contains("/sys/bus/pci/devices/0000:21:00.1/driver_override"),
        "{}",
        audio.fix
    );
    let low = of(|h| h.memlock_bytes = Some(8 << 20));
    assert!(
        low.detail.contains("8388608") && low.detail.contains("85899345920"),
        "{}",
        low.detail
    );
}

#[test]
fn the_network_must_be_set_and_large_enough() {
    let machine = Pretend::in_memory(Profile::H100x8);
    let output = discover(&machine, &SlicePolicy::default());
    assert_eq!(
        codes(&output.candidate_summary.blockers),
        BTreeSet::from([Code::SliceNetworkUnset])
    );
    assert_eq!(output.candidate_slots, []);
    let small = SlicePolicy {
        cidr: Some("10.77.0.0/28".parse().expect("a network")),
        ..policy()
    };
    let summary = discover(&machine, &small).candidate_summary;
    assert_eq!(codes(&summary.blockers), BTreeSet::from([Code::SliceCidrFull]));
    assert_eq!((summary.slots, summary.schedulable), (5, 5));
}

/// A group that is another one at the second look, and a device that hangs when its ROM is asked for.
#[test]
fn what_changes_or_hangs_while_we_look_is_told() {
    for (code, fault) in [
        (Code::VfioGroupChanged, Fault::GroupMoves as fn(Pci) -> Fault),
        (Code::HostWriteTimeout, Fault::WriteHangs),
    ] {
        let output = on(Profile::H100x8, |h| drop(h.faults.replace(fault(first_gpu(h)))));
        assert_eq!(codes(&output.candidate_summary.blockers), BTreeSet::from([code]));
        assert_eq!(output.candidate_summary.schedulable, 7);
    }
}

#[test]
fn a_guest_that_runs_is_no_fault_and_nobody_is_told_to_switch_off_a_tenants() {
    let tenant = AllocationId::new();
    let theirs = tenant.to_string().replace("alloc_", "vm-");
    for (name, fix) in [
        ("ada", "virsh shutdown ada"),
        (&theirs, &format!("allocation release {tenant}")),
    ] {
        let output = with_guest(name);
        let summary = output.candidate_summary;
        assert_eq!((summary.blockers.len(), summary.schedulable), (0, 8));
        assert_eq!(codes(&summary.warnings), BTreeSet::from([Code::VfioGroupBusy]));
        let told = &summary.warnings[0].fix;
        assert!(
            told.contains(fix) && told.contains("virsh") == (name == "ada"),
            "{told}"
        );
        assert_eq!(output.gpu_devices[0].vbios_sha256, None, "it is not disturbed");
    }
}

fn with_guest(name: &str) -> Output {
    on(Profile::H100x8, |h| {
        let group = gpu(h).iommu_group.expect("a group");
        let (program, domain) = ("qemu-system-x86".to_owned(), Some(name.to_owned()));
        h.holders.insert(
            group,
            vec![Holder {
                pid: 4711,
                program,
                domain,
            }],
        );
    })
}

#[test]
fn rules_that_nobody_shows_are_a_warning() {
    let summary = on(Profile::H100x8, |h| lacks(h, "sight of nat")).candidate_summary;
    assert_eq!((summary.blockers.len(), summary.schedulable), (0, 8));
    assert_eq!(codes(&summary.warnings), BTreeSet::from([Code::SliceNatMissing]));
}

#[test]
fn without_an_iommu_there_is_nothing() {
    let output = on(Profile::L40sx4, |h| {
        h.functions.values_mut().for_each(|f| f.iommu_group = None)
    });
    assert!(codes(&output.candidate_summary.blockers).contains(&Code::IommuOff));
    assert_eq!(output.candidate_summary.schedulable, 0);
}

/// Disks: the own root complex first for everybody, then the node with a warning, then anywhere with a blocker.
#[test]
fn disks_are_given_from_near_to_far() {
    let far = |h: &mut Hardware, node: u32| {
        let complex = gpu(h).root_complex.clone();
        let all = h.functions.values_mut();
        for function in all.filter(|f| f.root_complex == complex && f.class >> 16 == 1) {
            function.root_complex = "pci0000:fe".to_owned();
            function.numa_node = Some(node);
        }
    };
    let near = on(Profile::H100x8, |h| far(h, 0));
    assert_eq!(
        (
            near.candidate_summary.blockers.len(),
            near.candidate_summary.schedulable
        ),
        (0, 8)
    );
    assert_eq!(
        codes(&near.candidate_summary.warnings),
        BTreeSet::from([Code::SlotRootComplexMismatch])
    );
    let remote = on(Profile::H100x8, |h| far(h, 1)).candidate_summary;
    assert_eq!(codes(&remote.blockers), BTreeSet::from([Code::SlotRootComplexMismatch]));
    assert_eq!(remote.schedulable, 7);
    let none = on(Profile::H100x8, |h| h.disks.clear());
    assert_eq!(
        codes(&none.candidate_summary.blockers),
        BTreeSet::from([Code::SlotUnpaired])
    );
    assert_eq!(
        (none.candidate_summary.blockers.len(), none.candidate_slots.len()),
        (8, 0)
    );
    // Seven disks for eight GPUs: the GPU whose disk is gone goes without, not its neighbour.
    let lost = on(Profile::H100x8, |h| {
        let id = h
            .disks
            .values()
            .find(|disk| disk.disk.in_use_by.is_empty())
            .expect("one")
            .disk
            .identity
            .by_id
            .clone();
        h.disks.remove(&id);
    });
    assert_eq!(lost.candidate_summary.schedulable, 7);
    assert_eq!(
        lost.candidate_slots[0].slot_index, 1,
        "the others keep their numbers, and so their addresses"
    );
}

#[test]
fn a_machine_may_be_vast_but_not_endless() {
    let wide = SlicePolicy {
        cidr: Some("10.0.0.0/16".parse().expect("a network")),
        ..policy()
    };
    let of = |gpus, nodes| {
        let machine = Pretend::in_memory(Profile::H100x8);
        machine.meddle(|state| state.hardware = vast(gpus, nodes));
        executor::discover(&machine.host(), node(), &wide)
    };
    let output = of(128, 64).expect("1024 devices on 64 nodes");
    assert_eq!(
        (
            output.candidate_summary.schedulable,
            output.candidate_summary.blockers.len()
        ),
        (128, 0)
    );
    for (gpus, nodes) in [(129, 64), (128, 65)] {
        let error = of(gpus, nodes).expect_err("one too many");
        assert_eq!(error.code, Code::TopologyTooLarge.as_str());
    }
}

/// Whoever approved is told what is different since, slot by slot.
#[test]
fn what_changed_since_the_approval_is_told() {
    let approved = on(Profile::H100x8, |_| ());
    assert_eq!(changes(&approved, &approved), []);
    let cases: [(Code, Plant); 4] = [
        (Code::GpuResetMethodChanged, |h| {
            gpu(h).reset_methods = vec!["bus".to_owned()]
        }),
        (Code::DeviceMissing, |h| drop(h.functions.remove(&first_gpu(h)))),
        (Code::DiskGuard, |h| {
            let disk = h
                .disks
                .values_mut()
                .find(|disk| disk.disk.in_use_by.is_empty())
                .expect("one");
            disk.disk.identity.serial = "REPLACED".parse().expect("plain text");
        }),
        (Code::DiskGuard, |h| {
            let pci = h
                .functions
                .values()
                .find(|f| f.is_fabric() && f.physical_function.is_some())
                .expect("one")
                .pci;
            h.functions.remove(&pci);
        }),
    ];
    for (code, plant) in cases {
        let told = changes(&approved, &on(Profile::H100x8, plant));
        assert_eq!(codes(&told), BTreeSet::from([code]), "{told:?}");
        assert_eq!(told.len(), 1, "{told:?}");
    }
}
