//! The real machine on generated trees: it sees what the pretend one answers, refuses what that refuses, and writes to
//! the kernel in the right order.

use std::path::Path;
use std::time::Duration;

use host::pretend::{Hardware, Pretend, Profile};
use host::real::{self, InAProcess, KernelWriter};
use host::{Devices, Holder, Host};
use model::signal::Code;
use model::value::Pci;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::facts::Scratch;
use crate::kernel::{Kernel, Tree};

fn gpu(hardware: &Hardware) -> Pci {
    hardware.functions.values().find(|f| f.is_gpu()).expect("a GPU").pci
}

fn devices(tree: &Tree) -> (real::Devices, Kernel) {
    let kernel = Kernel::of(tree.root());
    (
        real::Devices::with_writer(tree.root(), Box::new(kernel.clone())),
        kernel,
    )
}

/// The strong one: two implementations, one answer.
#[test]
fn what_is_read_from_a_tree_is_what_its_profile_says() {
    for profile in [Profile::H100x8, Profile::L40sx4] {
        let tree = Tree::of("equal", profile);
        let (real, pretend) = (Host::real_under(tree.root()), Pretend::in_memory(profile).host());
        let functions = real.devices.functions().expect("a look");
        assert_eq!(functions, pretend.devices.functions().expect("a look"), "{profile}");
        assert!(functions.len() > 15, "{profile}");
        assert_eq!(
            real.disks.disks().expect("a look"),
            pretend.disks.disks().expect("a look"),
            "{profile}"
        );
        for function in functions {
            let digests = [&real, &pretend].map(|host| host.devices.vbios_sha256(function.pci).expect("a look"));
            assert_eq!(digests[0], digests[1], "{}", function.pci);
        }
        real.devices.check_passthrough(1 << 20).expect("nothing is missing");
    }
}

#[test]
fn odd_machines_are_read_alike_too() {
    let odd = |hardware: &mut Hardware| {
        let pci = gpu(hardware);
        let group = hardware.functions[&pci].iommu_group.expect("a group");
        let function = hardware.functions.get_mut(&pci).expect("there");
        function.framebuffer = Some("efifb".to_owned());
        function.is_mdev_parent = true;
        function.numa_node = None;
        function.driver = None;
        function.config_readable = false;
        function.reset_methods.clear();
        let (program, domain) = ("qemu-system-x86".to_owned(), Some("ada".to_owned()));
        hardware.holders.insert(
            group,
            vec![Holder {
                pid: 4711,
                program,
                domain,
            }],
        );
        hardware.disks.values_mut().next().expect("a disk").disk.namespaces = 2;
    };
    let tree = Tree::with("odd", Profile::L40sx4, odd);
    let machine = Pretend::in_memory(Profile::L40sx4);
    machine.meddle(|state| odd(&mut state.hardware));
    let (real, pretend) = (Host::real_under(tree.root()), machine.host());
    assert_eq!(
        real.devices.functions().expect("a look"),
        pretend.devices.functions().expect("a look")
    );
    assert_eq!(
        real.disks.disks().expect("a look"),
        pretend.disks.disks().expect("a look")
    );
    let group = tree.hardware.functions[&gpu(&tree.hardware)]
        .iommu_group
        .expect("a group");
    let holders = [&real, &pretend].map(|host| host.devices.group_holders(group).expect("a look"));
    assert_eq!(holders[0], holders[1]);
    assert_eq!(real.devices.group_holders(group + 1).expect("a look"), []);
}

