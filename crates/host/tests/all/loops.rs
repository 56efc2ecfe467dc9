//! Loop devices that look like NVMe disks: real block devices behind a generated tree. They exist only within a test's
//! namespaces, and are detached when it ends.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use host::pretend::tree::disguise;
use host::{Host, OpenDisk};
use model::value::{DiskIdentity, Nonce};
use rustix::fs::{major, minor};
use rustix::mount::mount_bind;

use crate::tree::{path, program};

pub(crate) struct Loop {
    /// The machine that has it as its only disk.
    pub(crate) root: PathBuf,
    pub(crate) node: PathBuf,
    pub(crate) identity: DiskIdentity,
    number: (u32, u32),
}

impl Loop {
    /// Below the tree's root directory, of `size` bytes.
    pub(crate) fn new(name: &str, size: u64) -> Self {
        let file = path(&format!("{name}.img"));
        fs::File::create(&file)
            .and_then(|file| file.set_len(size))
            .expect("a file");
        Self::over(name, &file, size)
    }

    pub(crate) fn over(name: &str, file: &Path, size: u64) -> Self {
        let output = program("losetup")
            .args(["--find", "--show"])
            .arg(file)
            .output()
            .expect("losetup starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let node = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let rdev = fs::metadata(&node).expect("it is there").rdev();
        let identity = DiskIdentity {
            by_id: format!("nvme-LOOP_{name}").parse().expect("a name"),
            serial: format!("S-{name}").parse().expect("a serial number"),
            wwn: format!("eui.{name}").parse().expect("a name"),
            size_bytes: size,
        };
        let disk = Self {
            root: path(name),
            node,
            identity,
            number: (major(rdev), minor(rdev)),
        };
        fs::create_dir_all(&disk.root).expect("make a directory");
        disguise(&disk.root, &disk.node, &disk.identity).expect("it looks like one");
        disk
    }

    pub(crate) fn host(&self) -> Host {
        Host::real_under(&self.root)
    }

    pub(crate) fn open(&self) -> host::Result<Box<dyn OpenDisk>> {
        self.host().disks.open_guarded(&self.identity)
    }

    pub(crate) fn put(&self, file: &str, text: &str) {
        let file = self.root.join(file);
        fs::create_dir_all(file.parent().expect("below")).expect("make a directory");
        fs::write(file, text).expect("write");
    }

    /// A controller that can be told things, by a tool that writes down what it is told.
    pub(crate) fn with_tool(&self, namespaces: &str) {
        for dir in ["usr/bin", "usr/lib", "usr/lib64"] {
            let there = self.root.join(dir);
            fs::create_dir_all(&there).expect("make a directory");
            if Path::new("/").join(dir).exists() {
                mount_bind(Path::new("/").join(dir), &there).expect("bound");
            }
        }
        for link in ["bin", "lib", "lib64"] {
            symlink(format!("usr/{link}"), self.root.join(link)).expect("link");
        }
        let script = format!(
            r#"#!/bin/sh
echo "$@" >> /told
# Silent so often at first as somebody has said so.
if grep -qx "$1" /silent 2>/dev/null; then
    sed -i "0,/^$1\$/{{//d}}" /silent
    exit 1
fi
case $1 in
id-ctrl) echo "{{\"sanicap\":$(cat /sanicap 2>/dev/null || echo 1),\"oacs\":2,\"fna\":4}}" ;;
list-ns) echo '{{"nsid_list":[{namespaces}]}}' ;;
sanitize-log)
    # What comes next, if somebody has said so.
    next=$(head -n 1 /logs 2>/dev/null) && sed -i 1d /logs
    case $next in
    fails) exit 1 ;;
    *) echo "{{\"nvme9\":{{\"sprog\":65535,\"sstat\":${{next:-257}}}}}}" ;;
    esac ;;
sanitize | format) dd if=/zeros of=/dev/nvme9n1 bs=1048576 conv=notrunc status=none ;;
esac
"#
        );
        let zeros = fs::File::create(self.root.join("zeros")).expect("a file");
        zeros.set_len(self.identity.size_bytes).expect("sized");
        self.put("usr/sbin/nvme", &script);
        fs::set_permissions(self.root.join("usr/sbin/nvme"), fs::Permissions::from_mode(0o755)).expect("to be run");
    }

    /// As the kernel shows one that could have several controllers: below their subsystem. It has the third.
    pub(crate) fn hang_on_subsystem(&self) {
        let class = self.root.join("sys/class");
        let (subsystem, controller) = (class.join("nvme-subsystem/nvme-subsys9"), class.join("nvme/nvme3"));
        fs::rename(class.join("nvme/nvme9"), &controller).expect("renamed");
        fs::rename(controller.join("nvme9n1"), controller.join("nvme9c3n1")).expect("renamed");
        fs::remove_dir(subsystem.join("nvme9")).expect("it was there");
        symlink("../../nvme/nvme3", subsystem.join("nvme3")).expect("link");
        fs::copy(controller.join("serial"), subsystem.join("serial")).expect("the same");
        fs::write(controller.join("address"), "0000:17:00.0\n").expect("write");
        let device = self.root.join("sys/block/nvme9n1/device");
        fs::remove_file(&device).expect("it was there");
        symlink("../../class/nvme-subsystem/nvme-subsys9", device).expect("link");
    }

    pub(crate) fn told(&self) -> String {
        fs::read_to_string(self.root.join("told")).unwrap_or_default()
    }

    pub(crate) fn number(&self) -> String {
        format!("{}:{}", self.number.0, self.number.1)
    }

    /// Every byte, as a file that the page cache did not see.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.identity.size_bytes).expect("small")];
        fs::File::open(&self.node)
            .and_then(|file| file.read_exact_at(&mut bytes, 0))
            .expect("read");
        bytes
    }

    pub(crate) fn write(&self, text: &[u8], offset: u64) {
        let file = fs::OpenOptions::new().write(true).open(&self.node).expect("open");
        file.write_all_at(text, offset)
            .and_then(|()| file.sync_all())
            .expect("write");
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = program("losetup")
            .arg("--detach")
            .arg(&self.node)
            .status()
            .expect("losetup starts");
        assert!(detached.success() || std::thread::panicking());
    }
}

pub(crate) fn nonce() -> Nonce {
    Nonce::from_bytes([9; 32])
}
