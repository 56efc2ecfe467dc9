//! Who this node is and whom it believes, as the agent brings it: keys out, identity and documents in, tokens out.

use std::sync::Arc;

use model::dsse::Envelope;
use model::envelope::Refusal;
use model::node_api::CertificateKind;
use model::signal::Code;
use model::socket::{Enrolled, EnrolmentKeys};
use model::time::Timestamp;
use model::trust::Bundle;

use crate::device::DeviceError;
use crate::node::{Node, Running};
use crate::policy::Policy;

/// How far ahead of our own clock another one is believed without proof.
const BELIEVED_AHEAD_S: i64 = 300;

/// New documents; what runs under a key that they revoke turns back at its next step.
pub(crate) fn advance(node: &Node, bundle: &Bundle) -> Result<u64, Refusal> {
    let (version, manifest) = {
        let mut store = node.trust();
        let version = store.advance(bundle)?;
        (version, store.trust().map(|trust| trust.manifest().clone()))
    };
    node.refusals().documents_came();
    let revoked = |running: &&Arc<Running>| match (&manifest, running.keyid) {
        (Some(manifest), Some(keyid)) => manifest.revokes(&keyid),
        _ => false,
    };
    node.running()
        .values()
        .filter(revoked)
        .for_each(|task| task.interrupt(Code::KeyRevoked));
    Ok(version)
}

/// The next image catalogue.
pub(crate) fn list_images(node: &Node, catalogue: &Envelope) -> Result<u64, Refusal> {
    let store = node.trust();
    let trust = store.trust().ok_or(Code::NotEnrolled)?;
    let version = node.catalogue().advance(catalogue, trust)?;
    tracing::info!(version, "image catalogue");
    Ok(version)
}

pub(crate) fn enrolment_keys(node: &Node) -> Result<EnrolmentKeys, Refusal> {
    let (device_csr, _) = node.keys.device_csr(None).map_err(internal)?;
    Ok(EnrolmentKeys {
        device_csr,
        result_public: node.keys.result.public(),
        hardware: node.machine.hardware.clone(),
        facts: node.machine.facts.clone(),
        simulated: node.options.host.is_simulated(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

pub(crate) fn enrol(node: &Node, enrolled: &Enrolled) -> Result<(), Refusal> {
    let policy = Policy::read(&node.options.policy_path)
        .map_err(|error| Refusal::new(Code::ConfigInvalid, format!("{error:#}")))?;
    let now = node.options.clock.now();
    node.trust().enrol(enrolled, policy.root_sha256, &node.keys, now)?;
    tracing::info!(node_id = %enrolled.node_id, epoch = enrolled.epoch, "enrolled");
    node.count_in_epoch();
    Ok(())
}

/// A token for the agent's working key, or for our own device key.
pub(crate) fn renew_token(
    node: &Node,
    kind: CertificateKind,
    working_csr: Option<String>,
    server_time: Timestamp,
) -> Result<(String, Option<String>), Refusal> {
    let floor = node
        .journal()
        .map_or(Timestamp::from_millis(0), |journal| journal.book().floor().time);
    let store = node.trust();
    let device = store.device(&node.keys)?;
    let now = token_time(node.options.clock.now(), server_time, floor.max(device.not_before()));
    let (csr, ours) = match (kind, working_csr) {
        (CertificateKind::Working, Some(csr)) => (csr, None),
        (CertificateKind::Working, None) => return Err(Code::CsrInvalid.into()),
        (CertificateKind::Device, _) => {
            let (csr, _) = node.keys.device_csr(Some(device.uri())).map_err(internal)?;
            (csr.clone(), Some(csr))
        }
    };
    let token = device.token(&node.keys, &csr, kind, store.token_audiences(), now);
    token.map(|jwt| (jwt, ours)).map_err(|error| match error {
        DeviceError::CsrMalformed => Refusal::new(Code::CsrInvalid, error.to_string()),
        other => Refusal::new(Code::Internal, other.to_string()),
    })
}

/// The agent says what the control plane's clock says, and it might lie: tokens for a year from now would outlive what
/// it can steal today. So far ahead it is believed only where our own clock is provably wrong, because it stands
/// before `past`, which has been.
fn token_time(clock: Timestamp, server_time: Timestamp, past: Timestamp) -> Timestamp {
    let ahead = server_time.since_ms(clock) > BELIEVED_AHEAD_S * 1000;
    if ahead && clock >= past {
        clock
    } else {
        clock.max(server_time)
    }
}

fn internal(error: anyhow::Error) -> Refusal {
    Refusal::new(Code::Internal, format!("{error:#}"))
}
