//! A real block device as the NVMe disk of a machine: its numbers, and an identity that is made up. For a loop device
//! on a machine without disks to spare; whoever uses it says that the identity is pretended.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::Path;

use model::value::DiskIdentity;
use rustix::fs::{CWD, FileType, Mode, major, makedev, minor, mknodat};

const NAME: &str = "nvme9n1";
const CONTROLLER: &str = "nvme9";

/// Below an empty directory: `Host::real_under` it has this one disk. Needs root, to make a device node.
pub fn disguise(root: &Path, device: &Path, identity: &DiskIdentity) -> io::Result<()> {
    let meta = fs::metadata(device)?;
    if !meta.file_type().is_block_device() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a block device"));
    }
    let (major, minor) = (major(meta.rdev()), minor(meta.rdev()));
    let dir = root.join("sys/block").join(NAME);
    let controller = root.join("sys/class/nvme").join(CONTROLLER);
    for below in ["queue", "holders"] {
        fs::create_dir_all(dir.join(below))?;
    }
    fs::create_dir_all(controller.join(NAME))?;
    fs::create_dir_all(root.join("sys/class/nvme-subsystem/nvme-subsys9").join(CONTROLLER))?;
    for below in ["dev/disk/by-id", "sys/dev/block", "proc"] {
        fs::create_dir_all(root.join(below))?;
    }
    let put = |file: &str, text: &str| fs::write(dir.join(file), format!("{text}\n"));
    put("dev", &format!("{major}:{minor}"))?;
    put("size", &(identity.size_bytes / 512).to_string())?;
    put("wwid", identity.wwn.as_str())?;
    put("nsid", "1")?;
    put("queue/write_zeroes_max_bytes", "33554432")?;
    fs::write(controller.join("serial"), format!("{}\n", identity.serial))?;
    symlink(format!("../../class/nvme/{CONTROLLER}"), dir.join("device"))?;
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(
        CWD,
        root.join("dev").join(NAME),
        FileType::BlockDevice,
        mode,
        makedev(major, minor),
    )?;
    symlink(
        format!("../../{NAME}"),
        root.join("dev/disk/by-id").join(identity.by_id.as_str()),
    )?;
    symlink(
        format!("../../block/{NAME}"),
        root.join(format!("sys/dev/block/{major}:{minor}")),
    )?;
    // Mounts are those of the running kernel.
    symlink("/proc/self", root.join("proc/self"))
}