/// Prepared well, and not at all.
#[test]
fn what_the_owner_prepared_is_read_alike() {
    let nothing = |hardware: &mut Hardware| {
        (hardware.no_kvm, hardware.no_vfio, hardware.memlock_bytes) = (true, true, Some(8 << 20));
        let all = "virsh,nvme,no reboot,lvm filter,root by uuid,mdadm AUTO -all,fabric manager,bridge br-slices,nat,forwarding,\
                   netplan ib0,dhcp,own partitions";
        hardware.lacks.extend(all.split(',').map(|what| what.trim().to_owned()));
    };
    for (name, lacks) in [("owner", false), ("no-owner", true)] {
        let change = |hardware: &mut Hardware| {
            if lacks {
                nothing(hardware)
            }
        };
        let tree = Tree::with(name, Profile::L40sx4, change);
        let machine = Pretend::in_memory(Profile::L40sx4);
        machine.meddle(|state| change(&mut state.hardware));
        let (real, pretend) = (Host::real_under(tree.root()).ready, machine.host().ready);
        let both = [&real, &pretend];
        let [one, other] = both.map(|ready| ready.readiness().expect("a look"));
        assert_eq!(one, other);
        assert_eq!(one.reboot_required.is_some(), lacks);
        let bridges = ["br-slices".parse().expect("a name")];
        let [one, other] = both.map(|ready| ready.network_state(&bridges, None).expect("a look"));
        assert_eq!(one, other);
        let [one, other] = both.map(|ready| ready.fabric_partitions().expect("a look"));
        assert_eq!(one, other);
        assert_eq!(one.len(), 4);
    }
}

#[test]
fn binding_overrides_unbinds_probes_and_keeps_it_awake() {
    let tree = Tree::with("bind", Profile::L40sx4, |hardware| {
        let pci = gpu(hardware);
        for function in hardware.functions.values_mut().filter(|f| f.pci.same_device(pci)) {
            function.driver = Some("nvidia".to_owned());
            function.d3cold_allowed = Some(true);
        }
    });
    let (pci, (devices, kernel)) = (gpu(&tree.hardware), devices(&tree));
    let bound = devices.ensure_vfio_bound(pci).expect("bound");
    assert_eq!(bound.functions.len(), 2);
    let heard = kernel.heard();
    let names: Vec<&str> = heard.iter().map(|(name, _)| name.as_str()).collect();
    let one = ["driver_override", "unbind", "drivers_probe"];
    assert_eq!(names, [&one[..], &one, &["d3cold_allowed"; 2]].concat());
    assert!(
        heard
            .iter()
            .filter(|(name, _)| name == "driver_override")
            .all(|(_, text)| text == "vfio-pci")
    );
    assert_eq!(devices.ensure_vfio_bound(pci).expect("again"), bound);
    assert_eq!(kernel.heard().len(), heard.len(), "asking twice is asking once");
}

/// The kernel waits a minute for a device after its reset, and a driver may reset it too.
#[test]
fn a_reset_and_a_driver_have_longer_than_an_attribute() {
    let tree = Tree::with("limits", Profile::L40sx4, |hardware| {
        let pci = gpu(hardware);
        hardware.functions.get_mut(&pci).expect("there").driver = Some("nvidia".to_owned());
    });
    let (pci, (devices, kernel)) = (gpu(&tree.hardware), devices(&tree));
    devices.ensure_vfio_bound(pci).expect("bound");
    devices.reset(pci, None).expect("a proof");
    let limits = kernel.limits.lock().expect("nobody panicked");
    let seconds: Vec<_> = limits
        .iter()
        .map(|(name, limit)| (name.as_str(), limit.as_secs()))
        .collect();
    let expected = [
        ("driver_override", 10),
        ("unbind", 60),
        ("drivers_probe", 60),
        ("reset", 90),
    ];
    assert_eq!(seconds, expected);
}

#[test]
fn a_neighbours_function_is_named_and_not_taken() {
    let tree = Tree::with("viable", Profile::L40sx4, |hardware| {
        let group = hardware.functions[&gpu(hardware)].iommu_group;
        let nic = hardware.functions.values_mut().find(|f| f.is_fabric()).expect("a port");
        nic.iommu_group = group;
    });
    let (devices, kernel) = devices(&tree);
    let error = devices.ensure_vfio_bound(gpu(&tree.hardware)).expect_err("a neighbour");
    assert_eq!(error.code(), Code::VfioGroupNotViable);
    assert!(error.to_string().contains("mlx5_core"), "{error}");
    assert_eq!(kernel.heard(), [], "nothing was touched");
}

