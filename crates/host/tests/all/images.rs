//! Images: an honest one comes through byte for byte; everything that is not exactly what was signed, or that would
//! have its reader open other files, does not.

use std::fs::{self, File};
use std::iter;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use host::real::Images as Real;
use host::{Image, Images, Markers, OpenDisk, Sought, Source, Wiped};
use model::digest::Sha256;
use model::proof::WipeMethod;
use model::signal::Code;
use model::task::vm_provision::ImageFormat;
use model::value::DiskIdentity;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::facts::Scratch;
use crate::tree::program;

const SECRET: &[u8] = b"a secret of the host that no guest may ever read, 0123456789";

pub(crate) struct Desk {
    dir: Scratch,
    pub(crate) images: Real,
}

impl Desk {
    /// None where nothing can be converted.
    pub(crate) fn new(name: &str) -> Option<Self> {
        if !PathBuf::from("/usr/bin/qemu-img").exists() || !rustix::process::geteuid().is_root() {
            println!("not run: needs root and qemu-img");
            return None;
        }
        let dir = Scratch::new(name);
        fs::create_dir_all(dir.0.join("images")).expect("a directory");
        let images = Real::under(&dir.0, vec![dir.0.join("images")]);
        Some(Self { dir, images })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.0.join(name)
    }

    pub(crate) fn qemu_img(&self, args: &[&str]) {
        let run = || {
            let done = program("qemu-img").args(args).current_dir(&self.dir.0).output();
            let done = done.expect("qemu-img starts");
            (
                done.status.success(),
                String::from_utf8_lossy(&done.stderr).into_owned(),
            )
        };
        // It measures its own time to make a key, and gives up where the kernel's clock of that is too coarse.
        let mut tries = iter::repeat_with(run).take(50);
        let ended = tries.find(|(_, said)| !said.contains("accurate CPU usage"));
        let (success, said) = ended.expect("a key is made");
        assert!(success, "{said}");
    }

    /// A file in the image directory, as a task would name it.
    pub(crate) fn image(&self, name: &str, format: ImageFormat) -> Image {
        let bytes = fs::read(self.path("images").join(name)).unwrap_or_default();
        Image {
            name: name.parse().expect("a file name"),
            sha256: Sha256::of(&bytes),
            size_bytes: bytes.len() as u64,
            format,
            trusted: true,
            listed: false,
        }
    }

    /// Every part of an honest way, without the looks in between if `blindly`.
    pub(crate) fn go(&self, image: &Image, blindly: bool) -> Result<Vec<u8>, Code> {
        let disk = Disk::blank(self, 4 << 20);
        let code = |error: host::Error| error.code();
        self.images.ensure_stored(image).map_err(code)?;
        if !blindly {
            self.images.verify(image).map_err(code)?;
        }
        let written = self.images.write(image, &disk).map_err(code);
        let bytes = fs::read(self.path("disk")).expect("readable");
        assert!(
            !bytes.windows(SECRET.len()).any(|seen| seen == SECRET),
            "the host's file is on the disk"
        );
        written.map(|()| bytes)
    }

    fn stored(&self) -> usize {
        fs::read_dir(self.path("var/lib/gpuaas/executor/images")).map_or(0, Iterator::count)
    }
}

/// A file that stands for a disk.
pub(crate) struct Disk {
    file: File,
    identity: DiskIdentity,
}

impl Disk {
    pub(crate) fn blank(desk: &Desk, size_bytes: u64) -> Self {
        let path = desk.path("disk");
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .expect("a file");
        file.set_len(size_bytes).expect("sized");
        let text = |text: &str| text.parse().expect("a serial number");
        let identity = DiskIdentity {
            by_id: "nvme-file".parse().expect("a name"),
            serial: text("f"),
            wwn: text("f"),
            size_bytes,
        };
        Self { file, identity }
    }
}

