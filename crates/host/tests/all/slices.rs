//! What is written for other programs to read: the definition of a VM, the flows of a port, the first-boot files. The
//! golden files are for a person to read; nothing hostile becomes anything but text in them.

use std::fs;

use host::real::{Cell, Layout, Slices as Real, Surroundings, domain, flows};
use host::{Machine, Part, Plug, Port, Slice, Slices, Wish};
use model::id::AllocationId;
use model::task::vm_provision::DriverStrategy;
use serde_json::Value;

use crate::facts::Scratch;
use crate::tree::keys;

fn allocation() -> AllocationId {
    "alloc_00000000000000000000000004".parse().expect("an id")
}

fn machine(parts: u32) -> Machine {
    let part = |n: u32| Part {
        numa_node: n / 2,
        vcpus: 2,
        memory_mib: 65_536,
        disk: format!("nvme-disk-{n}").parse().expect("a disk"),
        devices: vec![
            format!("0000:{:02x}:00.0", 0x18 + n).parse().expect("a function"),
            format!("0000:{:02x}:00.1", 0x18 + n).parse().expect("a function"),
        ],
    };
    Machine {
        name: "ada-vm".parse().expect("a name"),
        allocation: allocation(),
        op: "op_00000000000000000000000008".parse().expect("an id"),
        parts: (0..parts).map(part).collect(),
        seed: "/var/lib/gpuaas/seeds/ada-vm.iso".into(),
        interface: "gpus0".to_owned(),
        mac: "02:11:22:33:44:55".parse().expect("an address"),
    }
}

fn layout(nodes: u32) -> Layout {
    let cell = |node: u32| Cell {
        node,
        cpus: format!("{}-{},{}-{}", node * 32, node * 32 + 31, 64 + node * 32, 95 + node * 32),
        hugepage_kib: (node == 0).then_some(1 << 20),
    };
    Layout {
        kvm: true,
        cells: (0..nodes).map(cell).collect(),
        plain_frames: false,
        disks: "/dev/disk/by-id".to_owned(),
    }
}

fn holds(name: &str, golden: &str, actual: &str) {
    assert!(golden == actual, "tests/golden/{name} should now be:\n{actual}");
}

#[test]
fn a_vm_of_one_slot_and_of_three() {
    let one = domain(&machine(1), &layout(1));
    holds("domain-one.xml", include_str!("../golden/domain-one.xml"), &one);
    let three = domain(&machine(3), &layout(2));
    holds("domain-three.xml", include_str!("../golden/domain-three.xml"), &three);
}

fn port() -> Port {
    Port {
        plug: Plug {
            vm: "ada-vm".parse().expect("a name"),
            allocation: allocation(),
            slot_index: 3,
        },
        bridge: "br-slice".parse().expect("a name"),
        mac: "02:11:22:33:44:55".parse().expect("an address"),
        ip: "10.100.0.13".parse().expect("an address"),
    }
}

#[test]
fn a_port_may_do_this_and_nothing_else() {
    let around = Surroundings {
        gateway: Some("10.100.0.1".parse().expect("an address")),
        own: vec!["10.100.0.1".parse().expect("own"), "203.0.113.9".parse().expect("own")],
        reachable: vec!["10.50.0.0/16".parse().expect("a network")],
    };
    holds(
        "flows.txt",
        include_str!("../golden/flows.txt"),
        &flows(&port(), &around),
    );
}

