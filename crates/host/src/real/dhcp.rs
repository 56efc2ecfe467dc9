//! Who gives guests their addresses: dnsmasq, told on its command line which directory of reservations to read. The
//! owner of the host starts it; nobody but its command line says where it is.

use super::sys::Sys;
use crate::Result;

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

pub(super) fn is_server(sys: &Sys, pid: u32) -> bool {
    sys.attribute(&format!("proc/{pid}/comm")).as_deref() == Some(NAME)
}
