//! Who gives guests their addresses: dnsmasq, told on its command line which directory of reservations to read. The
//! owner of the host starts it; nobody but its command line says where it is.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use super::sys::Sys;
use crate::Result;
use crate::error::Doing;

const NAME: &str = "dnsmasq";
const OPTION: &[u8] = b"--dhcp-hostsdir";
const CMDLINE_BYTES: u64 = 64 << 10;

/// The numbers of all that read such a directory. Its helpers look like itself, and may be told what it is told.
pub(super) fn servers(sys: &Sys) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for name in sys.names("proc")? {
        let Ok(pid) = name.parse::<u32>() else { continue };
        if !is_server(sys, pid) {
            continue;
        }
        let cmdline = sys.bytes(&format!("proc/{pid}/cmdline"), CMDLINE_BYTES)?;
        let cmdline = cmdline.unwrap_or_default();
        if cmdline.split(|byte| *byte == 0).any(|word| word.starts_with(OPTION)) {
            found.push(pid);
        }
    }
    Ok(found)
}

fn is_server(sys: &Sys, pid: u32) -> bool {
    sys.attribute(&format!("proc/{pid}/comm")).as_deref() == Some(NAME)
}

/// A file that is gone is served until it is told to look. One that does not run will read the directory when it does.
pub(super) fn nudge(sys: &Sys) -> Result<()> {
    let told = servers(sys)?.into_iter();
    for pid in told.filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
        match kill_process(pid, Signal::HUP) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(error).doing(|| "tell dnsmasq".to_owned()),
        }
    }
    Ok(())
}
