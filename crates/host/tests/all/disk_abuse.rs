//! Attacks on disks and GPUs: the wrong one, one in use, a wipe that did not wipe, a GPU that was not reset. On real
//! block devices where there are some, else on the pretend machine.

use std::fs;
use std::os::fd::AsFd;

use host::pretend::{Fault, Hardware, Pretend, Profile};
use host::{Markers, OpenDisk, Sought, Wiped};
use model::id::SlotId;
use model::proof::{Verdict, WipeMethod, WipeProof};
use model::signal::Code;
use model::time::Timestamp;
use model::value::{DiskIdentity, Serial};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::facts::Scratch;
use crate::loops::{Loop, nonce};
use crate::tree::{on_a_tree, path, program};

const MIB: u64 = 1 << 20;

fn serial(text: &str) -> Serial {
    text.parse().expect("plain text")
}

fn refused(disk: &Loop, why: &str) {
    let error = disk.open().map(drop).expect_err("guarded");
    assert_eq!(error.code(), Code::DiskGuard, "{error}");
    assert!(error.to_string().contains(why), "{error}");
}

/// Another serial number, name or size; mounted, a partition mounted, swap, held, renamed, taken: nothing is opened,
/// and not a byte of the disk changes.
#[test]
fn abuse_29_wrong_disk() {
    on_a_tree(|_| {
        let disk = Loop::new("wrong", 8 * MIB);
        disk.write(b"a neighbour's data", 4 * MIB);
        let before = disk.bytes();
        let good = disk.open().expect("all of it fits");
        refused(&disk, "exclusively");
        drop(good);
        let mut other = Loop::new("other", 8 * MIB);
        for (change, why) in [
            (
                (|id: &mut DiskIdentity| id.serial = serial("S-x")) as fn(&mut _),
                "serial number",
            ),
            (|id| id.wwn = serial("eui.x"), "world-wide name"),
            (|id| id.size_bytes += 512, "size"),
        ] {
            let mut identity = disk.identity.clone();
            change(&mut identity);
            let error = disk
                .host()
                .disks
                .open_guarded(&identity)
                .map(drop)
                .expect_err("another disk");
            assert!(
                error.code() == Code::DiskGuard && error.to_string().contains(why),
                "{error}"
            );
        }
        // The name leads to another disk since the last boot; what the task was signed for is not there.
        let link = disk.root.join("dev/disk/by-id").join(disk.identity.by_id.as_str());
        fs::remove_file(&link).expect("removed");
        let error = disk.open().map(drop).expect_err("no such name");
        assert_eq!(error.code(), Code::DiskMissing, "{error}");
        other.identity.by_id = disk.identity.by_id.clone();
        std::os::unix::fs::symlink(&other.node, &link).expect("link");
        std::os::unix::fs::symlink(
            "../../block/nvme9n1",
            disk.root.join(format!("sys/dev/block/{}", other.number())),
        )
        .expect("link");
        disk.put("sys/block/nvme9n1/device/serial", "S-other\n");
        refused(&disk, "S-other");
        assert_eq!(disk.bytes(), before, "not a byte");
    });
}

#[test]
fn abuse_29_disk_in_use() {
    on_a_tree(|_| {
        let disk = Loop::new("used", 16 * MIB);
        let made = program("mkfs.ext4")
            .arg("-q")
            .arg(&disk.node)
            .status()
            .expect("mkfs starts");
        assert!(made.success());
        let before = disk.bytes();
        let at = path("mounted");
        fs::create_dir(&at).expect("make a directory");
        mount(&disk.node, &at, "ext4", MountFlags::RDONLY, c"noload").expect("mounted");
        refused(&disk, "mounted at /mnt/mounted");
        unmount(&at, UnmountFlags::empty()).expect("unmounted");
        drop(disk.open().expect("free again"));

        // A partition of it is mounted: another number, and not a word about the disk itself.
        let part = Loop::new("part", 16 * MIB);
        let made = program("mkfs.ext4")
            .arg("-q")
            .arg(&part.node)
            .status()
            .expect("mkfs starts");
        assert!(made.success());
        disk.put("sys/block/nvme9n1/nvme9n1p1/partition", "1\n");
        disk.put("sys/block/nvme9n1/nvme9n1p1/dev", &format!("{}\n", part.number()));
        drop(disk.open().expect("not mounted yet"));
        mount(&part.node, &at, "ext4", MountFlags::RDONLY, c"noload").expect("mounted");
        refused(&disk, "mounted at /mnt/mounted");
        unmount(&at, UnmountFlags::empty()).expect("unmounted");

        disk.put("proc/swaps", "Filename Type Size\n/dev/nvme9n1 partition 8\n");
        refused(&disk, "swap on /dev/nvme9n1");
        disk.put("proc/swaps", "Filename Type Size\n");
        disk.put("sys/block/nvme9n1/nvme9n1p1/holders/dm-0/x", "");
        refused(&disk, "held by dm-0");
        assert_eq!(disk.bytes(), before, "not a byte");
    });
}

