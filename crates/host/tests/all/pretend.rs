//! What the pretend machine promises beyond the verbs: a fuse at every call, and a state that survives its process.

use std::collections::BTreeSet;
use std::fs;

use host::pretend::{Blow, Leftover, Pretend, Profile};
use host::{Error, Host, Markers};
use model::proof::WipeMethod;
use model::signal::Code;
use model::value::Nonce;

use crate::facts::Scratch;
use crate::tree::{keys, tenant};

#[test]
fn the_fuse_blows_once_before_or_after_the_effect() {
    for (blow, there) in [(Blow::Before, false), (Blow::After, true)] {
        let machine = Pretend::in_memory(Profile::Cpu);
        let (users, ada) = (machine.host().users, tenant("ada", 20001));
        users.refuse_foreign(&ada).expect("no fuse yet");
        machine.set_fuse(1, blow);
        users.refuse_foreign(&ada).expect("one call more");
        assert!(!machine.fuse_blown());
        let error = users.ensure_account(&ada, false).expect_err("blown");
        assert!(matches!(error, Error::Fuse { verb: "ensure_account" }));
        assert!(machine.fuse_blown());
        assert_eq!(machine.snapshot().accounts.contains_key("ada"), there);
        users.ensure_account(&ada, false).expect("once only");
        assert_eq!(machine.calls(), 4);
    }
}

/// Every verb of every trait counts, so a sweep over the n-th call meets each of them.
#[test]
fn every_call_can_blow() {
    let machine = Pretend::in_memory(Profile::H100x8);
    let Host {
        users,
        facts,
        devices,
        disks,
        ..
    } = machine.host();
    let ada = tenant("ada", 20001);
    let gpu = devices.functions().expect("functions")[0].pci;
    let disk = disks.disks().expect("disks").disks.pop().expect("one").identity;
    let open = disks.open_guarded(&disk).expect("free");
    let markers = Markers::new(Nonce::from_bytes([7; 32]), disk.size_bytes).expect("room");
    let before = machine.calls();
    type Call<'a> = Box<dyn Fn() -> host::Result<()> + 'a>;
    let calls: Vec<Call<'_>> = vec![
        Box::new(|| users.refuse_foreign(&ada)),
        Box::new(|| users.ensure_account(&ada, true)),
        Box::new(|| users.ensure_home(&ada).map(drop)),
        Box::new(|| users.ensure_keys(&ada, &keys())),
        Box::new(|| users.verified(&ada, true, &keys()).map(drop)),
        Box::new(|| users.ensure_locked(&ada)),
        Box::new(|| users.ensure_no_schedules(&ada)),
        Box::new(|| users.ensure_no_processes(&ada).map(drop)),
        Box::new(|| users.ensure_no_keys(&ada)),
        Box::new(|| users.ensure_no_home(&ada)),
        Box::new(|| users.ensure_no_files(&ada)),
        Box::new(|| users.ensure_no_ipc(&ada)),
        Box::new(|| users.ensure_no_account(&ada)),
        Box::new(|| users.absent(&ada).map(drop)),
        Box::new(|| facts.kernel_version().map(drop)),
        Box::new(|| facts.free_memory_mib().map(drop)),
        Box::new(|| facts.kvm_present().map(drop)),
        Box::new(|| facts.vfio_modules().map(drop)),
        Box::new(|| facts.gpus().map(drop)),
        Box::new(|| facts.fabric_links().map(drop)),
        Box::new(|| facts.root_free_bytes().map(drop)),
        Box::new(|| devices.functions().map(drop)),
        Box::new(|| devices.function(gpu).map(drop)),
        Box::new(|| devices.group_holders(1).map(drop)),
        Box::new(|| devices.holders().map(drop)),
        Box::new(|| devices.vbios_sha256(gpu).map(drop)),
        Box::new(|| devices.check_passthrough(1).map(drop)),
        Box::new(|| devices.ensure_vfio_bound(gpu).map(drop)),
        Box::new(|| devices.reset(gpu, None).map(drop)),
        Box::new(|| disks.disks().map(drop)),
        Box::new(|| disks.open_guarded(&disk).map(drop)),
        Box::new(|| open.wipe_methods().map(drop)),
        Box::new(|| open.plant(&markers).map(drop)),
        Box::new(|| open.wipe(WipeMethod::Overwrite).map(drop)),
        Box::new(|| open.seek(&markers, WipeMethod::Overwrite).map(drop)),
    ];
    for call in &calls {
        machine.set_fuse(0, Blow::Before);
        assert!(matches!(call(), Err(Error::Fuse { .. })));
        call().expect("the fuse is spent");
    }
    assert_eq!(machine.calls() - before, 2 * calls.len());
}

