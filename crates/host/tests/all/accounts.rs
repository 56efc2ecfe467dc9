//! Accounts on a real machine: exactly one, whole, whoever died before; and nobody else's touched.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use model::signal::Code;
use model::value::Name;

use crate::tree::{Tree, on_a_tree, path, program, tenant};

const FILES: [&str; 5] = ["passwd", "shadow", "group", "gshadow", "subuid"];

#[test]
fn an_account_can_log_in_by_key_and_has_no_groups_but_its_own() {
    on_a_tree(|tree| {
        let ada = tenant("ada", 20001);
        let mark = format!("passwd: ada:x:20001:20001:gpuaas {}:/home/ada:/bin/bash", ada.owner);
        let lines = |tree: &Tree| {
            let lines = tree
                .lines_about("ada")
                .into_iter()
                .filter(|line| !line.starts_with("shadow"));
            lines.collect::<Vec<_>>()
        };
        tree.host.users.ensure_account(&ada, false).expect("account");
        assert_eq!(lines(tree), [&*mark, "group: ada:x:20001:", "gshadow: ada:!::"]);
        assert!(
            tree.read("etc/shadow").contains("\nada:*:"),
            "no password, and not locked"
        );
        tree.host.users.ensure_home(&ada).expect("home");
        let meta = fs::symlink_metadata(path("home/ada")).expect("home");
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (20001, 20001, 0o700));
        let meta = fs::symlink_metadata(path("home/ada/.profile")).expect("from /etc/skel");
        assert_eq!((meta.uid(), meta.is_file()), (20001, true));

        tree.host.users.ensure_account(&ada, true).expect("account");
        let with_groups = ["group: video:x:44:ada", "group: render:x:105:ada"];
        assert!(
            with_groups.iter().all(|line| lines(tree).contains(&(*line).to_owned())),
            "{:?}",
            lines(tree)
        );
        tree.host.users.ensure_account(&ada, false).expect("account");
        assert_eq!(lines(tree).len(), 3, "groups are taken away again");
    });
}

#[test]
fn an_account_that_somebody_takes_away_is_seen_to_be_gone() {
    on_a_tree(|tree| {
        let ada = tenant("ada", 20001);
        let there = || {
            let all = tree.host.users.residents().expect("listed");
            all.iter().map(|resident| resident.has_account).collect::<Vec<_>>()
        };
        assert_eq!(there(), [false; 0]);
        tree.host.users.ensure_account(&ada, false).expect("account");
        assert_eq!(there(), [true]);
        let passwd = tree.read("etc/passwd");
        let without = passwd.lines().filter(|line| !line.starts_with("ada:"));
        let without = without.map(|line| format!("{line}\n")).collect::<String>();
        fs::write(path("etc/passwd"), without).expect("written");
        assert_eq!(there(), [false], "it is written down, and there is none");
    });
}

#[test]
fn asking_twice_is_asking_once() {
    on_a_tree(|tree| {
        let ada = tenant("ada", 20001);
        tree.host.users.ensure_account(&ada, true).expect("account");
        let before = (
            tree.lines_about("ada"),
            fs::metadata(path("etc/passwd")).expect("passwd").ino(),
        );
        tree.host.users.ensure_account(&ada, true).expect("account");
        let after = (
            tree.lines_about("ada"),
            fs::metadata(path("etc/passwd")).expect("passwd").ino(),
        );
        assert_eq!(before, after, "the file is not even written again");
    });
}

#[test]
fn eight_at_once_make_one_account() {
    on_a_tree(|tree| {
        let ada = tenant("ada", 20001);
        std::thread::scope(|scope| {
            let racers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let host = host::Host::real_under(&path(""));
                        host.users.ensure_account(&ada, true)?;
                        host.users.ensure_home(&ada)
                    })
                })
                .collect();
            for racer in racers {
                racer.join().expect("no panic").expect("all of them succeed");
            }
        });
        let passwd = tree
            .lines_about("ada")
            .into_iter()
            .filter(|line| line.starts_with("passwd:"));
        assert_eq!(passwd.count(), 1);
        assert!(tree.host.users.verified(&ada, true, &[]).expect("look").user);
    });
}

#[test]
fn every_half_account_is_completed_and_removed() {
    on_a_tree(|tree| {
        let ada = tenant("ada", 20001);
        let clean: Vec<_> = FILES.iter().map(|file| tree.read(&format!("etc/{file}"))).collect();
        tree.host.users.ensure_account(&ada, true).expect("account");
        let whole: Vec<_> = FILES.iter().map(|file| tree.read(&format!("etc/{file}"))).collect();
        let half = |which: usize| {
            tree.record(&ada);
            for (n, file) in FILES.iter().enumerate() {
                let mut text = if which & (1 << n) != 0 {
                    whole[n].clone()
                } else {
                    clean[n].clone()
                };
                if *file == "subuid" && which & (1 << n) != 0 {
                    text = "ada:100000:65536\n".to_owned();
                }
                fs::write(path(&format!("etc/{file}")), text).expect("write");
            }
        };
        for which in 0..1 << FILES.len() {
            half(which);
            tree.host
                .users
                .ensure_account(&ada, true)
                .unwrap_or_else(|error| panic!("{which:05b}: {error}"));
            assert!(
                tree.host.users.verified(&ada, true, &[]).expect("look").user,
                "{which:05b}"
            );
            half(which);
            tree.host
                .users
                .ensure_no_account(&ada)
                .unwrap_or_else(|error| panic!("{which:05b}: {error}"));
            assert_eq!(tree.lines_about("ada"), [""; 0], "{which:05b}");
        }
        assert!(!tree.lines_about("opsy").is_empty(), "the neighbour is still there");
    });
}

