//! Tenants who fight back while they are removed, and traps laid for whoever removes them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

use host::{Tenant, Users};
use model::signal::Code;
use rustix::mount::{MountFlags, mount};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::tree::{Tree, keys, on_a_tree, path, program, tenant};

const UID: u32 = 20001;

/// The verbs of `allocation.deprovision_user`, in its order.
pub(crate) fn deprovision(users: &dyn Users, tenant: &Tenant) -> host::Result<u32> {
    users.refuse_foreign(tenant)?;
    users.ensure_locked(tenant)?;
    users.ensure_no_schedules(tenant)?;
    let killed = users.ensure_no_processes(tenant)?;
    users.ensure_no_ipc(tenant)?;
    users.ensure_no_files(tenant)?;
    users.ensure_no_account(tenant)?;
    users.prove_absent(tenant)?;
    Ok(killed)
}

/// Each process starts its successor and ends, so that whoever lists processes meets only the dead.
#[test]
fn processes_that_fork_faster_than_one_can_look_are_killed() {
    on_a_tree(|tree| {
        let (users, ada) = (&*tree.host.users, tenant("ada", UID));
        users.ensure_account(&ada, false).expect("account");
        users.ensure_home(&ada).expect("home");
        let script = path("tmp/hop");
        let text = "#!/bin/sh\n\"$0\" &\n";
        fs::write(&script, text).expect("write");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("executable");
        let mut neighbour = tree.process(20002);
        for _ in 0..12 {
            let mut hop = program(script.to_str().expect("text"));
            hop.uid(UID).gid(UID).stdin(Stdio::null()).stderr(Stdio::null());
            hop.spawn().expect("starts").wait().expect("and hops");
        }
        deprovision(users, &ada).expect("removed all the same");
        assert!(neighbour.try_wait().expect("look").is_none(), "nobody else is hit");
        neighbour.kill().expect("kill");
        neighbour.wait().expect("wait");
    });
}

/// Whoever still runs can ask for a successor until the very end.
#[test]
fn what_is_scheduled_while_processes_are_killed_goes_with_them() {
    on_a_tree(|tree| {
        let (users, ada) = (&*tree.host.users, tenant("ada", UID));
        users.ensure_account(&ada, false).expect("account");
        users.ensure_no_schedules(&ada).expect("schedules");
        let mut process = tree.process(UID);
        let linger = tree.plant("var/lib/systemd/linger/ada", 0);
        assert_eq!(users.ensure_no_processes(&ada).expect("killed"), 1);
        assert!(!linger.exists());
        process.wait().expect("dead");
    });
}

/// The first thread of a process has ended, which makes the process look like a zombie; another one goes on.
#[test]
fn a_process_whose_first_thread_has_ended_still_runs() {
    on_a_tree(|tree| {
        let exit = match std::env::consts::ARCH {
            "x86_64" => 60,
            _ => 93,
        };
        let text = format!("threads->create(sub {{ $| = 1; print \"on\\n\"; sleep 1000 }}); syscall({exit}, 0);");
        let mut perl = program("perl");
        perl.args(["-Mthreads", "-e", &text]).uid(UID).gid(UID);
        let Ok(mut child) = perl.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
            return println!("not run: needs perl");
        };
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("read");
        if line != "on\n" {
            return println!("not run: this perl has no threads");
        }
        let status = path(&format!("proc/{}/status", child.id()));
        while !fs::read_to_string(&status).expect("still there").contains("State:\tZ") {
            std::thread::yield_now();
        }
        let (users, ada) = (&*tree.host.users, tenant("ada", UID));
        tree.record(&ada);
        assert!(!users.absent(&ada).expect("look").processes, "it is seen");
        assert_eq!(users.ensure_no_processes(&ada).expect("killed"), 1);
        assert!(users.absent(&ada).expect("look").processes);
        child.wait().expect("dead");
    });
}

