//! Attacks on a machine's users, mounted for real.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use host::{Error, Tenant, Users};
use model::signal::Code;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::mount::{MountFlags, mount};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::tree::{Tree, keys, on_a_tree, path, program, tenant};

const UID: u32 = 20001;

/// A tenant swaps their `.ssh` and what is in it for links to root's files while the keys are written.
#[test]
fn abuse_25_home_symlink_race() {
    on_a_tree(|tree| {
        let (users, ada) = (&tree.host.users, tenant("ada", UID));
        users.ensure_account(&ada, false).expect("account");
        users.ensure_home(&ada).expect("home");
        let victim = tree.plant_dir("root/.ssh", 0);
        tree.plant("root/.ssh/authorized_keys", 0);
        tree.plant("root/secret", 0);
        // A directory of root's in the tenant's reach: nobody may be tricked into giving it away.
        let roots = fs::metadata(tree.plant_dir("home/ada/roots", 0))
            .expect("just made")
            .ino();
        let picture = || {
            let of = |file: &str| {
                let meta = fs::symlink_metadata(path(file)).expect("still there");
                let text = fs::read(path(file)).unwrap_or_default();
                (meta.uid(), meta.gid(), meta.mode(), meta.ino(), text)
            };
            ["root", "root/.ssh", "root/.ssh/authorized_keys", "root/secret"].map(of)
        };
        let before = picture();
        let (stop, flips) = (AtomicBool::new(false), AtomicU64::new(0));
        let (mut written, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| flip(&victim, &stop, &flips));
            let until = Instant::now() + Duration::from_secs(4);
            while Instant::now() < until {
                match users.ensure_keys(&ada, &keys()) {
                    Ok(()) => written += 1,
                    Err(error) => {
                        assert_eq!(error.code(), Code::UserRefused, "{error}");
                        refused += 1;
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        let flips = flips.load(Ordering::Relaxed);
        println!("{written} written, {refused} refused, {flips} flips");
        assert!(
            written > 0 && refused > 0 && flips > 1000,
            "the race was run: {written} {refused} {flips}"
        );
        assert_eq!(picture(), before, "nothing of root's has changed");
        let home = fs::read_dir(path("home/ada")).expect("list");
        let metas = home.map(|entry| entry.and_then(|entry| entry.metadata()).expect("look"));
        let owners: Vec<_> = metas
            .filter(|meta| meta.ino() == roots)
            .map(|meta| meta.uid())
            .collect();
        assert_eq!(owners, [0], "root's directory is still root's, under whatever name");
    });
}

/// As the tenant, with the tenant's rights: this thread's own credentials only.
fn flip(victim: &Path, stop: &AtomicBool, flips: &AtomicU64) {
    let (uid, gid) = (rustix::fs::Uid::from_raw(UID), rustix::fs::Gid::from_raw(UID));
    set_thread_groups(&[]).expect("drop groups");
    set_thread_res_gid(gid, gid, gid).expect("become the tenant");
    set_thread_res_uid(uid, uid, uid).expect("become the tenant");
    let home = path("home/ada");
    let (ssh, link, roots) = (home.join(".ssh"), home.join("link"), home.join("roots"));
    symlink(victim, &link).expect("a link of the tenant's own");
    let exchange = |a: &Path, b: &Path| renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).is_ok();
    let victim_file = victim.join("authorized_keys");
    while !stop.load(Ordering::Relaxed) {
        let mut done = u64::from(exchange(&ssh, &link)) + u64::from(exchange(&ssh, &link));
        done += u64::from(exchange(&ssh, &roots)) + u64::from(exchange(&ssh, &roots));
        for name in [".authorized_keys.gpuaas", "authorized_keys"] {
            let file = ssh.join(name);
            done += u64::from(fs::remove_file(&file).is_ok());
            done += u64::from(symlink(&victim_file, &file).is_ok());
            done += u64::from(fs::remove_file(&file).is_ok());
        }
        done += u64::from(fs::rename(&ssh, home.join("away")).is_ok());
        done += u64::from(fs::rename(home.join("away"), &ssh).is_ok());
        flips.fetch_add(done, Ordering::Relaxed);
    }
}

/// Everything a tenant can leave behind is planted, removed and proved absent; the neighbours keep theirs.
#[test]
fn abuse_26_leftovers() {
    on_a_tree(|tree| {
        let (users, ada) = (&*tree.host.users, tenant("ada", UID));
        users.ensure_account(&ada, true).expect("account");
        users.ensure_home(&ada).expect("home");
        users.ensure_keys(&ada, &keys()).expect("keys");
        let mut processes = plant_everything(tree);
        let mut neighbour = tree.process(20002);
        let kept = [
            tree.plant("tmp/neighbour", 20002),
            tree.plant("var/tmp/roots", 0),
            path("etc/skel/.profile"),
        ];
        let absent = users.absent(&ada).expect("look");
        assert_eq!(absent.left().len(), 9, "the attack was mounted in full: {absent:?}");

        assert_eq!(deprovision(users, &ada), 3);
        users.prove_absent(&ada).expect("all gone");
        for process in &mut processes {
            process.wait().expect("dead");
        }
        assert!(
            neighbour.try_wait().expect("look").is_none(),
            "the neighbour's process still runs"
        );
        assert!(kept.iter().all(|path| path.exists()));
        let trash = ["", "home", "tmp", "dev/shm", "var/tmp"].map(|dir| path(dir).join(".gpuaas-trash"));
        assert!(trash.iter().all(|path| !path.exists()));
        neighbour.kill().expect("kill");
        neighbour.wait().expect("wait");
    });
}

/// The other half of 26: a leftover that cannot be removed is named, and nothing is proved.
#[test]
fn a_leftover_that_stays_is_not_proved_absent() {
    on_a_tree(|tree| {
        let (users, ada) = (&*tree.host.users, tenant("ada", UID));
        users.ensure_account(&ada, false).expect("account");
        tree.plant_dir("var/tmp/stays", UID);
        let mount_point = tree.plant_dir("var/tmp/stays/mounted", UID);
        mount("tmpfs", &mount_point, "tmpfs", MountFlags::empty(), None).expect("mount");
        deprovision(users, &ada);
        let error = users.prove_absent(&ada).expect_err("a mount is in the way");
        assert_eq!(error.code(), Code::AbsenceNotProved);
        let Error::AbsenceNotProved { left, seen } = &error else {
            panic!("{error}")
        };
        assert_eq!(left, &["files"]);
        assert!(seen.iter().any(|path| path.starts_with("/mnt/var/tmp/")), "{seen:?}");
    });
}

fn deprovision(users: &dyn Users, tenant: &Tenant) -> u32 {
    users.refuse_foreign(tenant).expect("ours");
    users.ensure_locked(tenant).expect("locked");
    users.ensure_no_schedules(tenant).expect("schedules");
    let killed = users.ensure_no_processes(tenant).expect("processes");
    users.ensure_no_keys(tenant).expect("keys");
    users.ensure_no_home(tenant).expect("home");
    users.ensure_no_files(tenant).expect("files");
    users.ensure_no_ipc(tenant).expect("ipc");
    users.ensure_no_account(tenant).expect("account");
    killed
}

fn plant_everything(tree: &Tree) -> Vec<std::process::Child> {
    for file in [
        "tmp/file",
        "var/tmp/file",
        "dev/shm/file",
        "var/spool/cron/atjobs/a00001",
    ] {
        tree.plant(file, UID);
    }
    tree.plant("var/spool/cron/crontabs/ada", UID);
    // A message queue is a file that cannot be written to.
    fs::File::create_new(path("dev/mqueue/queue")).expect("a queue");
    chown(path("dev/mqueue/queue"), Some(UID), Some(UID)).expect("chown");
    tree.plant("var/lib/systemd/linger/ada", 0);
    // Links out of a tenant's directory, a file of root's inside it, a name that is no text, and a hole in the ground.
    tree.plant_dir("tmp/dir", UID);
    symlink("/etc", path("tmp/dir/link")).expect("link");
    tree.plant("tmp/dir/of-root", 0);
    fs::set_permissions(path("tmp/dir"), fs::Permissions::from_mode(0o000)).expect("close it");
    let odd = std::ffi::OsStr::new("new\nline \u{1b}[31m");
    fs::rename(tree.plant("tmp/odd", UID), path("tmp").join(odd)).expect("rename");
    dig(&tree.plant_dir("home/ada/deep", UID), 3000);
    for option in [["-M", "4096"], ["-S", "1"], ["-Q", ""]] {
        let mut ipcmk = program("ipcmk");
        ipcmk
            .args(option.iter().filter(|word| !word.is_empty()))
            .uid(UID)
            .gid(UID);
        assert!(ipcmk.output().expect("ipcmk starts").status.success());
    }
    vec![tree.process(UID), tree.process(UID), tree.process(UID)]
}

/// Directories in directories, by relative steps: the path would be too long for one call.
fn dig(top: &Path, depth: usize) {
    let open = |dir: &std::os::fd::OwnedFd| {
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY;
        rustix::fs::openat(dir, "d", flags, rustix::fs::Mode::empty()).expect("open")
    };
    let mut dir = std::os::fd::OwnedFd::from(fs::File::open(top).expect("open"));
    for _ in 0..depth {
        rustix::fs::mkdirat(&dir, "d", rustix::fs::Mode::RWXU).expect("dig");
        dir = open(&dir);
    }
}
