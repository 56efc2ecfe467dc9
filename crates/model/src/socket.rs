//! What agent and executor say to each other over the Unix socket, and how a message is framed: a big-endian u32
//! length, then JSON. The agent carries; it never decides.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::digest::Sha256;
use crate::dsse::Envelope;
use crate::id::{InstallationId, NodeId, TaskId};
use crate::key::PublicKey;
use crate::node_api::{CertificateKind, Disk, Facts, Hardware, HeldTask};
use crate::signal::Code;
use crate::task::TypeVersions;
use crate::telemetry::Registered;
use crate::time::Timestamp;
use crate::trust::Bundle;
use crate::value::Name;

/// The largest frame. An envelope is at most half of it.
pub const MAX_FRAME: usize = 512 * 1024;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FromAgent {
    /// Asked first on every connection, and whenever the agent wants to know; answered by `State`.
    Hello {
        request_id: u64,
    },
    Offer {
        task_id: TaskId,
        fence: u64,
        envelope: Envelope,
        server_time: Timestamp,
    },
    /// The control plane has answered a result for good.
    Acked {
        task_id: TaskId,
        status: u16,
    },
    Cancel {
        task_id: TaskId,
    },
    /// Send every result that is not acknowledged again.
    Results {},
    Trust {
        request_id: u64,
        bundle: Box<Bundle>,
    },
    Catalogue {
        request_id: u64,
        catalogue: Box<Envelope>,
    },
    /// The image that was wanted; with the open file.
    Image {
        sha256: Sha256,
    },
    /// So much of it is here.
    ImageMoved {
        sha256: Sha256,
        done_bytes: u64,
    },
    ImageFailed {
        sha256: Sha256,
        code: Code,
        detail: String,
    },
    /// The connection to a guest that was wanted; with the socket.
    Guest {
        want: u64,
    },
    GuestFailed {
        want: u64,
        detail: String,
    },
    EnrolKeys {
        request_id: u64,
    },
    Enrolled {
        request_id: u64,
        enrolled: Box<Enrolled>,
    },
    RenewToken {
        request_id: u64,
        kind: CertificateKind,
        working_csr: Option<String>,
        server_time: Timestamp,
    },
    DeviceChain {
        request_id: u64,
        chain: String,
    },
    /// What is held now, signed.
    Held {
        request_id: u64,
    },
    /// Which guests may send numbers, and where they send them to.
    Guests {
        request_id: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enrolled {
    pub installation: InstallationId,
    pub node_id: NodeId,
    pub epoch: u64,
    /// PEM, leaf first.
    pub device_chain: String,
    pub token_audiences: Vec<String>,
    pub bundle: Bundle,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FromExecutor {
    State {
        request_id: u64,
        state: Box<ExecutorState>,
    },
    /// Journalled: it survives anything from here on.
    Accepted {
        task_id: TaskId,
        fence: u64,
    },
    /// Not taken, and no signed result can be made (not enrolled, out of disk); offer it again later.
    NotTaken {
        task_id: TaskId,
        code: Code,
    },
    Progress {
        task: HeldTask,
    },
    Done {
        task_id: TaskId,
        fence: u64,
        envelope: Envelope,
    },
    Trusted {
        request_id: u64,
        manifest_version: u64,
    },
    Catalogued {
        request_id: u64,
        catalogue_version: u64,
    },
    /// A task waits for this image. Said again until it came or failed.
    ImageWanted {
        image: WantedImage,
    },
    /// Nobody waits for it any more: what was fetched of it can go.
    ImageSettled {
        sha256: Sha256,
    },
    /// A task wants to be connected to port 22 of this guest.
    GuestWanted {
        want: u64,
        vm: Name,
        address: Ipv4Addr,
    },
    Keys {
        request_id: u64,
        keys: Box<EnrolmentKeys>,
    },
    Token {
        request_id: u64,
        jwt: String,
        device_csr: Option<String>,
    },
    Held {
        request_id: u64,
        envelope: Envelope,
    },
    Guests {
        request_id: u64,
        guests: Vec<Registered>,
        /// The bridges' own addresses.
        listen: Vec<Ipv4Addr>,
    },
    Ok {
        request_id: u64,
    },
    Failed {
        request_id: u64,
        code: Code,
        detail: String,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutorState {
    pub version: String,
    pub identity: Option<NodeIdentity>,
    pub boot_id: String,
    pub hardware: Hardware,
    /// Does the host below exist? If not, everything says so.
    pub simulated: bool,
    pub task_types: Vec<TypeVersions>,
    pub manifest_version: u64,
    /// None: this build knows of no catalogue.
    #[serde(default)]
    pub catalogue_version: Option<u64>,
    pub tasks: Vec<HeldTask>,
    pub results_pending: u32,
    pub disk: Option<Disk>,
    /// Why it takes no task at all, if so.
    #[serde(default)]
    pub trouble: Option<Code>,
}

/// As the signed catalogue lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedImage {
    pub sha256: Sha256,
    pub size_bytes: u64,
    /// None: the control plane has it.
    pub url: Option<String>,
    /// Hosts that local policy lets it come from, besides the control plane.
    pub hosts: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeIdentity {
    pub installation: InstallationId,
    pub node_id: NodeId,
    pub epoch: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnrolmentKeys {
    /// PEM.
    pub device_csr: String,
    pub result_public: PublicKey,
    pub hardware: Hardware,
    pub facts: Facts,
    pub simulated: bool,
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of {0} bytes is larger than any message")]
    TooLarge(usize),
    #[error("a frame is not a message of this version: {0}")]
    Malformed(String),
}

/// Length and body of one message.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let body = serde_json::to_vec(message).map_err(|e| FrameError::Malformed(e.to_string()))?;
    if body.len() > MAX_FRAME {
        return Err(FrameError::TooLarge(body.len()));
    }
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// The body's length, from the first four bytes.
pub fn body_length(header: [u8; 4]) -> Result<usize, FrameError> {
    let length = u32::from_be_bytes(header) as usize;
    if length > MAX_FRAME {
        Err(FrameError::TooLarge(length))
    } else {
        Ok(length)
    }
}

pub fn decode<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, FrameError> {
    if !crate::json::nesting_within(body, crate::json::MAX_DEPTH) {
        return Err(FrameError::Malformed("nested too deeply".to_owned()));
    }
    serde_json::from_slice(body).map_err(|e| FrameError::Malformed(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_frame() {
        let frame = encode(&FromAgent::Hello { request_id: 7 }).expect("small");
        let (header, body) = frame.split_first_chunk::<4>().expect("header");
        assert_eq!(body_length(*header), Ok(body.len()));
        assert!(matches!(decode(body), Ok(FromAgent::Hello { request_id: 7 })));
    }

    #[test]
    fn hostile_frames_are_errors() {
        assert_eq!(body_length([0xff; 4]), Err(FrameError::TooLarge(0xffff_ffff)));
        for body in [
            &b"{\"run\":{\"command\":\"id\"}}"[..],
            b"{\"hello\":{\"request_id\":1,\"more\":2}}",
            b"",
            b"[]",
        ] {
            assert!(decode::<FromAgent>(body).is_err());
        }
    }
}