#[test]
fn the_state_survives_its_process_and_the_log_agrees_with_it() {
    let dir = Scratch::new("pretend");
    let ada = tenant("ada", 20001);
    let open = || Pretend::in_directory(Profile::Cpu, &dir.0).expect("open");
    let machine = open();
    let users = machine.host().users;
    users.ensure_account(&ada, false).expect("account");
    users.ensure_account(&ada, false).expect("again");
    users.ensure_home(&ada).expect("home");
    let log = || fs::read_to_string(dir.0.join("effects.jsonl")).expect("the log");
    assert_eq!(log().lines().count(), 2, "asking twice has one effect");
    assert!(log().contains(r#""verb":"ensure_account""#) && log().contains(&ada.owner.to_string()));

    // Killed between the log and the state: the line was never an effect.
    let before = machine.snapshot();
    let torn = log() + "{\"seq\":3,\"verb\":\"ensure_no_ho";
    fs::write(dir.0.join("effects.jsonl"), torn).expect("write");
    let machine = open();
    assert_eq!(machine.snapshot(), before);
    assert_eq!(log().lines().count(), 2);
    machine.host().users.ensure_no_home(&ada).expect("home");
    assert!(
        log()
            .lines()
            .last()
            .is_some_and(|line| line.starts_with(r#"{"seq":3,"#))
    );
    assert!(open().snapshot().homes.is_empty());

    // Every touch is there, also those that made no difference and the one before a death in the middle of a line.
    let touches = || fs::read_to_string(dir.0.join("touches.jsonl")).expect("the other log");
    assert_eq!(touches().lines().count(), 4, "{}", touches());
    fs::write(dir.0.join("touches.jsonl"), touches() + "{\"life\":7,\"ve").expect("write");
    open().host().users.ensure_no_home(&ada).expect("nothing to do");
    let last = touches().lines().last().map(str::to_owned).expect("a line");
    assert!(
        last.contains(r#""verb":"ensure_no_home","name":"ada","uid":20001"#),
        "{last}"
    );
    assert_eq!(log().lines().count(), 3, "it made no difference");
}

#[test]
fn a_damaged_state_is_an_error_and_not_a_clean_machine() {
    let dir = Scratch::new("damaged");
    fs::write(dir.0.join("state.json"), "{").expect("write");
    assert!(Pretend::in_directory(Profile::Cpu, &dir.0).is_err());
}

#[test]
fn what_cannot_be_removed_is_not_proved_absent() {
    let machine = Pretend::in_memory(Profile::Cpu);
    let (users, ada) = (machine.host().users, tenant("ada", 20001));
    users.ensure_account(&ada, false).expect("account");
    machine.meddle(|state| {
        state.leftovers.insert(
            20001,
            BTreeSet::from([Leftover::Process, Leftover::Ipc, Leftover::Cron]),
        );
        state.immovable.insert(Leftover::Ipc);
    });
    assert_eq!(users.ensure_no_processes(&ada).expect("processes"), 1);
    users.ensure_no_schedules(&ada).expect("schedules");
    users.ensure_no_ipc(&ada).expect("it tries");
    users.ensure_no_account(&ada).expect("account");
    let error = users.prove_absent(&ada).expect_err("ipc is left");
    assert_eq!(error.code(), Code::AbsenceNotProved);
    assert!(matches!(error, Error::AbsenceNotProved { left, .. } if left == ["ipc"]));
}