#[test]
fn a_reset_is_proved_or_fails() {
    let tree = Tree::of("reset", Profile::H100x8);
    let (pci, (good, kernel)) = (gpu(&tree.hardware), devices(&tree));
    let rom = good.vbios_sha256(pci).expect("a look");
    let proof = good.reset(pci, rom).expect("a proof");
    assert_eq!(
        (proof.reset_method.as_str(), proof.kernel_version.as_str()),
        ("flr", "6.8.0-45-generic")
    );
    assert!(proof.vbios_compared && proof.config_readable && !proof.memory_overwritten);
    assert_eq!(kernel.heard(), [("reset".to_owned(), "1".to_owned())]);
    let bad: [fn(&std::path::Path) -> Option<String>; 3] = [
        |_| Some("Inappropriate ioctl for device".to_owned()),
        |home| {
            std::fs::write(home.join("config"), [0xff; 64])
                .err()
                .map(|error| error.to_string())
        },
        |home| {
            std::fs::write(home.join("rom"), "another")
                .err()
                .map(|error| error.to_string())
        },
    ];
    for at_reset in bad {
        let tree = Tree::of("reset-bad", Profile::H100x8);
        let mut kernel = Kernel::of(tree.root());
        kernel.at_reset = at_reset;
        let devices = real::Devices::with_writer(tree.root(), Box::new(kernel.clone()));
        let error = devices.reset(pci, rom).expect_err("it was not reset");
        assert_eq!(error.code(), Code::GpuResetFailed, "{error}");
        assert_eq!(kernel.heard().len(), 1);
    }
}

#[test]
fn what_somebody_has_open_is_not_reset() {
    let tree = Tree::with("busy", Profile::H100x8, |hardware| {
        let group = hardware.functions[&gpu(hardware)].iommu_group.expect("a group");
        let (program, domain) = ("qemu-system-x86".to_owned(), Some("ada".to_owned()));
        hardware.holders.insert(
            group,
            vec![Holder {
                pid: 4711,
                program,
                domain,
            }],
        );
    });
    let (devices, kernel) = devices(&tree);
    let error = devices.reset(gpu(&tree.hardware), None).expect_err("in use");
    assert_eq!(error.code(), Code::VfioGroupBusy);
    assert!(
        error.to_string().contains("4711") && error.to_string().contains("ada"),
        "{error}"
    );
    assert_eq!(kernel.heard(), []);
}

#[test]
fn locked_memory_is_compared_with_what_the_guest_needs() {
    let tree = Tree::with("memlock", Profile::H100x8, |hardware| {
        hardware.memlock_bytes = Some(80 << 30)
    });
    let devices = Host::real_under(tree.root()).devices;
    devices.check_passthrough(65_536).expect("exactly 1.25 times as much");
    let error = devices.check_passthrough(65_537).expect_err("too much");
    assert_eq!(error.code(), Code::VfioMemlockLow);
    let limit = (80u64 << 30).to_string();
    assert!(
        error.to_string().contains(&limit) && error.to_string().contains("libvirtd"),
        "{error}"
    );
}

/// A file that never answers is one that nobody reads: opening it for writing waits for ever.
#[test]
fn a_write_that_hangs_is_left_behind_in_time() {
    let dir = Scratch::new("hang");
    let file = dir.0.join("reset");
    std::fs::write(&file, "old text").expect("write");
    let write = |file: &Path, limit_ms| InAProcess.write(file, "1", Duration::from_millis(limit_ms));
    assert_eq!(write(&file, 20_000).expect("in time"), None);
    assert_eq!(std::fs::read_to_string(&file).expect("read"), "1ld text");
    assert!(write(&dir.0.join("nothing"), 20_000).is_err(), "no file is made");
    assert!(!dir.0.join("nothing").exists());
    let hanging = dir.0.join("hanging");
    mknodat(CWD, &hanging, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a fifo");
    let error = write(&hanging, 50).expect_err("nobody reads");
    assert_eq!(error.code(), Code::HostWriteTimeout);
}

/// Whatever machine this is.
#[test]
fn devices_and_disks_of_this_machine_can_be_read() {
    let host = Host::real();
    host.devices.functions().expect("functions");
    host.disks.disks().expect("disks");
    if rustix::process::geteuid().is_root() {
        host.devices.holders().expect("holders");
    }
    let ready = host.ready.readiness().expect("readiness");
    assert!(!ready.memlock_of.is_empty());
}