impl OpenDisk for Disk {
    fn identity(&self) -> &DiskIdentity {
        &self.identity
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
    fn wipe_methods(&self) -> host::Result<Vec<WipeMethod>> {
        Ok(Vec::new())
    }
    fn plant(&self, _: &Markers) -> host::Result<u32> {
        Ok(0)
    }
    fn wipe(&self, method: WipeMethod) -> host::Result<Wiped> {
        Ok(Wiped { method, tool_rc: 1 })
    }
    fn seek(&self, _: &Markers, _: WipeMethod) -> host::Result<Sought> {
        Ok(Sought::default())
    }
}

#[test]
fn an_image_comes_through_byte_for_byte() {
    let Some(desk) = Desk::new("images") else { return };
    let content: Vec<u8> = (0..1u32 << 20).flat_map(|n| n.to_le_bytes()).take(3 << 20).collect();
    fs::write(desk.path("images/plain.raw"), &content).expect("written");
    desk.qemu_img(&[
        "convert",
        "-c",
        "-O",
        "qcow2",
        "images/plain.raw",
        "images/packed.qcow2",
    ]);
    for (name, format) in [("plain.raw", ImageFormat::Raw), ("packed.qcow2", ImageFormat::Qcow2)] {
        let image = desk.image(name, format);
        let disk = desk.go(&image, false).unwrap_or_else(|code| panic!("{name}: {code}"));
        assert!(disk[..content.len()] == content[..], "{name}");
        assert!(
            disk[content.len()..].iter().all(|byte| *byte == 0),
            "{name}: and nothing else"
        );
        assert_eq!(desk.images.verify(&image).expect("stored"), 3 << 20);
        fs::remove_file(desk.path("images").join(name)).expect("removed");
        // What is stored counts for whoever is listed; a file of the host's own only while it lies there.
        let gone = desk.images.ensure_stored(&image).expect_err("its file is gone");
        assert_eq!(gone.code(), Code::ImageUnavailable);
        let listed = Image { listed: true, ..image };
        assert_eq!(desk.images.ensure_stored(&listed).expect("still there"), Source::Store);
    }
    let mut absent = desk.image("plain.raw", ImageFormat::Raw);
    absent.sha256 = Sha256::of(b"other");
    assert_eq!(
        desk.images.ensure_stored(&absent).expect_err("nowhere").code(),
        Code::ImageUnavailable
    );
}

#[test]
fn abuse_16_image_is_no_plain_file() {
    let Some(desk) = Desk::new("irregular") else { return };
    let images = desk.path("images");
    fs::write(desk.path("outside"), SECRET).expect("written");
    let plain = |name: &str| fs::write(images.join(name), SECRET).expect("written");
    fs::hard_link(desk.path("outside"), images.join("hard-link")).expect("linked");
    symlink(desk.path("outside"), images.join("soft-link")).expect("linked");
    mknodat(CWD, images.join("fifo"), FileType::Fifo, Mode::RUSR, 0).expect("a fifo");
    mknodat(
        CWD,
        images.join("device"),
        FileType::CharacterDevice,
        Mode::RUSR,
        rustix::fs::makedev(1, 5),
    )
    .expect("zero");
    fs::create_dir(images.join("directory")).expect("a directory");
    plain("writable");
    fs::set_permissions(images.join("writable"), PermissionsExt::from_mode(0o666)).expect("opened");
    plain("foreign");
    chown(images.join("foreign"), Some(20_001), None).expect("given away");
    for name in [
        "hard-link",
        "soft-link",
        "fifo",
        "device",
        "directory",
        "writable",
        "foreign",
    ] {
        let mut image = desk.image("none", ImageFormat::Raw);
        image.name = name.parse().expect("a file name");
        (image.sha256, image.size_bytes) = (Sha256::of(SECRET), SECRET.len() as u64);
        assert_eq!(desk.go(&image, false).expect_err(name), Code::ImageNotRegular, "{name}");
    }
    assert_eq!(desk.stored(), 0, "nothing was taken");
}

#[test]
fn abuse_15_image_swapped_for_a_link_while_it_is_opened() {
    let Some(desk) = Desk::new("racing") else { return };
    let (images, stop) = (desk.path("images"), AtomicBool::new(false));
    fs::write(desk.path("outside"), SECRET).expect("written");
    fs::write(images.join("honest"), b"an image").expect("written");
    let mut image = desk.image("honest", ImageFormat::Raw);
    image.name = "racing".parse().expect("a file name");
    (image.sha256, image.size_bytes) = (Sha256::of(SECRET), SECRET.len() as u64);
    let (mut refused, mut tried) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for target in ["honest", "../outside"] {
                    fs::remove_file(images.join("next")).ok();
                    symlink(target, images.join("next")).expect("linked");
                    fs::rename(images.join("next"), images.join("racing")).expect("swapped");
                }
                fs::copy(images.join("honest"), images.join("next")).expect("copied");
                fs::rename(images.join("next"), images.join("racing")).expect("swapped");
            }
        });
        while tried < 500 {
            tried += 1;
            match desk.images.ensure_stored(&image) {
                Err(error) if error.code() == Code::ImageNotRegular => refused += 1,
                Err(_) => {}
                Ok(source) => panic!("taken from {source:?}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(refused > 0, "the link was met");
    assert_eq!(desk.stored(), 0);
}

#[test]
fn abuse_17_image_swapped_after_its_digest_was_checked() {
    let Some(desk) = Desk::new("swapped") else { return };
    fs::write(desk.path("images/good.raw"), vec![7; 8192]).expect("written");
    let image = desk.image("good.raw", ImageFormat::Raw);
    desk.images.ensure_stored(&image).expect("stored");
    desk.images.verify(&image).expect("as it was signed");
    fs::write(desk.path("evil"), vec![8; 8192]).expect("written");
    let stored = desk
        .path("var/lib/gpuaas/executor/images")
        .join(image.sha256.to_string());
    fs::rename(desk.path("evil"), stored).expect("swapped");
    let disk = Disk::blank(&desk, 1 << 20);
    assert_eq!(
        desk.images.write(&image, &disk).expect_err("another file").code(),
        Code::ImageDigestMismatch
    );
    assert!(
        fs::read(desk.path("disk"))
            .expect("readable")
            .iter()
            .all(|byte| *byte == 0),
        "nothing was written"
    );
}

#[test]
fn abuse_18_image_that_makes_its_reader_open_files_of_the_host() {
    let Some(desk) = Desk::new("hostile-images") else {
        return;
    };
    let secret = desk.path("secret");
    let mut bytes = SECRET.repeat(200);
    bytes.resize(1 << 20, 0);
    fs::write(&secret, &bytes).expect("written");
    let secret = secret.display().to_string();
    let size = "1M";
    desk.qemu_img(&[
        "create",
        "-q",
        "-f",
        "qcow2",
        "-b",
        &secret,
        "-F",
        "raw",
        "images/backed.qcow2",
    ]);
    desk.qemu_img(&[
        "create",
        "-q",
        "-f",
        "qcow2",
        "-b",
        "backed.qcow2",
        "-F",
        "qcow2",
        "images/nested.qcow2",
    ]);
    let data = format!("data_file={secret},data_file_raw=on");
    desk.qemu_img(&["create", "-q", "-f", "qcow2", "-o", &data, "images/data.qcow2", size]);
    fs::write(&secret, &bytes).expect("written again");
    desk.qemu_img(&["create", "-q", "-f", "vmdk", "images/other.qcow2", size]);
    let key = "secret,id=s,data=0123456789";
    desk.qemu_img(&[
        "create",
        "-q",
        "-f",
        "qcow2",
        "--object",
        key,
        "-o",
        "encrypt.format=luks,encrypt.key-secret=s",
        "images/locked.qcow2",
        size,
    ]);
    for name in [
        "backed.qcow2",
        "nested.qcow2",
        "data.qcow2",
        "other.qcow2",
        "locked.qcow2",
    ] {
        let image = desk.image(name, ImageFormat::Qcow2);
        assert_eq!(desk.go(&image, false).expect_err(name), Code::ImageRefused, "{name}");
        // Even where nobody has looked before.
        assert_eq!(desk.go(&image, true).expect_err(name), Code::ImageRefused, "{name}");
    }
    // A disk whose first bytes say that it is an image: it is what it was signed as.
    fs::copy(desk.path("images/backed.qcow2"), desk.path("images/raw.img")).expect("copied");
    let image = desk.image("raw.img", ImageFormat::Raw);
    let disk = desk.go(&image, false).expect("copied as it is");
    assert!(disk.starts_with(b"QFI\xfb"), "its header, not what it points at");
}

#[test]
fn abuse_20_trusted_image_with_another_digest() {
    let Some(desk) = Desk::new("trusted") else { return };
    fs::write(desk.path("images/good.raw"), vec![7; 4096]).expect("written");
    let good = desk.image("good.raw", ImageFormat::Raw);
    let spoiled = [
        Image {
            sha256: Sha256::of(b"else"),
            ..good.clone()
        },
        Image {
            size_bytes: 4095,
            ..good.clone()
        },
        Image {
            size_bytes: 4097,
            ..good.clone()
        },
    ];
    for image in spoiled {
        assert_eq!(
            desk.go(&image, false).expect_err("not it"),
            Code::ImageDigestMismatch,
            "{image:?}"
        );
    }
    let untrusted = Image {
        trusted: false,
        ..good.clone()
    };
    assert_eq!(
        desk.go(&untrusted, false).expect_err("a local file"),
        Code::ImageSourceRefused
    );
    assert_eq!(desk.stored(), 0, "nothing was kept");
    desk.go(&good, false).expect("the honest one");
}