/// Under `hidepid` a look without the right to trace sees nobody, which is no proof that nobody is there.
#[test]
fn what_cannot_be_seen_is_not_absent() {
    on_a_tree(|tree| {
        let (users, ada) = (&*tree.host.users, tenant("ada", UID));
        let mut process = tree.process(UID);
        mount("proc", path("proc"), "proc", MountFlags::empty(), Some(c"hidepid=2")).expect("mount");
        assert!(!users.absent(&ada).expect("we may trace").processes);
        let all = capabilities(None).expect("ask");
        let mut fewer = all;
        fewer.effective.remove(CapabilitySet::SYS_PTRACE);
        set_capabilities(None, fewer).expect("drop one");
        let error = users.absent(&ada).expect_err("an error, not an absence");
        assert_eq!(error.code(), Code::HostCommandFailed, "{error}");
        set_capabilities(None, all).expect("take it back");
        // Another's /proc, or none: it does not show even ourselves.
        mount("tmpfs", path("proc"), "tmpfs", MountFlags::empty(), None).expect("mount");
        users.absent(&ada).expect_err("an error, not an absence");
        process.kill().expect("kill");
        process.wait().expect("wait");
    });
}

/// Directories that are called as ours are, or were: of the tenant, of a neighbour, and of root, moved there by
/// somebody who may rename what others own.
#[test]
fn a_directory_that_is_called_like_our_trash_is_like_any_other() {
    on_a_tree(|tree| {
        let (users, ada) = (&*tree.host.users, tenant("ada", UID));
        users.ensure_account(&ada, false).expect("account");
        fs::set_permissions(path("var/tmp"), fs::Permissions::from_mode(0o777)).expect("open to all");
        let mut kept = Vec::new();
        for (place, name) in [("var/tmp", ".gpuaas-trash"), ("dev/shm", ".gpuaas-trash.00")] {
            for (suffix, owner) in [("", 0), ("1", 20002), ("2", UID)] {
                let dir = format!("{place}/{name}{suffix}");
                let made = tree.plant_dir(&dir, 0);
                kept.extend((owner != UID).then(|| tree.plant(&format!("{dir}/data"), owner)));
                tree.plant(&format!("{dir}/theirs"), UID);
                std::os::unix::fs::chown(&made, Some(owner), Some(owner)).expect("chown");
            }
            // Something that has to go through the trash.
            tree.plant_dir(&format!("{place}/dir"), UID);
            tree.plant(&format!("{place}/dir/file"), UID);
        }
        deprovision(users, &ada).expect("all of theirs is gone");
        for file in &kept {
            assert_eq!(
                fs::read_to_string(file).expect("still there"),
                "planted",
                "{}",
                file.display()
            );
        }
        let left = |dir: &str| fs::read_dir(path(dir)).expect("list").count();
        assert_eq!((left("var/tmp"), left("dev/shm")), (2, 2), "no trash of ours is left");
    });
}

/// Nothing shows that the uid was ever ours: then what has it is somebody's.
#[test]
fn what_has_a_uid_that_is_not_shown_to_be_ours_is_left_alone() {
    on_a_tree(|tree| {
        let (users, ada) = (&*tree.host.users, tenant("ada", UID));
        deprovision(users, &ada).expect("nothing there, nothing to refuse");
        let mut process = tree.process(UID);
        let file = tree.plant("var/tmp/file", UID);
        fs::File::create_new(path("dev/mqueue/queue")).expect("a queue");
        std::os::unix::fs::chown(path("dev/mqueue/queue"), Some(UID), Some(UID)).expect("chown");
        let cron = tree.plant("var/spool/cron/crontabs/ada", 0);
        let home = tree.plant_dir("home/ada", UID);
        let refused = |outcome: host::Result<()>| {
            let error = outcome.expect_err("not ours");
            assert_eq!(error.code(), Code::UidRefused, "{error}");
        };
        refused(users.ensure_no_processes(&ada).map(drop));
        refused(users.ensure_no_files(&ada));
        refused(users.ensure_no_ipc(&ada));
        refused(users.ensure_no_schedules(&ada));
        refused(users.ensure_account(&ada, false));
        users.ensure_no_home(&ada).expect("left alone");
        users.ensure_no_account(&ada).expect("left alone");
        assert!(process.try_wait().expect("look").is_none() && file.exists() && cron.exists() && home.exists());
        // Each of the traces alone is enough for a new account to be refused.
        fs::remove_file(&cron).expect("remove");
        process.kill().expect("kill");
        process.wait().expect("wait");
        refused(users.ensure_account(&ada, false));
        fs::remove_file(path("dev/mqueue/queue")).expect("remove");
        refused(users.ensure_account(&ada, false));
        fs::remove_file(&file).expect("remove");
        refused(users.ensure_account(&ada, false));
        fs::remove_dir(&home).expect("remove");
        users.ensure_account(&ada, false).expect("now it is free");
        assert!(path("var/lib/gpuaas/executor/users/20001.json").exists());
        deprovision(users, &ada).expect("gone");
        assert!(
            !path("var/lib/gpuaas/executor/users/20001.json").exists(),
            "with the proof"
        );
    });
}

