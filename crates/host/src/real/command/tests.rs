//! Programs that fail, hang, leave something running or leave their group.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::*;
use crate::real::operations::Group;
use model::id::{AllocationId, derive_op};

use crate::Operations as _;
use crate::real::Operations as Real;

#[test]
fn a_program_that_fails_says_why() {
    let commands = Commands::under("/".into());
    let args = ["--no-such-option"];
    let ended = commands
        .run(Program::Ipcrm, &args, None, Duration::from_secs(20))
        .expect("it starts");
    let error = ended.ok().expect_err("it fails").to_string();
    assert!(error.contains("ipcrm") && error.contains("no-such-option"), "{error}");
}

/// A program that ends well may still have left somebody behind.
#[test]
fn what_a_program_leaves_running_is_killed() {
    let mut command = program_at("/bin/sh");
    command
        .args(["-c", "sleep 1000 >&- 2>&- & echo $! >&2"])
        .process_group(0);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut running = Running::start(command).expect("starts");
    let left = said_pid(&mut running);
    assert!(running.end().expect("reaped").success(), "its own status");
    assert!(dies(&left));
}

const LIMIT: Duration = Duration::from_secs(20);

/// The process whose number it says.
fn said_pid(running: &mut Running) -> OwnedFd {
    let said = running.watch(Instant::now() + LIMIT).expect("watched").expect("ended");
    let left = said.stderr.parse().ok().and_then(Pid::from_raw).expect("a pid");
    pidfd_open(left, PidfdFlags::empty()).expect("it runs")
}

fn dies(pidfd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    poll(&mut fds, Timespec::try_from(LIMIT).ok().as_ref()).expect("poll") == 1
}

/// None where there is no place for one, which is said.
fn operations() -> Option<Real> {
    let operations = Real::of_this_process();
    if let Some(why) = operations.hindrance() {
        println!("not run: {why}");
        return None;
    }
    Some(operations)
}

#[test]
fn what_leaves_its_process_group_does_not_leave_the_operation() {
    let Some(operations) = operations() else { return };
    let op = derive_op(AllocationId::new(), "a test", 1);
    let entered = operations.enter(op).expect("entered");
    let mut command = program_at("/bin/sh");
    // It waits until it is where it belongs, and then until its child has a session of its own.
    let script = "read go; setsid sleep 1000 >&- 2>&- & until read -r pid name state parent group session rest \
        </proc/$!/stat && [ $session = $! ]; do :; done; echo $! >&2";
    command.args(["-c", script]).process_group(0);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(command).expect("starts");
    drop(running.child.stdin.take());
    let left = said_pid(&mut running);
    assert!(running.end().expect("reaped").success());
    assert!(dies(&left));
    drop(entered);
    assert!(Group::current().is_none());
}

#[test]
fn what_a_killed_executor_left_dies_before_its_task_goes_on() {
    let Some(operations) = operations() else { return };
    let op = derive_op(AllocationId::new(), "a test", 1);
    let entered = operations.enter(op).expect("entered");
    let mut command = program_at("/bin/sleep");
    command.arg("1000").process_group(0);
    let mut running = Running::start(command).expect("starts");
    let left = pidfd_open(Pid::from_child(&running.child), PidfdFlags::empty()).expect("it runs");
    // As after a kill -9: nobody ends it.
    running.reaped = true;
    std::mem::forget(entered);
    let again = operations.enter(op).expect("entered again");
    assert!(dies(&left));
    running.child.wait().expect("reaped");
    drop(again);
}

#[test]
fn what_ends_in_one_place_of_an_operation_goes_on_in_another() {
    let Some(operations) = operations() else { return };
    let op = derive_op(AllocationId::new(), "a test", 1);
    let entered = operations.enter(op).expect("entered");
    let place = |number| operations.place(number).expect("a place");
    let started = |program: &'static str| {
        let mut command = program_at(program);
        command.arg("1000").process_group(0).stdout(Stdio::null());
        Running::start(command).expect("starts")
    };
    let (long, short) = (place(0), place(1));
    std::thread::scope(|scope| {
        let outer = scope.spawn(|| {
            let _entered = long.enter();
            let mut sleeps = started("/bin/sleep");
            let ends = scope.spawn(|| {
                let _entered = short.enter();
                assert!(started("/bin/echo").end().is_ok());
            });
            ends.join().expect("it ended");
            assert!(sleeps.child.try_wait().expect("a child").is_none(), "it goes on");
            pidfd_open(Pid::from_child(&sleeps.child), PidfdFlags::empty()).expect("it runs")
        });
        assert!(dies(&outer.join().expect("no panic")), "with its place");
    });
    let dir = Group::current().expect("ours").dir().to_owned();
    drop(entered);
    assert!(!dir.exists(), "the places are gone, and the operation");
}

#[test]
fn a_program_past_its_deadline_is_killed() {
    let commands = Commands::under("/".into());
    let ended = commands.run(Program::Ipcrm, &["--help"], None, Duration::ZERO);
    assert!(matches!(ended, Err(Error::ProgramTimeout { program: "ipcrm", .. })));
}
