//! Attacks on a machine's users, mounted for real.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
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
        let dirs = ["roots", ".ssh", "away"].map(|name| path("home/ada").join(name));
        let is_roots = |dir: &Path| fs::symlink_metadata(dir).is_ok_and(|meta| meta.ino() == roots);
        let mut found = dirs
            .iter()
            .filter(|dir| is_roots(dir))
            .map(|dir| fs::read_dir(dir).expect("list").count());
        assert_eq!(found.next(), Some(0), "and nothing was written into it");
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

/// The same without a race: each thing that a tenant may have put where the keys belong.
#[test]
fn what_is_in_the_way_of_keys_is_refused_or_replaced() {
    on_a_tree(|tree| {
        let (users, ada) = (&*tree.host.users, tenant("ada", UID));
        users.ensure_account(&ada, false).expect("account");
        users.ensure_home(&ada).expect("home");
        let (ssh, keys_file) = (path("home/ada/.ssh"), path("home/ada/.ssh/authorized_keys"));
        let elsewhere = tree.plant_dir("tmp/elsewhere", UID);
        let refused = |what: &str| {
            let error = users.ensure_keys(&ada, &keys()).expect_err(what);
            assert_eq!(error.code(), Code::UserRefused, "{what}: {error}");
        };
        fs::remove_dir(&ssh).expect("remove");
        symlink(&elsewhere, &ssh).expect("link");
        refused("a link, even to a directory of their own");
        assert_eq!(fs::read_dir(&elsewhere).expect("list").count(), 0);
        fs::remove_file(&ssh).expect("remove");
        tree.plant("home/ada/.ssh", UID);
        refused("a file");
        fs::remove_file(&ssh).expect("remove");
        tree.plant_dir("home/ada/.ssh", 0);
        refused("a directory of root's");
        fs::remove_dir(&ssh).expect("remove");
        users.ensure_keys(&ada, &keys()).expect("a missing one is made");
        fs::remove_file(&keys_file).expect("remove");
        fs::create_dir(&keys_file).expect("a directory");
        refused("a directory instead of the file");
        fs::remove_dir(&keys_file).expect("remove");
        let secret = tree.plant("root/secret", 0);
        symlink(&secret, &keys_file).expect("link");
        users
            .ensure_keys(&ada, &keys())
            .expect("a link is replaced, not followed");
        assert_eq!(fs::read_to_string(&secret).expect("still there"), "planted");
        fs::remove_file(&keys_file).expect("remove");
        rustix::fs::mkfifoat(CWD, &keys_file, rustix::fs::Mode::RWXU).expect("fifo");
        assert!(!users.verified(&ada, false, &keys()).expect("does not wait").keys);
        users.ensure_keys(&ada, &keys()).expect("a fifo is replaced");
        let meta = fs::symlink_metadata(&keys_file).expect("a file");
        assert_eq!((meta.uid(), meta.mode() & 0o7777, meta.is_file()), (UID, 0o600, true));
        let wanted: String = keys().iter().map(|key| format!("{key}\n")).collect();
        assert_eq!(
            fs::read_to_string(&keys_file).expect("read"),
            wanted,
            "type and blob, nothing else"
        );
    });
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
        for (dir, left) in [
            ("tmp", 1),
            ("var/tmp", 1),
            ("dev/shm", 0),
            ("dev/mqueue", 0),
            ("home", 0),
        ] {
            assert_eq!(fs::read_dir(path(dir)).expect("list").count(), left, "{dir}");
        }
        for dir in ["", "home", "tmp", "dev/shm", "var/tmp"] {
            let names = fs::read_dir(path(dir))
                .expect("list")
                .map(|entry| entry.expect("look").file_name());
            let trash = names.filter(|name| name.to_string_lossy().contains("trash"));
            assert_eq!(trash.count(), 0, "{dir}");
        }
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

pub(crate) fn plant_everything(tree: &Tree) -> Vec<std::process::Child> {
    for file in [
        "tmp/file",
        "var/tmp/file",
        "dev/shm/file",
        "var/spool/cron/atjobs/a00001",
    ] {
        tree.plant(file, UID);
    }
    // Not the tenant's own, so that it is found by its name and not with the files.
    tree.plant("var/spool/cron/crontabs/ada", 0);
    // A message queue is a file that cannot be written to.
    fs::File::create_new(path("dev/mqueue/queue")).expect("a queue");
    chown(path("dev/mqueue/queue"), Some(UID), Some(UID)).expect("chown");
    tree.plant("var/lib/systemd/linger/ada", 0);
    // Links out of a tenant's directory, a file of root's inside it, a name that is no text, and a hole in the ground.
    tree.plant_dir("tmp/dir", UID);
    symlink("/etc", path("tmp/dir/link")).expect("link");
    tree.plant("tmp/dir/of-root", 0);
    symlink("/etc", path("tmp/link")).expect("link");
    lchown(path("tmp/link"), Some(UID), Some(UID)).expect("chown");
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
