//! What a task's devices may take at the most, each write of theirs as long as it may: it has to fit into the time that
//! the task has, or a machine that is merely slow would be one that always fails.

use std::fs;
use std::time::Duration;

use host::Devices as _;
use host::pretend::{Profile, tree};
use host::real::{self, CONVERT_LIMIT, WIPE_LIMIT};
use model::task::{vm_provision, vm_release};
use model::value::Pci;

use crate::kernel::{Kernel, Tree};
use crate::rom::Particular;

/// All that a machine has.
const GPUS: u64 = 8;
/// Sanitize and format, each in two ways; and before them the sanitize that somebody else has begun.
const LONG_WIPES: u64 = 5;

/// The seconds that `work` on every GPU and its fabric function could take, where each has a driver and sleeps.
fn most_s(name: &str, work: impl Fn(&real::Devices, Pci)) -> u64 {
    let mut given = Vec::new();
    let grown = Tree::with(name, Profile::H100x8, |hardware| {
        let all = hardware.functions.values_mut();
        for function in all.filter(|f| f.is_gpu() || f.is_fabric() && f.physical_function.is_some()) {
            let driver = if function.is_gpu() { "nvidia" } else { "mlx5_core" };
            function.driver = Some(driver.to_owned());
            function.d3cold_allowed = Some(true);
            given.push((function.pci, function.is_gpu()));
        }
    });
    let gpus = given.iter().filter(|(_, is_gpu)| *is_gpu).count() as u64;
    assert_eq!(
        (gpus, given.len() as u64),
        (GPUS, 2 * GPUS),
        "one of each for each slot"
    );
    let kernel = Kernel::of(grown.root());
    let particular = Particular {
        kernel: kernel.clone(),
        rom: Some("a ROM"),
        wakes: true,
    };
    for (pci, _) in &given {
        let home = grown.root().join(tree::home(&grown.hardware, *pci));
        fs::create_dir(home.join("power")).expect("a directory");
        fs::write(home.join("power/control"), "auto\n").expect("write");
        fs::write(home.join("rom"), "").expect("write");
        particular.show(&home, false);
    }
    let devices = real::Devices::with_writer(grown.root(), Box::new(particular));
    given.iter().for_each(|(pci, _)| work(&devices, *pci));
    let limits = kernel.limits.lock().expect("nobody panicked");
    limits.iter().map(|(_, limit)| limit).sum::<Duration>().as_secs()
}

#[test]
fn eight_gpus_are_bound_and_read_beside_the_slowest_image_within_a_provision() {
    let devices_s = most_s("provided", |devices, pci| {
        devices.ensure_vfio_bound(pci).expect("bound");
        devices.vbios_sha256(pci).expect("a look");
    });
    let of_s = |gpus: u64| devices_s / GPUS * gpus + CONVERT_LIMIT.as_secs();
    let has_s = u64::from(vm_provision::SPEC.max_runtime_s);
    assert!(of_s(8) <= has_s, "{} s of {has_s} s", of_s(8));
    // Sixteen would need this much, and more for the start of a VM of their size. They do not have it.
    assert_eq!((of_s(8), of_s(16)), (9_480, 12_360));
}

#[test]
fn eight_gpus_are_reset_beside_the_slowest_disk_within_a_release() {
    let devices_s = most_s("released", |devices, pci| {
        devices.ensure_vfio_bound(pci).expect("bound");
        devices.reset(pci, None).expect("a proof");
    });
    // Disks are wiped at once, devices are reset one after the other.
    let of_s = |gpus: u64| devices_s / GPUS * gpus + LONG_WIPES * WIPE_LIMIT.as_secs();
    let has_s = u64::from(vm_release::SPEC.max_runtime_s);
    assert!(of_s(8) <= has_s, "{} s of {has_s} s", of_s(8));
    // Sixteen would have room, too.
    assert_eq!((of_s(8), of_s(16)), (76_320, 80_640));
}
