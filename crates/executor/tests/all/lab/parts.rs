//! What a lab adds to the real host: a loop device that looks like an NVMe disk, somebody who connects to guests, and a
//! GPU that is only on paper, so that no VM is given it and none can see it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::real::Dial;
use host::{Guest, Guests, Machine, Machines, Seen};
use model::id::AllocationId;
use model::task::vm_provision::{Performance, Readiness};
use model::value::{DiskId, DiskIdentity, Name, Pci};
use rustix::fs::{major, minor};

use super::ground::ROOT;
use super::run;

/// Nothing of it outlives the lab, however that ends: the kernel lets go of it when nobody has it open any more.
pub(crate) struct Loop {
    pub(crate) node: PathBuf,
    pub(crate) identity: DiskIdentity,
    _open: fs::File,
}

impl Loop {
    pub(crate) fn new(size_bytes: u64) -> Self {
        let file = format!("{ROOT}/disk.img");
        let made = fs::File::create(&file).and_then(|file| file.set_len(size_bytes));
        made.expect("a file");
        let node = PathBuf::from(run("losetup", &["--find", "--show", &file]).trim());
        let open = fs::File::open(&node).expect("it is there");
        run("losetup", &["--detach", &node.display().to_string()]);
        let text = |text: &str| text.parse().expect("a serial number");
        let identity = DiskIdentity {
            by_id: "nvme-LAB_0001".parse().expect("a name"),
            serial: text("LAB0001"),
            wwn: text("eui.0001"),
            size_bytes,
        };
        let disk = Self {
            node,
            identity,
            _open: open,
        };
        disk.grow();
        disk
    }

    /// What the kernel would say of an NVMe disk with this number.
    fn grow(&self) {
        let number = fs::metadata(&self.node).expect("it is there").rdev();
        let number = format!("{}:{}", major(number), minor(number));
        let (root, id) = (Path::new(ROOT), &self.identity);
        let dir = root.join("sys/block/nvme9n1");
        for below in [
            "sys/class/nvme/nvme9/nvme9n1",
            "sys/class/nvme-subsystem/nvme-subsys9/nvme9",
            "sys/block/nvme9n1/queue",
            "sys/block/nvme9n1/holders",
            "sys/dev/block",
            "proc",
        ] {
            fs::create_dir_all(root.join(below)).expect("a directory");
        }
        symlink("../../class/nvme/nvme9", dir.join("device")).expect("linked");
        for (file, text) in [
            ("nsid", "1"),
            ("dev", number.as_str()),
            ("size", &(id.size_bytes / 512).to_string()),
            ("wwid", id.wwn.as_str()),
            ("device/serial", id.serial.as_str()),
            ("queue/write_zeroes_max_bytes", "33554432"),
        ] {
            fs::write(dir.join(file), format!("{text}\n")).expect("written");
        }
        symlink(&self.node, root.join("dev/disk/by-id").join(id.by_id.as_str())).expect("linked");
        symlink("../../block/nvme9n1", root.join(format!("sys/dev/block/{number}"))).expect("linked");
        symlink("/proc/self", root.join("proc/self")).expect("linked");
        fs::write(root.join("proc/swaps"), "Filename\n").expect("written");
    }

    pub(crate) fn is_blank(&self) -> bool {
        let bytes = fs::read(&self.node).expect("readable");
        bytes.iter().all(|byte| *byte == 0)
    }
}

/// The agent's part: it has a network.
pub(crate) struct Direct;

impl Dial for Direct {
    fn dial(&self, _: &Name, address: Ipv4Addr) -> host::Result<OwnedFd> {
        let to = SocketAddr::from((address, 22));
        let connected = TcpStream::connect_timeout(&to, Duration::from_secs(3));
        connected.map(OwnedFd::from).map_err(|source| host::Error::Io {
            doing: format!("connect to {to}"),
            source,
        })
    }
}

/// Real VMs without the devices that are not there. Who has which is still known.
pub(crate) struct WithoutDevices(pub(crate) host::real::Machines);

impl Machines for WithoutDevices {
    fn check_tools(&self) -> host::Result<()> {
        self.0.check_tools()
    }
    fn observe(&self, name: &Name) -> host::Result<Option<Seen>> {
        self.0.observe(name)
    }
    fn ours(&self) -> host::Result<Vec<(Name, Seen)>> {
        self.0.ours()
    }
    fn ensure_running(&self, machine: &Machine) -> host::Result<()> {
        let mut machine = machine.clone();
        machine.parts.iter_mut().for_each(|part| part.devices.clear());
        self.0.ensure_running(&machine)
    }
    fn ensure_started(&self, name: &Name, allocation: AllocationId) -> host::Result<()> {
        self.0.ensure_started(name, allocation)
    }
    fn ask_to_stop(&self, name: &Name, allocation: AllocationId, wait: Duration) -> host::Result<bool> {
        self.0.ask_to_stop(name, allocation, wait)
    }
    fn ensure_off(&self, name: &Name, allocation: AllocationId) -> host::Result<()> {
        self.0.ensure_off(name, allocation)
    }
    fn ensure_no_machine(&self, name: &Name, allocation: AllocationId) -> host::Result<()> {
        self.0.ensure_no_machine(name, allocation)
    }
    fn holder_of_device(&self, device: Pci) -> host::Result<Option<String>> {
        self.0.holder_of_device(device)
    }
    fn holder_of_disk(&self, disk: &DiskId) -> host::Result<Option<String>> {
        self.0.holder_of_disk(disk)
    }
}

/// Real guests, to whose counts the GPU on paper is added.
pub(crate) struct WithPaperGpu(pub(crate) host::real::Guests);

impl Guests for WithPaperGpu {
    fn await_ready(&self, guest: &Guest, wait: Duration) -> host::Result<Readiness> {
        self.0.await_ready(guest, wait)
    }
    fn look(&self, guest: &Guest) -> host::Result<Performance> {
        let seen = self.0.look(guest)?;
        assert_eq!(seen.gpus, 0, "there is none here");
        Ok(Performance { gpus: 1, ..seen })
    }
}
