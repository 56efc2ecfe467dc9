//! A tenant's VM comes, is switched off and on, and goes, with everything real but the GPU: the image store, the
//! converter in its cage, the seed disk, the switch, DHCP, libvirt, QEMU, ssh with the pinned host key, and the wipe.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use host::Host;
use host::pretend::{Pretend, Profile};
use host::real::{Guests, Settings, Slices};
use model::digest::Sha256;
use model::id::{AllocationId, derive_task};
use model::outcome::{Outcome, ResultPayload};
use model::task::slot::Slot;
use model::task::vm_power::{self, Action, Power};
use model::task::vm_provision::{DriverStrategy, ImageFormat, Params};
use model::task::{Task, vm_provision, vm_release};
use model::value::Nonce;

use super::ground::{BRIDGE, Ground, ROOT};
use super::parts::{Direct, Loop, WithPaperGpu, WithoutDevices};
use super::{in_a_lab, run, upkeep};
use crate::place::{Agent, Place};
use crate::users::KEY;

const DISK_BYTES: u64 = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(240);

pub(super) fn host(ground: &Ground, pretend: &Pretend) -> Host {
    let settings = Settings {
        image_dirs: vec![format!("{ROOT}/slice-images").into()],
        network: ground.network.clone(),
        machines: ground.machines.clone(),
        dial: Arc::new(Direct),
        helper: env!("CARGO_BIN_EXE_gpuaas-node-executor").into(),
    };
    let guests = Guests::new(
        Slices::under(Path::new(ROOT)),
        Arc::new(Direct),
        settings.helper.clone(),
    );
    let paper = pretend.host();
    Host {
        users: paper.users,
        facts: paper.facts,
        devices: paper.devices,
        machines: Arc::new(WithoutDevices(host::real::Machines::new(settings.machines.clone()))),
        guests: Arc::new(WithPaperGpu(guests)),
        pretended: vec!["users", "facts", "devices"],
        ..Host::real_with(Path::new(ROOT), settings)
    }
}

pub(super) fn slot(disk: &Loop, pretend: &Pretend) -> Slot {
    let hardware = pretend.snapshot().hardware;
    let gpu = hardware
        .functions
        .values()
        .find(|f| f.is_gpu())
        .expect("a GPU on paper")
        .pci;
    Slot {
        slot_id: uuid::Uuid::from_u128(0x51).into(),
        slot_index: 0,
        pci_address: gpu,
        fabric_device: None,
        nvme_device: disk.identity.by_id.clone(),
        nvme_serial: disk.identity.serial.clone(),
        nvme_wwn: disk.identity.wwn.clone(),
        nvme_size_bytes: disk.identity.size_bytes,
        numa_node: 0,
        vcpu_count: 1,
        memory_mib: 256,
        mac_address: "02:00:00:00:00:51".parse().expect("an address"),
        private_ip: "10.77.0.21".parse().expect("an address"),
    }
}

pub(super) fn params(image: &Path, slot: Slot) -> Params {
    let bytes = std::fs::read(image).expect("the guest's image");
    let dir = format!("{ROOT}/slice-images");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(format!("{dir}/mini.qcow2"), &bytes).expect("written");
    Params {
        allocation_id: AllocationId::new(),
        vm_name: "lab-vm".parse().expect("a name"),
        default_username: "ada".parse().expect("a name"),
        image_path: "mini.qcow2".parse().expect("a file name"),
        image_sha256: Sha256::of(&bytes),
        image_size_bytes: bytes.len() as u64,
        image_format: ImageFormat::Qcow2,
        image_url: None,
        image_trusted: true,
        driver_strategy: DriverStrategy::None,
        ssh_public_keys: vec![KEY.parse().expect("a key")],
        ovs_bridge: BRIDGE.parse().expect("a name"),
        graceful_timeout_seconds: 30,
        readiness_timeout_seconds: 180,
        slots: vec![slot],
    }
}

pub(super) fn good<T: serde::de::DeserializeOwned>(result: &ResultPayload) -> T {
    assert_eq!(
        result.outcome,
        Outcome::Succeeded,
        "{:?} {:?}",
        result.code,
        result.detail
    );
    serde_json::from_str(result.output.as_ref().expect("an output").get()).expect("typed")
}

fn switched(agent: &mut Agent, place: &Place, params: &Params, action: Action) -> vm_power::Output {
    let task = Task::VmPower(vm_power::Params {
        allocation_id: params.allocation_id,
        vm_name: params.vm_name.clone(),
        action,
        graceful_timeout_seconds: 30,
    });
    good(&agent.run(place, &place.house.payload(&task)))
}

