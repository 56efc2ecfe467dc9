//! One suite, both machines: what the executor may rely on whichever it has.

use host::pretend::{Pretend, Profile};
use host::{Host, Users};
use model::id::AllocationId;
use model::signal::Code;

use crate::tree::{keys, on_a_tree, tenant};

fn on_pretend(suite: fn(&Host)) {
    suite(&Pretend::in_memory(Profile::Cpu).host());
}

fn provision(users: &dyn Users, tenant: &host::Tenant) {
    users.ensure_account(tenant, true).expect("account");
    assert_eq!(
        users.ensure_home(tenant).expect("home"),
        format!("/home/{}", tenant.name)
    );
    users.ensure_keys(tenant, &keys()).expect("keys");
}

fn deprovision(users: &dyn Users, tenant: &host::Tenant) {
    users.refuse_foreign(tenant).expect("ours");
    users.ensure_locked(tenant).expect("locked");
    users.ensure_no_schedules(tenant).expect("schedules");
    users.ensure_no_processes(tenant).expect("processes");
    users.ensure_no_keys(tenant).expect("keys");
    users.ensure_no_home(tenant).expect("home");
    users.ensure_no_files(tenant).expect("files");
    users.ensure_no_ipc(tenant).expect("ipc");
    users.ensure_no_account(tenant).expect("account");
}

fn there_and_back(host: &Host) {
    let (users, ada) = (&*host.users, tenant("ada", 20001));
    users.prove_absent(&ada).expect("nothing yet");
    for _ in 0..2 {
        provision(users, &ada);
        let verified = users.verified(&ada, true, &keys()).expect("look");
        assert!(verified.user && verified.home && verified.keys, "{verified:?}");
    }
    let error = users.prove_absent(&ada).expect_err("it is there");
    assert_eq!(error.code(), Code::AbsenceNotProved);
    for _ in 0..2 {
        deprovision(users, &ada);
        users.prove_absent(&ada).expect("all gone");
    }
    provision(users, &ada);
    assert!(
        users.verified(&ada, true, &keys()).expect("look").user,
        "a locked predecessor leaves no trace"
    );
}

fn what_is_not_there_is_not_verified(host: &Host) {
    let (users, ada) = (&*host.users, tenant("ada", 20001));
    let verified = users.verified(&ada, false, &keys()).expect("look");
    assert!(!verified.user && !verified.home && !verified.keys);
    users.ensure_account(&ada, true).expect("account");
    users.ensure_home(&ada).expect("home");
    let verified = users.verified(&ada, false, &keys()).expect("look");
    assert!(
        !verified.user && verified.home && !verified.keys,
        "it has groups it should not have, and no keys"
    );
    users.ensure_account(&ada, false).expect("account");
    assert!(users.verified(&ada, false, &keys()).expect("look").user);
    users.ensure_keys(&ada, &keys()).expect("keys");
    users.ensure_locked(&ada).expect("locked");
    let verified = users.verified(&ada, false, &keys()).expect("look");
    assert!(
        !verified.user && verified.keys,
        "a locked account is none that can be used"
    );
}

/// The undo of a refused step must not take away what belongs to somebody else.
fn foreign_accounts_are_refused_and_left_alone(host: &Host) {
    let (users, ada) = (&*host.users, tenant("ada", 20001));
    provision(users, &ada);
    let mut other_owner = ada.clone();
    other_owner.owner = AllocationId::new();
    for (other, code) in [
        (tenant("ada", 20002), Code::UserRefused),
        (other_owner, Code::UserRefused),
        (tenant("bea", 20001), Code::UidRefused),
    ] {
        let refusals = [
            users.refuse_foreign(&other),
            users.ensure_account(&other, false),
            users.ensure_locked(&other),
            users.ensure_no_schedules(&other),
            users.ensure_no_processes(&other).map(drop),
            users.ensure_no_files(&other),
            users.ensure_no_ipc(&other),
        ];
        for refusal in refusals {
            assert_eq!(refusal.expect_err("foreign").code(), code, "{other:?}");
        }
        users.ensure_no_account(&other).expect("nothing of theirs is there");
    }
    let stranger = tenant("ada", 20002);
    users.ensure_no_keys(&stranger).expect("nothing of theirs is there");
    users.ensure_no_home(&stranger).expect("nothing of theirs is there");
    assert!(users.ensure_home(&stranger).is_err());
    assert!(users.ensure_keys(&stranger, &keys()).is_err());
    let verified = users.verified(&ada, true, &keys()).expect("look");
    assert!(verified.user && verified.home && verified.keys);
}

/// What shows that a uid was ours outlasts the account, and ends with the proof.
fn a_uid_is_ours_until_its_absence_is_proved(host: &Host) {
    let (users, ada, bea) = (&*host.users, tenant("ada", 20001), tenant("bea", 20001));
    provision(users, &ada);
    users.ensure_no_account(&ada).expect("account");
    let refusals = [
        users.refuse_foreign(&bea),
        users.ensure_account(&bea, false),
        users.ensure_no_files(&bea),
        users.ensure_no_processes(&bea).map(drop),
    ];
    for refusal in refusals {
        assert_eq!(refusal.expect_err("ada's home is there").code(), Code::UidRefused);
    }
    users.ensure_no_account(&bea).expect("left alone");
    users
        .ensure_no_files(&ada)
        .expect("still ours to remove, without an account");
    users.prove_absent(&ada).expect("all gone");
    provision(users, &bea);
    let error = users.ensure_no_files(&ada).expect_err("it is bea's now");
    assert_eq!(error.code(), Code::UidRefused);
}

#[test]
fn a_uid_is_ours_until_its_absence_is_proved_pretend() {
    on_pretend(a_uid_is_ours_until_its_absence_is_proved);
}

#[test]
fn a_uid_is_ours_until_its_absence_is_proved_real() {
    on_a_tree(|tree| a_uid_is_ours_until_its_absence_is_proved(&tree.host));
}

#[test]
fn there_and_back_pretend() {
    on_pretend(there_and_back);
}

#[test]
fn there_and_back_real() {
    on_a_tree(|tree| there_and_back(&tree.host));
}

#[test]
fn what_is_not_there_is_not_verified_pretend() {
    on_pretend(what_is_not_there_is_not_verified);
}

#[test]
fn what_is_not_there_is_not_verified_real() {
    on_a_tree(|tree| what_is_not_there_is_not_verified(&tree.host));
}

#[test]
fn foreign_accounts_are_refused_and_left_alone_pretend() {
    on_pretend(foreign_accounts_are_refused_and_left_alone);
}

#[test]
fn foreign_accounts_are_refused_and_left_alone_real() {
    on_a_tree(|tree| foreign_accounts_are_refused_and_left_alone(&tree.host));
}
