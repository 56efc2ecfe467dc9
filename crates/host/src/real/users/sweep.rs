//! Kills everything of a uid in one act of the kernel, which no process that forks can outrun: a thread takes the uid
//! for a moment and signals all that it may. It refuses to signal while it has any capability, because then it might
//! reach everybody.

use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CapabilitySet, capabilities, set_thread_groups, set_thread_res_uid};

use super::Users;
use crate::Result;
use crate::error::Doing;

/// Nobody's. The thread's real and saved uid, so that the tenant may not signal it in turn, and with it all of us.
const NOBODYS: u32 = 0xffff_fff0;

impl Users {
    /// What it does not reach is for the caller to find: processes that have the uid only in passing.
    pub(super) fn sweep(&self, uid: u32) -> Result<()> {
        for top in ["sys/fs/cgroup", "sys/fs/cgroup/unified"] {
            let kill = self.path(format!("{top}/user.slice/user-{uid}.slice/cgroup.kill"));
            // Not every kernel has it and not every tenant a session; the signal below does not depend on it.
            fs::write(kill, "1").ok();
        }
        // Credentials belong to a thread. This one ends with the act, whatever comes of it.
        let act = std::thread::Builder::new()
            .name("sweep".to_owned())
            .spawn(move || signal_all(uid));
        let ended = act.doing(|| "start a thread".to_owned())?.join();
        ended
            .unwrap_or(Err(Errno::CANCELED))
            .doing(|| format!("kill all processes of uid {uid}"))
    }
}

fn signal_all(uid: u32) -> rustix::io::Result<()> {
    let (tenants, nobodys) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Uid::from_raw(NOBODYS));
    set_thread_groups(&[])?;
    set_thread_res_uid(nobodys, tenants, nobodys)?;
    if capabilities(None)?.effective != CapabilitySet::empty() {
        return Err(Errno::PERM);
    }
    // The "group" of process 1 is how one asks for all; it leaves out process 1 and ourselves.
    match kill_process_group(Pid::INIT, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH | Errno::PERM) => Ok(()),
        Err(error) => Err(error),
    }
}