pub(super) fn image() -> Option<PathBuf> {
    // Beside the tests' own programs, where the test run has it built.
    let exe = std::env::current_exe().ok()?;
    let target = exe.ancestors().find(|dir| dir.join("mini-guest").exists())?;
    Some(target.join("mini-guest/mini.qcow2")).filter(|image| image.exists())
}

#[test]
fn abuse_13b_one_vm_of_an_operation_comes_and_goes_for_real() {
    in_a_lab(|ground| {
        let Some(image) = image() else {
            println!("not run: no mini guest, tools/mini-guest.sh makes it");
            return;
        };
        let began = Instant::now();
        ground.libvirt();
        let disk = Loop::new(DISK_BYTES);
        let pretend = Pretend::in_memory(Profile::L40sx4);
        let mut place = Place::empty(Profile::L40sx4);
        place.host = Some(host(ground, &pretend));
        let policy = format!("slice_cidr = \"10.77.0.0/24\"\novs_bridges = [\"{BRIDGE}\"]\n");
        std::fs::write(place.dir.join("node.toml"), policy).expect("written");
        let place = Place::started(place);
        let mut agent = place.connect_with(PATIENCE);
        let params = params(&image, slot(&disk, &pretend));
        let payload = place.house.payload(&Task::VmProvision(params.clone()));
        let made: vm_provision::Output = good(&agent.run(&place, &payload));
        assert!(made.readiness.host_key_pinned && made.readiness.marker_seen);
        assert_eq!(
            (made.timings.len(), made.performance.disks, made.performance.vcpus),
            (17, 1, 1)
        );
        println!(
            "lab: provisioned after {} ms: {:?}",
            began.elapsed().as_millis(),
            made.timings
        );

        // The same operation under another task: the same VM goes on.
        let uuid = run("virsh", &["-c", &ground.machines.uri, "domid", "lab-vm"]);
        let mut again = payload.clone();
        (again.task_id, again.seq) = (derive_task(payload.op_id, 1), payload.seq + 1);
        let same: vm_provision::Output = good(&agent.run(&place, &again));
        assert_eq!(same.private_ip, made.private_ip);
        assert_eq!(
            run("virsh", &["-c", &ground.machines.uri, "domid", "lab-vm"]),
            uuid,
            "one VM"
        );
        place.house.payload(&Task::VmProvision(params.clone())); // the numbers go on from here

        let off = switched(&mut agent, &place, &params, Action::Stop);
        assert_eq!(
            (off.power, off.hard),
            (Power::Off, false),
            "it listens to the power button"
        );
        assert_eq!(
            switched(&mut agent, &place, &params, Action::Start).power,
            Power::Running
        );
        assert!(!disk.is_blank(), "the image is on it");
        upkeep::mends(ground, &place, &mut agent, &params);

        let task = Task::VmRelease(vm_release::Params {
            allocation_id: params.allocation_id,
            vm_name: params.vm_name.clone(),
            slots: params.slots.clone(),
            graceful_timeout_seconds: 30,
            wipe: true,
            release_nonce: Nonce::from_bytes([5; 32]),
        });
        let gone: vm_release::Output = good(&agent.run(&place, &place.house.payload(&task)));
        assert_eq!((gone.absent.left().len(), gone.leases_released), (0, 1));
        assert!(
            gone.wipe_proofs.len() == 1 && gone.wipe_proofs[0].is_clean(),
            "{gone:?}"
        );
        assert!(disk.is_blank(), "every byte");
        nothing_is_left(ground);
        println!("lab: whole walk {} ms", began.elapsed().as_millis());
    });
}

pub(super) fn nothing_is_left(ground: &Ground) {
    let domains = run("virsh", &["-c", &ground.machines.uri, "list", "--all", "--name"]);
    assert_eq!(domains.trim(), "");
    assert_eq!(run("ovs-vsctl", &["list-ports", BRIDGE]).trim(), "");
    let flows = run("ovs-ofctl", &["--no-stats", "dump-flows", BRIDGE]);
    assert_eq!(flows.trim(), "priority=0 actions=NORMAL", "{flows}");
    for dir in [
        "hosts",
        "var/lib/gpuaas/slots",
        "var/lib/gpuaas/slices",
        "var/lib/gpuaas/seeds",
        "var/lib/gpuaas/telemetry",
    ] {
        let left = std::fs::read_dir(Path::new(ROOT).join(dir)).expect("made").count();
        assert_eq!(left, 0, "{dir}");
    }
}