/// The executor's own order of verbs, over everything a lived-in account has.
#[test]
fn the_order_of_the_task_removes_everything() {
    on_a_tree(|tree| {
        let (users, ada) = (&*tree.host.users, tenant("ada", UID));
        users.ensure_account(&ada, true).expect("account");
        users.ensure_home(&ada).expect("home");
        users.ensure_keys(&ada, &keys()).expect("keys");
        let mut processes = crate::abuse::plant_everything(tree);
        session(tree);
        let left = users.absent(&ada).expect("look").left().len();
        assert_eq!(left, 9, "one of everything is there");
        assert_eq!(deprovision(users, &ada).expect("gone"), 3);
        for process in &mut processes {
            process.wait().expect("dead");
        }
        let meta = fs::metadata(path("run/user/20001")).expect("the session manager's to unmount");
        assert_eq!((meta.uid(), is_empty(&path("run/user/20001"))), (0, true));
        assert_eq!(deprovision(users, &ada).expect("again"), 0);
    });
}

/// A runtime directory, as a session has it.
fn session(tree: &Tree) {
    fs::create_dir_all(path("run/user/20001")).expect("make a directory");
    mount("tmpfs", path("run/user/20001"), "tmpfs", MountFlags::empty(), None).expect("mount");
    std::os::unix::fs::chown(path("run/user/20001"), Some(UID), Some(UID)).expect("chown");
    tree.plant("run/user/20001/bus", UID);
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).expect("list").next().is_none()
}

/// A file system of the tenant's own making, whose program is dead: nobody can look into it, and it is in the way.
#[test]
fn dead_mounts_of_the_tenant_are_taken_away() {
    on_a_tree(|tree| {
        let Ok(fuse) = fs::File::options().read(true).write(true).open("/dev/fuse") else {
            return println!("not run: needs /dev/fuse");
        };
        let (users, ada) = (&*tree.host.users, tenant("ada", UID));
        users.ensure_account(&ada, false).expect("account");
        users.ensure_home(&ada).expect("home");
        let at = tree.plant_dir("home/ada/mounted", UID);
        let id = std::os::fd::AsRawFd::as_raw_fd(&fuse);
        let options = format!("fd={id},rootmode=40000,user_id={UID},group_id={UID}");
        let options = std::ffi::CString::new(options).expect("no zero");
        mount(
            "ada",
            &at,
            "fuse",
            MountFlags::NOSUID | MountFlags::NODEV,
            Some(&*options),
        )
        .expect("mount");
        drop(fuse);
        let left = users.leftovers(&ada).expect("look");
        assert!(left.iter().any(|line| line.ends_with("home/ada/mounted")), "{left:?}");
        deprovision(users, &ada).expect("gone");
        assert!(!path("home/ada").exists());
    });
}

/// A tenant may be called like a directory of the spool.
#[test]
fn directories_of_the_spool_are_not_schedules() {
    on_a_tree(|tree| {
        let (users, tenant) = (&*tree.host.users, tenant("crontabs", UID));
        users.ensure_account(&tenant, false).expect("account");
        tree.plant("var/spool/cron/crontabs/neighbour", 0);
        tree.plant("var/spool/cron/crontabs/crontabs", 0);
        deprovision(users, &tenant).expect("gone");
        let left = fs::read_dir(path("var/spool/cron/crontabs")).expect("list").count();
        assert_eq!(left, 1);
    });
}

/// What another mount hides cannot be looked at, and is said to whoever has to look.
#[test]
fn mounts_that_were_not_looked_at_are_named() {
    on_a_tree(|tree| {
        let (users, ada) = (&*tree.host.users, tenant("ada", UID));
        tree.plant("var/tmp/below", UID);
        mount("tmpfs", path("var/tmp"), "tmpfs", MountFlags::empty(), None).expect("mount");
        let left = users.leftovers(&ada).expect("look");
        let named = left
            .iter()
            .any(|line| line.contains("/var/tmp was not looked at (hidden"));
        assert!(named, "{left:?}");
    });
}
