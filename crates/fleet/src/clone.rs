//! A copy of a node, and how it shows. A copy lives in a generation of certificates that the node has left behind,
//! stands on other hardware, or goes on asking in a session that a living one has replaced. Neither a reboot nor a
//! kill, neither a lost answer nor a late request does any of that. Which of the two is the copy cannot be known from
//! here: the node gets no more tasks, what runs on it goes on, and only a new enrolment ends the doubt.

use base::http::ApiError;
use base::tx::Actor;
use model::id::{NodeId, SessionId};
use model::node_api::{CertificateKind, Hardware};
use model::signal::Code;
use serde::Serialize;

use crate::Fleet;
use crate::metrics::ALARMS;
use crate::node::state;

/// What showed that there are two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Evidence {
    /// Somebody asked for a certificate from a generation that was left behind.
    OldGeneration {
        kind: CertificateKind,
        claimed: u64,
        used: u64,
    },
    /// Other hardware than at enrolment.
    OtherHardware { field: &'static str },
    /// Two sessions were heard side by side.
    TwoSessions { superseded: SessionId },
}

impl Evidence {
    fn words(&self) -> String {
        let why = match self {
            Self::OldGeneration { claimed, used, .. } => {
                format!("generation {claimed} asked for a certificate while {used} is in use")
            }
            Self::OtherHardware { field } => format!("another {field} than at enrolment"),
            Self::TwoSessions { .. } => "two sessions were heard side by side".to_owned(),
        };
        format!("{}: {why}", Code::NodeCloned)
    }
}

/// Puts the node into quarantine, once, and gives what to answer. Every replica comes to the same end: the node's row
/// is locked, and what was decided stands in it.
pub(crate) async fn found(fleet: &Fleet, actor: &Actor, node: NodeId, epoch: u64, evidence: &Evidence) -> ApiError {
    match quarantine(fleet, actor, node, epoch, evidence).await {
        Ok(()) => Code::NodeCloned.into(),
        Err(error) => error,
    }
}

async fn quarantine(
    fleet: &Fleet,
    actor: &Actor,
    node: NodeId,
    epoch: u64,
    evidence: &Evidence,
) -> Result<(), ApiError> {
    let mut change = fleet.app.db.change(actor, "node.cloned", node).await?;
    let row = state::lock(&mut change, node).await?;
    if row.epoch != epoch as i64 {
        return Err(Code::CertRevoked.into());
    }
    if row.is_cloned() {
        return Ok(change.rollback().await?);
    }
    state::cloned(&mut change, &row, &evidence.words()).await?;
    let details = serde_json::json!({ "evidence": evidence, "from": actor.address });
    change.detail(details.clone());
    change.event("node.cloned", node, details);
    change.commit().await?;
    metrics::counter!(ALARMS, "code" => Code::NodeCloned.as_str()).increment(1);
    tracing::error!(node_id = %node, name = row.name, code = %Code::NodeCloned, ?evidence, "a copy of a node");
    Ok(())
}

/// The part in which these two cannot be one machine. What either side could not read says nothing; a new board is
/// another machine, and is enrolled again.
pub(crate) fn other_hardware(enrolled: &Hardware, now: &Hardware) -> Option<&'static str> {
    let differ = |a: &Option<String>, b: &Option<String>| match (said(a), said(b)) {
        (Some(a), Some(b)) => !a.eq_ignore_ascii_case(b),
        (None, _) | (_, None) => false,
    };
    let ek = |hardware: &Hardware| hardware.tpm_ek_sha256.as_ref().map(ToString::to_string);
    if differ(&enrolled.dmi_uuid, &now.dmi_uuid) {
        Some("dmi_uuid")
    } else if differ(&enrolled.board_serial, &now.board_serial) {
        Some("board_serial")
    } else if differ(&ek(enrolled), &ek(now)) {
        Some("tpm_ek_sha256")
    } else {
        None
    }
}

/// What was known at enrolment stays; what could not be read then is learnt.
pub(crate) fn learnt(enrolled: &Hardware, now: &Hardware) -> Hardware {
    let either = |a: &Option<String>, b: &Option<String>| said(a).or_else(|| said(b)).map(str::to_owned);
    Hardware {
        dmi_uuid: either(&enrolled.dmi_uuid, &now.dmi_uuid),
        board_serial: either(&enrolled.board_serial, &now.board_serial),
        tpm_ek_sha256: enrolled.tpm_ek_sha256.or(now.tpm_ek_sha256),
    }
}

/// Boards whose maker forgot to number them all say one of these.
fn said(text: &Option<String>) -> Option<&str> {
    const NOTHING: [&str; 9] = [
        "none",
        "n/a",
        "unknown",
        "not specified",
        "not applicable",
        "default string",
        "system serial number",
        "to be filled by o.e.m.",
        "03000200-0400-0500-0006-000700080009",
    ];
    let text = text.as_deref()?.trim();
    let numbered = text
        .bytes()
        .any(|b| b.is_ascii_alphanumeric() && !matches!(b, b'0' | b'f' | b'F'));
    (numbered && !NOTHING.iter().any(|nothing| text.eq_ignore_ascii_case(nothing))).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(dmi_uuid: Option<&str>, board_serial: Option<&str>) -> Hardware {
        Hardware {
            dmi_uuid: dmi_uuid.map(str::to_owned),
            board_serial: board_serial.map(str::to_owned),
            tpm_ek_sha256: None,
        }
    }

    #[test]
    fn only_what_both_have_read_and_differs_is_other_hardware() {
        let enrolled = machine(Some("4C4C4544-0001"), Some("SN1"));
        let other = |now| other_hardware(&enrolled, &now);
        assert_eq!(other(machine(Some("4c4c4544-0001"), Some("SN1"))), None);
        assert_eq!(other(machine(None, None)), None);
        assert_eq!(other(machine(Some("4c4c4544-0001"), None)), None);
        assert_eq!(other(machine(Some("4c4c4544-0002"), Some("SN1"))), Some("dmi_uuid"));
        assert_eq!(other(machine(None, Some("SN2"))), Some("board_serial"));
    }

    #[test]
    fn a_board_without_a_number_says_nothing() {
        let enrolled = machine(Some("00000000-0000-0000-0000-000000000000"), Some("Default string"));
        let now = machine(Some("4c4c4544-0001"), Some("SN1"));
        assert_eq!(other_hardware(&enrolled, &now), None);
        assert_eq!(learnt(&enrolled, &now), now);
        assert_eq!(learnt(&now, &machine(Some("4c4c4544-0002"), None)), now);
    }
}