/// Two namespaces on one controller: what would reach both is not offered and not done, and the other keeps its data.
#[test]
fn abuse_29b_neighbours_namespace() {
    let machine = Pretend::in_memory(Profile::H100x8);
    let disk = machine.host().disks.disks().expect("a look").disks.remove(2);
    machine.meddle(|state| {
        let there = state.hardware.disks.get_mut(&disk.identity.by_id).expect("there");
        there.disk.namespaces = 2;
        let mut other = there.clone();
        other.disk.identity.by_id = "nvme-SIMULATED_other_2".parse().expect("a name");
        other.written.insert("neighbour/data".to_owned());
        state.hardware.disks.insert(other.disk.identity.by_id.clone(), other);
    });
    let open = machine.host().disks.open_guarded(&disk.identity).expect("free");
    for method in [
        WipeMethod::SanitizeCrypto,
        WipeMethod::SanitizeBlock,
        WipeMethod::FormatCrypto,
        WipeMethod::FormatData,
    ] {
        assert_eq!(open.wipe(method).expect_err("a neighbour").code(), Code::DiskGuard);
    }
    for method in open.wipe_methods().expect("a look") {
        open.wipe(method).expect("this one alone");
    }
    let neighbour = &machine.snapshot().hardware.disks[&"nvme-SIMULATED_other_2".parse().expect("a name")];
    assert!(neighbour.written.contains("neighbour/data"));
}