/// The first-boot file with what is random taken out.
fn first_boot(name: &str, wish: &Wish) -> (String, Value) {
    let dir = Scratch::new(name);
    let slices = Real::under(&dir.0);
    let slice = Slice {
        vm: "ada-vm".parse().expect("a name"),
        allocation: allocation(),
    };
    for _ in 0..2 {
        slices.ensure_dir(&slice).expect("a directory");
        slices.ensure_keys(&slice).expect("keys");
        let mac = "02:11:22:33:44:55".parse().expect("an address");
        slices
            .ensure_telemetry(&slice, mac, [10, 100, 0, 13].into())
            .expect("registered");
        slices.ensure_seed_files(&slice, wish).expect("written");
        slices.ensure_seed_image(&slice).expect("made");
    }
    let home = dir.0.join("var/lib/gpuaas/slices/ada-vm");
    let read = |file: &str| fs::read_to_string(home.join(file)).expect("readable");
    let mut text = read("user-data");
    let value = serde_json::from_str(text.strip_prefix("#cloud-config\n").expect("its head")).expect("JSON");
    for (secret, word) in [
        (read("ssh_host_ed25519_key"), "HOST-PRIVATE"),
        (read("ssh_host_ed25519_key.pub"), "HOST-PUBLIC"),
        (read("id_ed25519.pub"), "WAY-IN"),
        (read("telemetry-token"), "TOKEN"),
    ] {
        let quoted = serde_json::to_string(&secret).expect("text");
        assert!(text.contains(quoted.trim_matches('"')), "{word}");
        text = text.replace(quoted.trim_matches('"'), word);
    }
    let disk = fs::read(slices.seed_image(&slice)).expect("a disk");
    assert_eq!(&disk[0x8028..0x802e], b"cidata");
    slices.ensure_no_telemetry(&slice).expect("gone");
    slices.ensure_no_dir(&slice).expect("gone");
    assert!(!slices.has_dir(&slice).expect("look") && !slices.seed_image(&slice).exists());
    (text, value)
}

#[test]
fn the_first_boot_is_told_this() {
    let wish = Wish {
        user: "ada".parse().expect("a name"),
        keys: keys(),
        drivers: DriverStrategy::CloudInit,
    };
    let (text, _) = first_boot("first-boot", &wish);
    holds("user-data", include_str!("../golden/user-data"), &text);
}

#[test]
fn abuse_23_first_boot_configuration_in_a_key() {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    let mut taken = Vec::new();
    let hostile = [
        "x\nruncmd:\n  - [reboot]",
        "x: [y]",
        "!!python/object/apply:os.system [id]",
        "#cloud-config",
        "\"}],\"runcmd\":[[\"reboot\"]],\"x\":[{\"",
        "\u{2028}runcmd: [reboot]",
    ];
    for comment in hostile {
        // As a name it does not parse; as a key's comment it parses or not, and is never written.
        assert!(comment.parse::<model::value::Name>().is_err(), "{comment:?}");
        taken.extend(format!("{key} {comment}").parse::<model::value::SshKey>().ok());
    }
    assert!(!taken.is_empty(), "some are only comments");
    let wish = Wish {
        user: "ada".parse().expect("a name"),
        keys: taken.clone(),
        drivers: DriverStrategy::None,
    };
    let (text, value) = first_boot("smuggled", &wish);
    assert_eq!(text.matches("cloud-config").count(), 1);
    for word in ["!!python", "os.system", "reboot", "\u{2028}"] {
        assert!(!text.contains(word), "{word}");
    }
    assert_eq!(value["users"].as_array().map(Vec::len), Some(1));
    let written = value["users"][0]["ssh_authorized_keys"].as_array().expect("keys");
    assert_eq!(written.len(), taken.len() + 1, "theirs and our own");
    assert_eq!(value["runcmd"].as_array().map(Vec::len), Some(3), "ours alone");
}

#[test]
fn abuse_22_markup_and_options_in_a_definition() {
    let mut machine = machine(1);
    // The one place where a path of any kind could come in.
    machine.seed = "/x'/><disk type='file'>&\n<source file='/etc/shadow'/></disk>,readonly=off".into();
    machine.interface = "-x,y=<z>".to_owned();
    let xml = domain(&machine, &layout(1));
    let honest = domain(&self::machine(1), &layout(1));
    assert_eq!(xml.matches('<').count(), honest.matches('<').count(), "{xml}");
    assert_eq!(xml.lines().count(), honest.lines().count());
    assert!(xml.contains("&lt;source file=&apos;/etc/shadow&apos;/&gt;"), "{xml}");
    for hostile in ["x,readonly=off", "x<y", "a&b", "a\nb", "-x", "--help", "a b", "a=b", ""] {
        assert!(hostile.parse::<model::value::Name>().is_err(), "{hostile:?}");
        assert!(hostile.parse::<model::value::DiskId>().is_err(), "{hostile:?}");
        assert!(hostile.parse::<model::value::FileName>().is_err(), "{hostile:?}");
        assert!(hostile.parse::<model::value::Pci>().is_err(), "{hostile:?}");
        assert!(hostile.parse::<model::value::MacAddress>().is_err(), "{hostile:?}");
    }
}
