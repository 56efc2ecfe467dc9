//! An image whose digest is known is not hashed again, and whoever changes it, in whatever way, is found out before a
//! byte is on a disk.

use std::fs::{self, File, FileTimes};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use host::{Image, Images, Source};
use model::signal::Code;
use model::task::vm_provision::ImageFormat;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

use crate::images::{Desk, Disk};
use crate::tree::program;

const SIZE: usize = 16 << 10;
const EVIL: [u8; SIZE] = [8; SIZE];
/// Changes a page, and the same page again when told to; says so each time.
const MAPPED: &str = "import mmap, sys
with open(sys.argv[1], 'r+b') as f:
    m = mmap.mmap(f.fileno(), 0)
m[4096] = m[4096]
print(flush=True)
sys.stdin.readline()
m[4096] = 8
print(flush=True)
sys.stdin.readline()";

/// Stored files, each known to hold what it should.
struct Shelf {
    desk: Desk,
    images: Vec<(&'static str, Image)>,
}

impl Shelf {
    /// None where nothing is ever known.
    fn new(name: &str, kinds: &[&'static str]) -> Option<Self> {
        let desk = Desk::new(name)?;
        let seen = rustix::fs::statfs(desk.path("images")).expect("a file system");
        if ![0xef53, 0x5846_5342, 0x9123_683e].contains(&seen.f_type) {
            println!("not run: needs ext4, xfs or btrfs");
            return None;
        }
        let mut images = Vec::new();
        for (n, kind) in kinds.iter().enumerate() {
            let mut bytes = vec![7; SIZE];
            bytes[SIZE - 1] = u8::try_from(n).expect("few");
            fs::write(desk.path("images").join(kind), bytes).expect("written");
            let image = desk.image(kind, ImageFormat::Raw);
            desk.images.ensure_stored(&image).expect("stored");
            images.push((*kind, image));
        }
        Some(Self { desk, images })
    }

    fn known(&self, image: &Image) -> bool {
        self.desk.images.is_known(image).expect("there")
    }

    fn file(&self, image: &Image) -> PathBuf {
        let store = self.desk.path("var/lib/gpuaas/executor/images");
        store.join(image.sha256.to_string())
    }

    /// It takes a while: what was written just now is never taken for known.
    fn settle(&self) {
        let until = Instant::now() + Duration::from_secs(60);
        for (kind, image) in &self.images {
            while !self.known(image) {
                assert!(Instant::now() < until, "{kind} is never known");
                self.desk.images.verify(image).expect("as it was signed");
            }
        }
    }
}

fn overwrite(path: &Path) -> File {
    let file = File::options().write(true).open(path).expect("opened");
    file.write_all_at(&EVIL, 0).expect("written");
    file
}

/// Starts it, and waits until it has changed its page for the first time.
fn mapped(path: &Path) -> Option<Child> {
    if !Path::new("/usr/bin/python3").exists() {
        println!("not run: the change through a mapping needs python3");
        return None;
    }
    let mut python = program("/usr/bin/python3");
    python.args(["-c", MAPPED]).arg(path);
    python.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = python.spawn().expect("starts");
    heard(&mut child);
    Some(child)
}

fn heard(child: &mut Child) {
    let mut line = String::new();
    let out = child.stdout.as_mut().expect("piped");
    BufReader::new(out).read_line(&mut line).expect("said");
    assert_eq!(line, "\n");
}

#[test]
fn abuse_17_image_changed_after_its_digest_was_known() {
    let kinds = [
        "in-place",
        "touched-back",
        "cut-and-filled",
        "another-file",
        "mounted-over",
        "mapped",
        "left-alone",
    ];
    let Some(shelf) = Shelf::new("known", &kinds) else {
        return;
    };
    let mapping = shelf.images.iter().find(|(kind, _)| *kind == "mapped");
    let mut mapping = mapping.and_then(|(_, image)| mapped(&shelf.file(image)));
    shelf.settle();
    for (kind, image) in &shelf.images {
        let path = shelf.file(image);
        let before = fs::metadata(&path).expect("there");
        match *kind {
            "in-place" => drop(overwrite(&path)),
            "touched-back" => {
                let file = overwrite(&path);
                let times = FileTimes::new().set_modified(before.modified().expect("a time"));
                file.set_times(times).expect("touched");
                let after = file.metadata().expect("there");
                assert_eq!((after.mtime_nsec(), after.ino()), (before.mtime_nsec(), before.ino()));
            }
            "cut-and-filled" => fs::write(&path, EVIL).expect("written"),
            "another-file" => {
                fs::write(shelf.desk.path("evil"), EVIL).expect("written");
                fs::rename(shelf.desk.path("evil"), &path).expect("swapped");
            }
            "mounted-over" => {
                fs::write(shelf.desk.path("evil"), EVIL).expect("written");
                mount_bind(shelf.desk.path("evil"), &path).expect("mounted");
            }
            "mapped" => {
                let Some(child) = &mut mapping else { continue };
                child.stdin.as_mut().expect("piped").write_all(b"\n").expect("told");
                heard(child);
            }
            _ => {}
        }
        let disk = Disk::blank(&shelf.desk, 1 << 20);
        let changed = *kind != "left-alone";
        let mounted = fs::read(&path).expect("readable").contains(&8) == changed;
        let written = shelf.desk.images.write(image, &disk).map_err(|error| error.code());
        let blank = fs::read(shelf.desk.path("disk"))
            .expect("readable")
            .iter()
            .all(|byte| *byte == 0);
        if *kind == "mounted-over" {
            unmount(&path, UnmountFlags::DETACH).expect("unmounted");
        }
        assert!(mounted, "{kind}: the file is what this case says");
        assert_eq!(blank, changed, "{kind}: nothing else is on the disk");
        match *kind {
            "left-alone" => assert_eq!(written, Ok(())),
            // Another mount is not even opened.
            "mounted-over" => assert!(written.is_err(), "mounted-over"),
            _ => assert_eq!(written, Err(Code::ImageDigestMismatch), "{kind}"),
        }
    }
    if let Some(mut child) = mapping {
        drop(child.stdin.take());
        child.wait().expect("ended");
    }
}

#[test]
fn an_image_that_was_written_before_comes_through_as_well() {
    let Some(shelf) = Shelf::new("again", &["again"]) else {
        return;
    };
    shelf.settle();
    let (_, image) = &shelf.images[0];
    let content = fs::read(shelf.file(image)).expect("readable");
    for round in 0..3 {
        let disk = Disk::blank(&shelf.desk, 1 << 20);
        shelf.desk.images.write(image, &disk).expect("written");
        let disk = fs::read(shelf.desk.path("disk")).expect("readable");
        assert!(disk[..content.len()] == content[..], "{round}");
        assert!(shelf.known(image), "{round}: it is still the same file");
    }
}

/// When somebody read it last.
fn last_read(path: &Path) -> (i64, i64) {
    let seen = fs::metadata(path).expect("there");
    (seen.atime(), seen.atime_nsec())
}

/// tmpfs keeps no times that anybody could rely on.
#[test]
fn what_is_never_known_is_not_read_ahead_again_and_again() {
    let Some(desk) = Desk::new("memory") else { return };
    let store = desk.path("var/lib/gpuaas/executor/images");
    fs::create_dir_all(&store).expect("a directory");
    if mount("tmpfs", &store, "tmpfs", MountFlags::STRICTATIME, None).is_err() {
        println!("not run: nothing can be mounted here");
        return;
    }
    fs::write(desk.path("images").join("disk"), vec![7; SIZE]).expect("written");
    let image = desk.image("disk", ImageFormat::Raw);
    desk.images.ensure_stored(&image).expect("stored");
    let file = store.join(image.sha256.to_string());
    let ahead = || desk.images.read_ahead(&[], &|| false).expect("read");
    assert!(ahead().is_empty());
    assert!(!desk.images.is_known(&image).expect("there"));
    let read = last_read(&file);
    assert!(ahead().is_empty() && ahead().is_empty());
    assert_eq!(last_read(&file), read, "nobody has read it since");
    desk.images.verify(&image).expect("as it was signed");
    assert!(last_read(&file) > read, "for a slice it is");
    drop(overwrite(&file));
    let wrong = ahead();
    unmount(&store, UnmountFlags::DETACH).expect("unmounted");
    let said = wrong.iter().map(|error| error.code()).collect::<Vec<_>>();
    assert_eq!(said, [Code::ImageDigestMismatch], "what was changed is read: {wrong:?}");
}

#[test]
fn what_is_read_ahead_is_known_and_what_has_rotted_is_taken_out() {
    let Some(shelf) = Shelf::new("ahead", &["sound", "rotten"]) else {
        return;
    };
    let [(_, sound), (_, rotten)] = &shelf.images[..] else {
        panic!("two");
    };
    drop(overwrite(&shelf.file(rotten)));
    let foreign = shelf.file(sound).with_file_name("somebody-elses");
    fs::write(&foreign, EVIL).expect("written");
    let ahead = |over: bool| shelf.desk.images.read_ahead(&[], &|| over).expect("read");
    let until = Instant::now() + Duration::from_secs(60);
    let mut wrong = Vec::new();
    while !shelf.known(sound) {
        assert!(Instant::now() < until, "it is never known");
        assert!(
            ahead(true).is_empty() && !shelf.known(sound),
            "nothing is read when it is over"
        );
        wrong.extend(ahead(false));
    }
    let said = wrong.iter().map(|error| error.code()).collect::<Vec<_>>();
    assert_eq!(said, [Code::ImageDigestMismatch], "{wrong:?}");
    assert!(!shelf.file(rotten).exists(), "it would only be refused");
    assert!(foreign.exists(), "it is not ours");
    let again = shelf.desk.images.ensure_stored(rotten);
    assert_eq!(again.expect("taken anew"), Source::Directory);
    shelf.desk.images.verify(rotten).expect("as it was signed");
}

#[test]
fn of_several_that_have_rotted_each_is_told_and_taken_out() {
    let kinds = ["first", "sound", "second", "third"];
    let Some(shelf) = Shelf::new("several", &kinds) else {
        return;
    };
    let (sound, rotten): (Vec<_>, Vec<_>) = shelf.images.iter().partition(|(kind, _)| *kind == "sound");
    for (_, image) in &rotten {
        drop(overwrite(&shelf.file(image)));
    }
    let wrong = shelf.desk.images.read_ahead(&[], &|| false).expect("read");
    assert_eq!(wrong.len(), rotten.len(), "{wrong:?}");
    for (kind, image) in rotten {
        let name = image.sha256.to_string();
        let told = wrong.iter().filter(|error| error.to_string().contains(&name));
        let codes: Vec<Code> = told.map(host::Error::code).collect();
        assert_eq!(codes, [Code::ImageDigestMismatch], "{kind}");
        assert!(!shelf.file(image).exists(), "{kind}");
    }
    assert!(sound.iter().all(|(_, image)| shelf.file(image).exists()));
}