/// The same on a real controller's files: alone it is told to forget; with a namespace or a controller beside it, which
/// the kernel or only the controller itself knows of, it is never asked to.
#[test]
fn abuse_29b_neighbour_behind_a_controller() {
    on_a_tree(|_| {
        type Plant = fn(&Loop);
        let alone: Plant = |_| ();
        let cases: [(&str, &str, Plant, bool); 8] = [
            ("alone", r#"{"nsid":1}"#, alone, true),
            ("unseen", r#"{"nsid":1},{"nsid":2}"#, alone, false),
            (
                "beside",
                r#"{"nsid":1}"#,
                |disk| disk.put("sys/class/nvme/nvme9/nvme9n2/x", ""),
                false,
            ),
            (
                "shared",
                r#"{"nsid":1}"#,
                |disk| disk.put("sys/class/nvme-subsystem/nvme-subsys9/nvme8/x", ""),
                false,
            ),
            ("other", r#"{"nsid":2}"#, alone, false),
            ("below", r#"{"nsid":1}"#, Loop::hang_on_subsystem, true),
            (
                "below-beside",
                r#"{"nsid":1}"#,
                |disk| {
                    disk.hang_on_subsystem();
                    disk.put("sys/class/nvme/nvme3/nvme9c3n2/x", "");
                },
                false,
            ),
            (
                "below-shared",
                r#"{"nsid":1}"#,
                |disk| {
                    disk.hang_on_subsystem();
                    disk.put("sys/class/nvme-subsystem/nvme-subsys9/nvme8/x", "");
                },
                false,
            ),
        ];
        for (name, namespaces, plant, offered) in cases {
            let disk = Loop::new(name, 8 * MIB);
            disk.with_tool(namespaces);
            plant(&disk);
            let open = disk.open().expect("free");
            let methods = open.wipe_methods().expect("a look");
            let all = [
                WipeMethod::SanitizeCrypto,
                WipeMethod::FormatCrypto,
                WipeMethod::FormatData,
            ];
            for method in all {
                assert_eq!(methods.contains(&method), offered, "{name}: {methods:?}");
            }
            let markers = Markers::new(nonce(), disk.identity.size_bytes).expect("room");
            let planted = open.plant(&markers).expect("planted");
            for method in all {
                let told = disk.told();
                match open.wipe(method) {
                    Ok(wiped) => {
                        assert!(offered, "{name}");
                        let proof = proof(&*open, planted, wiped, open.seek(&markers, method).expect("a look"));
                        assert_eq!((proof.verdict, proof.markers_found), (Verdict::Clean, 0), "{proof:?}");
                    }
                    Err(error) => {
                        assert_eq!((error.code(), offered), (Code::DiskGuard, false), "{name}: {error}");
                        assert_eq!(disk.told(), told, "{name}: nobody was told anything");
                    }
                }
            }
            let wipes = disk
                .told()
                .lines()
                .filter(|line| line.starts_with("sanitize /dev") || line.starts_with("format"))
                .count();
            assert_eq!(wipes, if offered { 3 } else { 0 }, "{name}: {}", disk.told());
        }
    });
}

/// Its controller and its neighbours are found there, too, as long as there is one to be asked.
#[test]
fn a_disk_below_a_subsystem_has_the_only_controller() {
    on_a_tree(|_| {
        let disk = Loop::new("subsystem", 8 * MIB);
        disk.with_tool(r#"{"nsid":1}"#);
        disk.hang_on_subsystem();
        let look = || {
            let list = disk.host().disks.disks().expect("a look");
            let [seen] = &list.disks[..] else {
                panic!("one disk: {list:?}")
            };
            (seen.controller.map(|pci| pci.to_string()), seen.namespaces)
        };
        let address = Some("0000:17:00.0".to_owned());
        assert_eq!(look(), (address.clone(), 1));
        disk.open().expect("free");
        assert!(disk.told().starts_with("id-ctrl /dev/nvme3 "), "{}", disk.told());
        disk.put("sys/class/nvme/nvme3/nvme9c3n2/x", "");
        assert_eq!(look(), (address, 2));
        disk.put("sys/class/nvme-subsystem/nvme-subsys9/nvme8/address", "0000:18:00.0\n");
        assert_eq!(look(), (None, 1), "which of the two nobody knows");
    });
}

fn proof(disk: &dyn OpenDisk, planted: u32, wiped: Wiped, sought: Sought) -> WipeProof {
    let (id, at) = (
        disk.identity(),
        "2026-11-15T10:00:00Z".parse::<Timestamp>().expect("a time"),
    );
    let mut proof = WipeProof {
        slot_id: SlotId::new(),
        nvme_device: id.by_id.clone(),
        serial: id.serial.clone(),
        wwn: id.wwn.clone(),
        size_bytes: id.size_bytes,
        method: wiped.method,
        tool_rc: wiped.tool_rc,
        nonce: nonce(),
        markers_planted: planted,
        markers_found: sought.markers_found,
        signatures_found: sought.signatures_found,
        read_back_bytes: sought.read_back_bytes,
        blocks_not_zero: sought.blocks_not_zero,
        started_at: at,
        ended_at: at,
        verdict: Verdict::Dirty,
    };
    proof.verdict = proof.judge();
    proof
}

/// Wiped by every method that the disk has, it is clean; by a tool that does nothing or stops half-way, never.
#[test]
fn abuse_30_wipe_that_did_not_wipe() {
    on_a_tree(|_| {
        // On a real file system: a disk in memory cannot write zeros itself, and says only then that it cannot.
        let dir = Scratch::new("wiped");
        let file = dir.0.join("disk.img");
        fs::File::create(&file)
            .and_then(|file| file.set_len(64 * MIB))
            .expect("a file");
        let disk = Loop::over("wiped", &file, 64 * MIB);
        for method in [WipeMethod::WriteZeroes, WipeMethod::Overwrite] {
            for mib in 0..64 {
                disk.write(b"tenant's secret", mib * MIB + 77);
            }
            let made = program("mkfs.ext4")
                .arg("-qF")
                .arg(&disk.node)
                .status()
                .expect("mkfs starts");
            assert!(made.success());
            let open = disk.open().expect("free");
            let markers = Markers::new(nonce(), disk.identity.size_bytes).expect("room");
            let planted = open.plant(&markers).expect("planted");
            // A tool that says that it wiped.
            let lie = Wiped { method, tool_rc: 0 };
            let dirty = proof(&*open, planted, lie, open.seek(&markers, method).expect("a look"));
            assert_eq!((dirty.verdict, dirty.markers_found), (Verdict::Dirty, 1026));
            assert!(dirty.blocks_not_zero >= 1026);
            let wiped = open.wipe(method).expect("wiped");
            assert_eq!(wiped.method, method);
            let clean = proof(&*open, planted, wiped, open.seek(&markers, method).expect("a look"));
            assert_eq!(
                (clean.verdict, clean.read_back_bytes),
                (Verdict::Clean, 64 * MIB),
                "{clean:?}"
            );
            assert!(disk.bytes().iter().all(|byte| *byte == 0), "{method:?}");
            // One sector of one marker came back.
            let offset = markers.offsets().nth(500).expect("many");
            disk.write(&markers.block(offset)[1024..1536], offset + 1024);
            let dirty = proof(&*open, planted, wiped, open.seek(&markers, method).expect("a look"));
            assert_eq!(
                (dirty.verdict, dirty.markers_found, dirty.blocks_not_zero),
                (Verdict::Dirty, 1, 1)
            );
            disk.write(&[0; 512], offset + 1024);
            // A disk that was skipped has no markers to have lost.
            let skipped = proof(&*open, 0, wiped, open.seek(&markers, method).expect("a look"));
            assert_eq!(skipped.verdict, Verdict::Dirty);
            let left_out = Sought {
                read_back_bytes: MIB,
                ..Sought::default()
            };
            assert_eq!(proof(&*open, planted, wiped, left_out).verdict, Verdict::Dirty);
            assert!(open.wipe(WipeMethod::SanitizeCrypto).is_err(), "not offered");
        }
    });
}

#[test]
fn a_disk_that_cannot_write_zeros_itself_is_overwritten() {
    on_a_tree(|_| {
        let disk = Loop::new("memory", 8 * MIB);
        disk.write(b"tenant's secret", 3 * MIB);
        let open = disk.open().expect("free");
        assert_eq!(
            open.wipe_methods().expect("a look"),
            [WipeMethod::WriteZeroes, WipeMethod::Overwrite]
        );
        let wiped = open.wipe(WipeMethod::WriteZeroes).expect("wiped");
        println!("by {:?}", wiped.method);
        assert!(wiped.method.leaves_zeros() && disk.bytes().iter().all(|byte| *byte == 0));
    });
}

/// The disk fails in the middle of it.
#[test]
fn abuse_30_wipe_that_stops() {
    on_a_tree(|_| {
        let small = path("small");
        fs::create_dir(&small).expect("make a directory");
        mount("tmpfs", &small, "tmpfs", MountFlags::empty(), Some(c"size=4m")).expect("mounted");
        let file = small.join("sparse.img");
        fs::File::create(&file)
            .and_then(|file| file.set_len(16 * MIB))
            .expect("a file");
        let disk = Loop::over("stops", &file, 16 * MIB);
        let open = disk.open().expect("free");
        let markers = Markers::new(nonce(), 2 * MIB).expect("room");
        open.plant(&markers).expect("there is room for these");
        assert!(open.fd().is_some_and(|fd| rustix::fs::fstat(fd.as_fd()).is_ok()));
        let error = open.wipe(WipeMethod::Overwrite).expect_err("no room behind it");
        assert_eq!(error.code(), Code::WipeUnproved, "{error}");
        drop(open);
        drop(disk);
        unmount(&small, UnmountFlags::DETACH).expect("unmounted");
    });
}

/// What the last tenant left in a GPU goes with a reset that is proved; one that failed, or after which the GPU is not
/// what it was, is no proof, and there is no way to go on without one.
#[test]
fn abuse_31_gpu_residue() {
    let plant = |hardware: &mut Hardware| {
        let gpus: Vec<_> = hardware
            .functions
            .values()
            .filter(|f| f.is_gpu())
            .map(|f| f.pci)
            .collect();
        hardware.residue.extend(gpus.iter().copied());
        gpus
    };
    let machine = Pretend::in_memory(Profile::H100x8);
    let mut gpus = Vec::new();
    machine.meddle(|state| gpus = plant(&mut state.hardware));
    let [fails, lost, other_rom, taken, good] = [gpus[0], gpus[1], gpus[2], gpus[3], gpus[4]];
    machine.meddle(|state| {
        let faults = &mut state.hardware.faults;
        faults.extend([Fault::ResetFails(fails), Fault::ResetLosesIt(lost)]);
        faults.extend([Fault::RomChanges(other_rom), Fault::DriverChanges(taken)]);
    });
    let devices = machine.host().devices;
    for (pci, code) in [
        (fails, Code::GpuResetFailed),
        (lost, Code::GpuResetFailed),
        (other_rom, Code::GpuResetFailed),
        (taken, Code::GpuNotReturned),
    ] {
        let rom = devices.vbios_sha256(pci).expect("a look");
        let error = devices.reset(pci, rom).expect_err("not proved");
        assert_eq!(error.code(), code, "{pci}: {error}");
    }
    assert!(
        machine.snapshot().hardware.residue.contains(&fails),
        "the attack was mounted"
    );
    let proof = devices
        .reset(good, devices.vbios_sha256(good).expect("a look"))
        .expect("proved");
    assert!(
        proof.vbios_compared && !proof.memory_overwritten,
        "what is not done is not claimed"
    );
    assert!(!machine.snapshot().hardware.residue.contains(&good));
}
