//! Facts read from a /proc and /sys that we wrote ourselves, and from the machine we are on.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use host::Host;
use host::pretend::{Pretend, Profile};
use model::task::health_probe::{FabricLink, Gpu};

/// A directory that goes away again.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("host-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("make a directory");
        Self(dir)
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().expect("below the directory")).expect("make a directory");
        fs::write(path, text).expect("write");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("leave nothing behind");
    }
}

#[test]
fn facts_of_a_machine_with_a_gpu() {
    let tree = Scratch::new("facts");
    tree.write("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
    tree.write("proc/meminfo", "MemTotal: 2 kB\nMemAvailable:   3145728 kB\n");
    tree.write("proc/cpuinfo", "processor: 0\nflags\t\t: fpu svm sse\n");
    tree.write("dev/kvm", "");
    tree.write("sys/module/vfio_pci/x", "");
    tree.write("sys/module/vfio/x", "");
    tree.write("sys/module/ext4/x", "");
    for (address, vendor, class) in [
        ("0000:17:00.0", "0x10de", "0x030200"),
        ("0000:17:00.1", "0x10de", "0x040300"), // its audio function
        ("0000:18:00.0", "0x1a03", "0x030000"), // the board's own display
        ("0000:19:00.0", "0x10de", "0x030200"),
    ] {
        let dir = format!("sys/bus/pci/devices/{address}");
        tree.write(&format!("{dir}/vendor"), vendor);
        tree.write(&format!("{dir}/class"), class);
        tree.write(&format!("{dir}/device"), "0x2330\n");
    }
    symlink(
        "../../drivers/vfio-pci",
        tree.0.join("sys/bus/pci/devices/0000:17:00.0/driver"),
    )
    .expect("link");
    tree.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    tree.write("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
    tree.write("sys/class/net/ens1np0/device/vendor", "0x15b3\n");
    tree.write("sys/class/net/ens1np0/operstate", "up\n");
    tree.write("sys/class/net/eno1/device/vendor", "0x8086\n");

    let facts = Host::real_under(&tree.0).facts;
    assert_eq!(facts.kernel_version().expect("kernel"), "6.8.0-45-generic");
    assert_eq!(facts.free_memory_mib().expect("memory"), 3072);
    assert!(facts.kvm_present().expect("kvm"));
    assert_eq!(facts.vfio_modules().expect("modules"), ["vfio", "vfio_pci"]);
    let gpu = |address: &str, driver: Option<&str>| Gpu {
        pci_address: address.into(),
        model: "H100".into(),
        driver: driver.map(Into::into),
    };
    assert_eq!(
        facts.gpus().expect("gpus"),
        [gpu("0000:17:00.0", Some("vfio-pci")), gpu("0000:19:00.0", None)]
    );
    let link = |name: &str, up| FabricLink { name: name.into(), up };
    let links = [link("mlx5_0/1", true), link("mlx5_1/1", false), link("ens1np0", true)];
    assert_eq!(facts.fabric_links().expect("links"), links);
    assert!(facts.root_free_bytes().expect("space") > 0);

    tree.write("proc/cpuinfo", "flags\t\t: fpu sse\n");
    assert!(
        !facts.kvm_present().expect("kvm"),
        "a device without processor support is none"
    );
}

/// The guard before a machine is handed on asks this: it must not miss a GPU, whoever made it.
#[test]
fn whatever_computes_is_a_gpu_and_what_cannot_be_read_is_an_error() {
    let tree = Scratch::new("guard");
    let facts = Host::real_under(&tree.0).facts;
    assert!(facts.gpus().is_err(), "no /sys is not no GPUs");
    tree.write("sys/bus/x", "");
    assert_eq!(facts.gpus().expect("a kernel without PCI"), []);
    for (address, vendor, class) in [
        ("0000:01:00.0", "0x1002", "0x038000\n"),
        ("0000:02:00.0", "0x19e5", "0x120000\n"), // an accelerator of somebody who also makes consoles
        ("0000:03:00.0", "0x102b", "0x030000\n"),
        ("0000:04:00.0", "0x8086", "0x020000\n"),
    ] {
        let dir = format!("sys/bus/pci/devices/{address}");
        tree.write(&format!("{dir}/vendor"), vendor);
        tree.write(&format!("{dir}/class"), class);
        tree.write(&format!("{dir}/device"), "0x74a1\n");
    }
    let gpus = facts.gpus().expect("gpus");
    let models: Vec<_> = gpus.iter().map(|gpu| gpu.model.as_str()).collect();
    assert_eq!(models, ["MI300X", "19e5:74a1"]);
    fs::remove_file(tree.0.join("sys/bus/pci/devices/0000:04:00.0/class")).expect("remove");
    assert!(facts.gpus().is_err(), "it may be one");
}

#[test]
fn facts_of_this_machine_can_be_read() {
    let facts = Host::real().facts;
    assert!(!facts.kernel_version().expect("kernel").is_empty());
    assert!(facts.free_memory_mib().expect("memory") > 0);
    assert!(facts.root_free_bytes().expect("space") > 0);
    facts.kvm_present().expect("kvm");
    facts.vfio_modules().expect("modules");
    facts.gpus().expect("gpus");
    facts.fabric_links().expect("links");
    assert!(!Host::real().is_simulated());
}

#[test]
fn profiles_are_machines_by_name() {
    for (name, gpus) in [("sim:h100x8", 8), ("sim:l40sx4", 4), ("sim:cpu", 0)] {
        let profile: Profile = name.parse().expect("a profile");
        let host = Pretend::in_memory(profile).host();
        assert_eq!(
            (profile.to_string().as_str(), host.facts.gpus().expect("gpus").len()),
            (name, gpus)
        );
        assert!(host.is_simulated());
    }
    assert!("h100x8".parse::<Profile>().is_err());
}
