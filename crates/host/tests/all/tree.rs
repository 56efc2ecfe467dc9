//! A small machine to break: a root directory on a tmpfs, with its own account files and the real machine's programs,
//! in mount, pid and IPC namespaces that vanish with the test.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use host::{Host, Tenant};
use model::id::AllocationId;
use model::value::SshKey;
use rustix::mount::{MountFlags, mount, mount_bind, mount_remount};

const ROOT: &str = "/mnt";
const RAN: &str = "this ran on a tree";

pub(crate) struct Tree {
    pub(crate) host: Host,
}

/// Runs `body` in a process of its own, the first of its pid namespace, with a fresh tree.
pub(crate) fn on_a_tree<F: FnOnce(&Tree)>(body: F) {
    if !rustix::process::geteuid().is_root() {
        println!("not run: needs root");
        return;
    }
    if std::process::id() == 1 {
        body(&Tree::mount());
        println!("{RAN}");
        return;
    }
    let name = std::any::type_name::<F>();
    let name = name.trim_start_matches("all::").trim_end_matches("::{{closure}}");
    let exe = std::env::current_exe().expect("this test's own binary");
    let mut command = program("unshare");
    command.args([
        "--mount",
        "--pid",
        "--ipc",
        "--fork",
        "--kill-child",
        "--propagation",
        "private",
        "--mount-proc",
    ]);
    command
        .arg(exe)
        .args(["--exact", name, "--nocapture", "--test-threads", "1"]);
    let output = command.output().expect("unshare starts");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success() && out.contains(RAN),
        "{name} on a tree:\n{out}\n{err}"
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests start tenants' processes and their own namespaces"
)]
pub(crate) fn program(name: &str) -> Command {
    Command::new(name)
}

impl Tree {
    fn mount() -> Self {
        let none = MountFlags::empty();
        mount("tmpfs", ROOT, "tmpfs", none, None).expect("mount a tmpfs");
        for dir in [
            "usr",
            "proc",
            "dev",
            "dev/shm",
            "dev/mqueue",
            "tmp",
            "home",
            "run",
            "root",
            "etc",
            "etc/skel",
        ] {
            fs::create_dir(path(dir)).expect("make a directory");
        }
        for dir in [
            "var/tmp",
            "var/spool/cron/crontabs",
            "var/spool/cron/atjobs",
            "var/lib/systemd/linger",
        ] {
            fs::create_dir_all(path(dir)).expect("make a directory");
        }
        fs::set_permissions(path("tmp"), fs::Permissions::from_mode(0o1777)).expect("open /tmp");
        // Read-only: the walk over writable mounts has no business in the real machine's files.
        mount_bind("/usr", path("usr")).expect("bind /usr");
        mount_remount(path("usr"), MountFlags::BIND | MountFlags::RDONLY, c"").expect("make it read-only");
        for link in ["bin", "sbin", "lib", "lib64"] {
            symlink(format!("usr/{link}"), path(link)).expect("link into /usr");
        }
        mount("proc", path("proc"), "proc", none, None).expect("mount proc");
        mount("tmpfs", path("dev/shm"), "tmpfs", none, None).expect("mount shm");
        mount("tmpfs", path("var/tmp"), "tmpfs", none, None).expect("mount /var/tmp");
        mount("mqueue", path("dev/mqueue"), "mqueue", none, None).expect("mount mqueue");
        for (file, text) in [
            (
                "etc/passwd",
                "root:x:0:0:root:/root:/bin/sh\nopsy:x:20900:20900:Op:/home/opsy:/bin/sh\n",
            ),
            ("etc/shadow", "root:*:19000:0:99999:7:::\nopsy:!:19000:0:99999:7:::\n"),
            (
                "etc/group",
                "root:x:0:\nsudo:x:27:\nvideo:x:44:\nrender:x:105:\nopsy:x:20900:\n",
            ),
            ("etc/gshadow", "root:*::\nsudo:*::\nvideo:!::\nrender:!::\nopsy:!::\n"),
            ("etc/subuid", ""),
            ("etc/subgid", ""),
            (
                "etc/login.defs",
                "UID_MIN 1000\nUID_MAX 60000\nGID_MIN 1000\nGID_MAX 60000\nUSERGROUPS_ENAB yes\n",
            ),
            ("etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\n"),
            ("etc/skel/.profile", "umask 077\n"),
        ] {
            fs::write(path(file), text).expect("write an account file");
        }
        Self {
            host: Host::real_under(Path::new(ROOT)),
        }
    }

    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// A file of that uid, with its directories.
    pub(crate) fn plant(&self, file: &str, uid: u32) -> PathBuf {
        let planted = path(file);
        fs::write(&planted, "planted").unwrap_or_else(|error| panic!("{file}: {error}"));
        chown(&planted, Some(uid), Some(uid)).expect("chown");
        planted
    }

    pub(crate) fn plant_dir(&self, dir: &str, uid: u32) -> PathBuf {
        let planted = path(dir);
        fs::create_dir(&planted).unwrap_or_else(|error| panic!("{dir}: {error}"));
        chown(&planted, Some(uid), Some(uid)).expect("chown");
        planted
    }

    /// What is on disk before the first line of an account is written.
    pub(crate) fn record(&self, tenant: &Tenant) {
        let dir = path("var/lib/gpuaas/executor/users");
        fs::create_dir_all(&dir).expect("make a directory");
        let (uid, name, owner) = (tenant.uid, &tenant.name, tenant.owner);
        let text = format!(r#"{{"uid":{uid},"name":"{name}","allocation":"{owner}","opened":false}}"#);
        fs::write(dir.join(format!("{uid}.json")), text).expect("write a record");
    }

    /// A process of that uid that runs until it is killed.
    pub(crate) fn process(&self, uid: u32) -> std::process::Child {
        program("sleep")
            .arg("1000")
            .uid(uid)
            .gid(uid)
            .stdin(Stdio::null())
            .spawn()
            .expect("sleep starts")
    }

    /// All lines about a name, from every account file.
    pub(crate) fn lines_about(&self, name: &str) -> Vec<String> {
        let mut found = Vec::new();
        for file in ["passwd", "shadow", "group", "gshadow", "subuid", "subgid"] {
            let text = self.read(&format!("etc/{file}"));
            let about = text
                .lines()
                .filter(|line| line.split([':', ',']).any(|word| word == name));
            found.extend(about.map(|line| format!("{file}: {line}")));
        }
        found
    }
}

pub(crate) fn path(below: &str) -> PathBuf {
    Path::new(ROOT).join(below)
}

pub(crate) fn tenant(name: &str, uid: u32) -> Tenant {
    let uid = uid.try_into().expect("in range");
    Tenant {
        name: name.parse().expect("a name"),
        uid,
        owner: AllocationId::new(),
    }
}

pub(crate) fn keys() -> Vec<SshKey> {
    let text = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH ada@example";
    vec![text.parse().expect("a key")]
}
