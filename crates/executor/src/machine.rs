//! What tells this machine from others, read once: the board's ids, the boot, the name. A pretend host has ids of its
//! own, derived from where its state lies, so that a copy elsewhere is seen to be a copy.

use std::fs;

use model::node_api::{Facts, Hardware};
use uuid::Uuid;

use crate::Options;

pub(crate) struct Machine {
    pub(crate) boot_id: String,
    pub(crate) hardware: Hardware,
    pub(crate) facts: Facts,
}

impl Machine {
    pub(crate) fn look(options: &Options) -> Self {
        let boot_id = options.host.facts.boot_id().unwrap_or_default();
        let hostname = line("/proc/sys/kernel/hostname").unwrap_or_default();
        let hardware = if options.host.is_simulated() {
            let place = options.state_dir.as_os_str().as_encoded_bytes();
            let dmi_uuid = Some(Uuid::new_v5(&Uuid::NAMESPACE_OID, place).to_string());
            Hardware {
                dmi_uuid,
                board_serial: None,
                tpm_ek_sha256: None,
            }
        } else {
            let dmi_uuid = line("/sys/class/dmi/id/product_uuid");
            let board_serial = line("/sys/class/dmi/id/board_serial");
            Hardware {
                dmi_uuid,
                board_serial,
                tpm_ek_sha256: None,
            }
        };
        let provider = line("/sys/class/dmi/id/sys_vendor").filter(|_| !options.host.is_simulated());
        let facts = Facts {
            hostname,
            provider,
            private_ip: None,
        };
        Self {
            boot_id,
            hardware,
            facts,
        }
    }
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
