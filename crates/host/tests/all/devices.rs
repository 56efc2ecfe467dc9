//! Devices and disks of the pretend machine: what is refused, with which code, and that nothing happened then.

use host::pretend::{Fault, Hardware, Pretend, Profile};
use host::{Disk, Holder, Markers};
use model::digest::Sha256;
use model::proof::WipeMethod;
use model::signal::Code;
use model::value::{Nonce, Pci};

fn gpu(machine: &Pretend) -> Pci {
    let functions = machine.host().devices.functions().expect("functions");
    functions.iter().find(|f| f.is_gpu()).expect("a GPU").pci
}

fn free_disk(machine: &Pretend) -> Disk {
    let disks = machine.host().disks.disks().expect("disks").disks;
    disks
        .into_iter()
        .find(|disk| disk.in_use_by.is_empty())
        .expect("a free one")
}

fn plant_fault(hardware: &mut Hardware, fault: Fault) {
    assert!(hardware.faults.insert(fault), "not there yet");
}

#[test]
fn a_device_is_bound_with_all_its_functions_and_the_group_is_named() {
    let machine = Pretend::in_memory(Profile::L40sx4);
    let (pci, devices) = (gpu(&machine), machine.host().devices);
    machine.meddle(|state| {
        for function in state.hardware.functions.values_mut().filter(|f| f.pci.same_device(pci)) {
            function.driver = Some("nvidia".to_owned());
            function.d3cold_allowed = Some(true);
        }
    });
    let bound = devices.ensure_vfio_bound(pci).expect("bound");
    assert_eq!(bound.functions.len(), 2, "the audio function goes with it");
    assert_eq!(devices.ensure_vfio_bound(pci).expect("again"), bound);
    for pci in bound.functions {
        let function = devices.function(pci).expect("there");
        assert_eq!(
            (function.driver.as_deref(), function.d3cold_allowed),
            (Some("vfio-pci"), Some(false))
        );
    }
}

#[test]
fn what_cannot_be_bound_or_reset_has_its_code() {
    type Plant = fn(&mut Hardware, Pci);
    let unbound: Plant = |hardware, pci| {
        hardware.functions.get_mut(&pci).expect("there").driver = None;
    };
    let bind: [(Code, Plant); 5] = [
        (Code::DeviceMissing, |hardware, pci| {
            drop(hardware.functions.remove(&pci))
        }),
        (Code::GpuHeldByFramebuffer, |hardware, pci| {
            hardware.functions.get_mut(&pci).expect("there").framebuffer = Some("efifb".to_owned());
        }),
        (Code::HostWriteTimeout, |hardware, pci| {
            plant_fault(hardware, Fault::WriteHangs(pci))
        }),
        (Code::GpuUnreachableD3cold, |hardware, pci| {
            plant_fault(hardware, Fault::NeverWakes(pci))
        }),
        (Code::VfioGroupChanged, |hardware, pci| {
            plant_fault(hardware, Fault::GroupMoves(pci))
        }),
    ];
    for (code, plant) in bind {
        let machine = Pretend::in_memory(Profile::H100x8);
        let pci = gpu(&machine);
        machine.meddle(|state| {
            unbound(&mut state.hardware, pci);
            plant(&mut state.hardware, pci);
        });
        let error = machine.host().devices.ensure_vfio_bound(pci).expect_err("planted");
        assert_eq!(error.code(), code, "{error}");
    }
    let reset: [(Code, Plant); 6] = [
        (Code::GpuResetFailed, |hardware, pci| {
            plant_fault(hardware, Fault::ResetFails(pci))
        }),
        (Code::GpuResetFailed, |hardware, pci| {
            plant_fault(hardware, Fault::ResetLosesIt(pci))
        }),
        (Code::GpuResetFailed, |hardware, pci| {
            plant_fault(hardware, Fault::RomChanges(pci))
        }),
        (Code::GpuNotReturned, |hardware, pci| {
            plant_fault(hardware, Fault::DriverChanges(pci))
        }),
        (Code::HostWriteTimeout, |hardware, pci| {
            plant_fault(hardware, Fault::WriteHangs(pci))
        }),
        (Code::VfioGroupBusy, |hardware, pci| {
            let holder = Holder {
                pid: 4711,
                program: "qemu-system-x86".to_owned(),
                domain: Some("ada".to_owned()),
            };
            let group = hardware.functions[&pci].iommu_group.expect("a group");
            hardware.holders.insert(group, vec![holder]);
        }),
    ];
    for (code, plant) in reset {
        let machine = Pretend::in_memory(Profile::H100x8);
        let (pci, devices) = (gpu(&machine), machine.host().devices);
        let rom = devices.vbios_sha256(pci).expect("a look");
        assert!(rom.is_some());
        machine.meddle(|state| plant(&mut state.hardware, pci));
        let error = devices.reset(pci, rom).expect_err("planted");
        assert_eq!(error.code(), code, "{error}");
    }
    let machine = Pretend::in_memory(Profile::H100x8);
    let (pci, devices) = (gpu(&machine), machine.host().devices);
    let proof = devices
        .reset(pci, devices.vbios_sha256(pci).expect("a look"))
        .expect("reset");
    assert!(proof.config_readable && proof.vbios_compared && proof.power_state == "D0");
    assert!(devices.reset(pci, Some(Sha256::of(b"other"))).is_err());
}

#[test]
fn a_wipe_is_judged_by_what_is_left() {
    let nonce = Nonce::from_bytes([3; 32]);
    for (fault, left) in [(false, false), (true, true)] {
        let machine = Pretend::in_memory(Profile::H100x8);
        let disk = free_disk(&machine).identity;
        machine.meddle(|state| {
            let there = state.hardware.disks.get_mut(&disk.by_id).expect("there");
            there.written.insert("tenant/secret".to_owned());
            if fault {
                state.hardware.faults.insert(Fault::WipeDoesNothing(disk.by_id.clone()));
            }
        });
        let open = machine.host().disks.open_guarded(&disk).expect("free");
        let markers = Markers::new(nonce, disk.size_bytes).expect("room");
        let method = open.wipe_methods().expect("a look")[0];
        assert_eq!(open.plant(&markers).expect("planted"), 1026);
        assert_eq!(open.wipe(method).expect("it says so").tool_rc, 0);
        let sought = open.seek(&markers, method).expect("a look");
        assert_eq!((sought.markers_found > 0, sought.signatures_found > 0), (left, left));
    }
}

#[test]
fn a_controller_with_a_neighbour_is_neither_sanitized_nor_formatted() {
    let machine = Pretend::in_memory(Profile::H100x8);
    let disk = free_disk(&machine).identity;
    machine.meddle(|state| {
        let there = state.hardware.disks.get_mut(&disk.by_id).expect("there");
        there.disk.namespaces = 2;
        there.written.insert("tenant/secret".to_owned());
    });
    let open = machine.host().disks.open_guarded(&disk).expect("free");
    let offered = open.wipe_methods().expect("a look");
    assert_eq!(offered, [WipeMethod::WriteZeroes, WipeMethod::Overwrite]);
    let before = machine.snapshot();
    let error = open.wipe(WipeMethod::SanitizeCrypto).expect_err("a neighbour");
    assert_eq!(error.code(), Code::DiskGuard);
    assert_eq!(machine.snapshot(), before);
}