#[test]
fn useradd_killed_at_any_moment_is_finished() {
    on_a_tree(|tree| {
        let ada = tenant("ada", 20001);
        let mut halves = 0;
        for n in 0..48 {
            let mark = format!("gpuaas {}", ada.owner);
            tree.record(&ada);
            let mut command = program("chroot");
            command
                .arg(path(""))
                .args(["/usr/sbin/useradd", "-m", "-u", "20001", "-c", &mark, "ada"]);
            let mut useradd = command.spawn().expect("useradd starts");
            let until = Instant::now() + Duration::from_micros(n * 250);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            useradd.kill().expect("kill");
            useradd.wait().expect("wait");
            let lines = tree.lines_about("ada").len();
            halves += usize::from(lines > 0 && lines < 6);
            tree.host
                .users
                .ensure_account(&ada, false)
                .unwrap_or_else(|error| panic!("{n}: {error}"));
            assert!(tree.host.users.verified(&ada, false, &[]).expect("look").user, "{n}");
            tree.host.users.ensure_no_account(&ada).expect("remove");
            fs::remove_dir_all(path("home/ada")).ok();
        }
        println!("{halves} half accounts among 48 kills");
    });
}

#[test]
fn accounts_of_the_host_are_refused() {
    on_a_tree(|tree| {
        let refused = |name, uid, code: Code| {
            let before = fs::read(path("etc/passwd")).expect("passwd");
            let error = tree
                .host
                .users
                .ensure_account(&tenant(name, uid), false)
                .expect_err("refused");
            assert_eq!(error.code(), code, "{name} {uid}: {error}");
            assert_eq!(fs::read(path("etc/passwd")).expect("passwd"), before);
        };
        refused("opsy", 20900, Code::UserRefused); // same name and uid, but not marked as ours
        refused("opsy", 20001, Code::UserRefused);
        refused("ada", 20900, Code::UidRefused);
        refused("video", 20001, Code::UserRefused); // a group of that name
        for reserved in [
            "root",
            "alloc",
            "qemu",
            "gpuaas",
            "gpuaas-agent",
            "libvirt",
            "libvirt-qemu",
        ] {
            assert!(reserved.parse::<Name>().is_err(), "{reserved} never becomes a tenant");
        }
    });
}

/// A group or a shadow line without an account is the host's own, unless we wrote down that we would make it.
#[test]
fn half_accounts_of_the_host_are_refused_and_left_alone() {
    on_a_tree(|tree| {
        let ada = tenant("ada", 20001);
        let group = tree.read("etc/group") + "ada:x:20001:\n";
        fs::write(path("etc/group"), &group).expect("write");
        let error = tree.host.users.ensure_account(&ada, false).expect_err("refused");
        assert_eq!(error.code(), Code::UserRefused, "{error}");
        tree.host.users.ensure_no_account(&ada).expect("left alone");
        assert_eq!(tree.read("etc/group"), group);
        assert!(
            tree.host.users.prove_absent(&ada).is_err(),
            "and nobody says it is gone"
        );
    });
}

#[test]
fn gpu_access_needs_the_groups() {
    on_a_tree(|tree| {
        fs::write(path("etc/group"), "root:x:0:\nvideo:x:44:\n").expect("write");
        let error = tree
            .host
            .users
            .ensure_account(&tenant("ada", 20001), true)
            .expect_err("no group render");
        assert_eq!(
            (error.code(), error.to_string()),
            (Code::HostCommandFailed, "the host has no group render".into())
        );
        assert_eq!(tree.lines_about("ada"), [""; 0]);
    });
}

#[test]
fn a_home_that_is_not_theirs_is_refused() {
    on_a_tree(|tree| {
        let ada = tenant("ada", 20001);
        tree.plant_dir("home/ada", 0);
        assert_eq!(
            tree.host.users.ensure_home(&ada).expect_err("root's").code(),
            Code::UserRefused
        );
        tree.host.users.ensure_no_home(&ada).expect("left alone");
        assert!(path("home/ada").exists());
        fs::remove_dir(path("home/ada")).expect("remove");
        std::os::unix::fs::symlink("/root", path("home/ada")).expect("link");
        assert_eq!(
            tree.host.users.ensure_home(&ada).expect_err("a link").code(),
            Code::UserRefused
        );
        assert_eq!(fs::read_dir(path("root")).expect("list").count(), 0);
    });
}
