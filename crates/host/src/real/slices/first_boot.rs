//! What a guest is told at its first boot, in cloud-init's words. Every value is put into a structure and written as
//! JSON, which YAML readers take as it is; what comes back from the file must be equal to what went in.

use std::collections::BTreeMap;

use model::id::AllocationId;
use model::task::vm_provision::DriverStrategy;
use model::value::Name;
use serde::{Deserialize, Serialize};

use super::guest;
use crate::Wish;

const HEAD: &str = "#cloud-config\n";
/// The guest says by this file that its first boot is over.
pub const MARKER: &str = "/var/lib/gpuaas/slice-ready";
const TOKEN_FILE: &str = "/etc/gpuaas/telemetry-token";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UserData {
    users: Vec<User>,
    disable_root: bool,
    ssh_pwauth: bool,
    /// The host key that the VM has to show, and no other.
    ssh_deletekeys: bool,
    ssh_genkeytypes: Vec<String>,
    ssh_keys: BTreeMap<String, String>,
    write_files: Vec<WriteFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    drivers: Option<Drivers>,
    runcmd: Vec<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct User {
    name: String,
    lock_passwd: bool,
    shell: String,
    sudo: String,
    ssh_authorized_keys: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteFile {
    path: String,
    permissions: String,
    content: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Drivers {
    nvidia: Nvidia,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nvidia {
    #[serde(rename = "license-accepted")]
    license_accepted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MetaData {
    #[serde(rename = "instance-id")]
    instance_id: String,
    #[serde(rename = "local-hostname")]
    local_hostname: String,
}

/// The VM's own secrets, beside the wish.
pub(super) struct Secrets<'a> {
    /// The key that we come in by.
    pub(super) way_in: &'a str,
    pub(super) host_private: &'a str,
    pub(super) host_public: &'a str,
    pub(super) telemetry_token: &'a str,
}

pub(super) fn user_data(wish: &Wish, secrets: &Secrets<'_>) -> UserData {
    let tenant = wish.keys.iter().map(ToString::to_string);
    let words = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect();
    UserData {
        users: vec![User {
            name: wish.user.to_string(),
            lock_passwd: true,
            shell: "/bin/bash".to_owned(),
            sudo: "ALL=(ALL) NOPASSWD:ALL".to_owned(),
            ssh_authorized_keys: tenant.chain([secrets.way_in.to_owned()]).collect(),
        }],
        disable_root: true,
        ssh_pwauth: false,
        ssh_deletekeys: true,
        ssh_genkeytypes: Vec::new(),
        ssh_keys: BTreeMap::from([
            ("ed25519_private".to_owned(), secrets.host_private.to_owned()),
            ("ed25519_public".to_owned(), secrets.host_public.to_owned()),
        ]),
        write_files: std::iter::once(&(TOKEN_FILE, "0600", secrets.telemetry_token))
            .chain(&guest::FILES)
            .map(|(path, permissions, content)| WriteFile {
                path: (*path).to_owned(),
                permissions: (*permissions).to_owned(),
                content: (*content).to_owned(),
            })
            .collect(),
        drivers: match wish.drivers {
            DriverStrategy::CloudInit => {
                let license_accepted = true;
                let nvidia = Nvidia { license_accepted };
                Some(Drivers { nvidia })
            }
            DriverStrategy::Preinstalled | DriverStrategy::None => None,
        },
        // The last thing a first boot does; arrays, so that no shell takes them apart.
        runcmd: vec![
            words(&guest::START),
            words(&["mkdir", "-p", "/var/lib/gpuaas"]),
            words(&["touch", MARKER]),
        ],
    }
}

/// The instance is the allocation: a VM that is made again for another one runs its first boot again.
pub(super) fn meta_data(vm: &Name, allocation: AllocationId) -> MetaData {
    MetaData {
        instance_id: allocation.to_string(),
        local_hostname: vm.to_string(),
    }
}

/// Written, read back and compared: whatever a value contains, it has stayed a value.
pub(super) fn write<T>(head: bool, value: &T) -> Option<String>
where
    T: Serialize + for<'de> Deserialize<'de> + PartialEq,
{
    let body = serde_json::to_string_pretty(value).ok()?;
    let back: T = serde_json::from_str(&body).ok()?;
    let head = if head { HEAD } else { "" };
    (back == *value).then(|| format!("{head}{body}\n"))
}

/// The file as it is now says exactly this.
pub(super) fn reads<T: for<'de> Deserialize<'de> + PartialEq>(text: &str, value: &T) -> bool {
    let body = text.strip_prefix(HEAD).unwrap_or(text);
    serde_json::from_str::<T>(body).is_ok_and(|back| back == *value)
}
