//! A session is one run of one agent: who it is, what it can do, how new it is. Claims need one, so that nothing
//! that only looks at a node can ever take its work.

use base::http::{Answer, ApiError};
use base::tx::Actor;
use base::wake::Topic;
use model::id::SessionId;
use model::node_api::{PROTOCOL, SessionAnswer, SessionRequest, compatible};
use model::signal::Code;
use model::state::NodeState;
use serde_json::json;

use crate::Fleet;
use crate::identity::NodeCaller;
use crate::node::state;
use crate::node::store as nodes;

pub async fn open(
    fleet: &Fleet,
    caller: &NodeCaller,
    actor: &Actor,
    request: &SessionRequest,
) -> Answer<SessionAnswer> {
    if !compatible(request.versions.protocol) {
        return Err(ApiError::new(Code::AgentIncompatible).message(format!(
            "protocol {} is more than one step from {PROTOCOL}",
            request.versions.protocol
        )));
    }
    bounded(request)?;
    let mut change = fleet.app.db.change(actor, "node.session", caller.node_id).await?;
    let row = state::lock(&mut change, caller.node_id).await?;
    // Enrolled again since the certificate was looked up: this is the old one's last word.
    if row.epoch != caller.epoch as i64 {
        return Err(Code::CertRevoked.into());
    }
    if request.simulated && !fleet.app.config.dev {
        drop(change);
        fleet
            .app
            .db
            .refusal(actor, "node.session", caller.node_id, Code::SimulatedNodeRefused)
            .await?;
        return Err(Code::SimulatedNodeRefused.into());
    }
    let at = change.at();
    nodes::session(change.conn(), caller.node_id, request, at).await?;
    change.detail(json!({ "session": request.session_id, "versions": request.versions, "boot_id": request.boot_id }));
    change.event(
        "node.session",
        caller.node_id,
        json!({ "session": request.session_id, "simulated": row.simulated }),
    );
    change.wake(Topic::Tasks);
    change.commit().await?;
    fleet.identity.note_session(caller.node_id, request.session_id);
    // Whatever this node was handed in an earlier session is handed out again with the first wait.
    fleet.dispatch.ring(caller.node_id);
    Ok(SessionAnswer {
        session_id: request.session_id,
        protocol: PROTOCOL,
        heartbeat_s: fleet.limits.heartbeat_s,
        self_probe_s: fleet.limits.self_probe_s,
    })
}

/// What a node says of itself is kept and shown; nobody's build needs more room than this.
fn bounded(request: &SessionRequest) -> Answer<()> {
    let hardware = [&request.hardware.dmi_uuid, &request.hardware.board_serial];
    let texts = [
        ("boot_id", Some(&request.boot_id)),
        ("versions.agent", Some(&request.versions.agent)),
        ("versions.executor", Some(&request.versions.executor)),
        ("hardware", hardware[0].as_ref()),
        ("hardware", hardware[1].as_ref()),
    ];
    for (field, text) in texts {
        if text.is_some_and(|text| text.len() > 128) {
            return Err(ApiError::field(field, "at most 128 bytes"));
        }
    }
    let types_fit = request.task_types.len() <= 64
        && request
            .task_types
            .iter()
            .all(|t| t.task_type.len() <= 64 && t.versions.len() <= 16);
    if types_fit {
        Ok(())
    } else {
        Err(ApiError::field("task_types", "at most 64 types of 16 versions"))
    }
}

/// Is this the node's session as far as this process knows? If not, `check` finds out.
pub fn known(fleet: &Fleet, caller: &NodeCaller, session: SessionId) -> bool {
    let entry = fleet.identity.node(caller.node_id);
    entry.is_some_and(|entry| entry.session == Some(session) && entry.state != NodeState::Quarantined)
}

/// Is this the node's session now? The row is read once before anybody is turned away.
pub async fn check(fleet: &Fleet, caller: &NodeCaller, session: SessionId) -> Answer<()> {
    let mut entry = fleet.identity.node(caller.node_id);
    if entry.is_none_or(|entry| entry.session != Some(session)) {
        entry = Some(fleet.read_node(caller.node_id).await?);
    }
    let entry = entry.ok_or(Code::CertRevoked)?;
    match entry.session {
        Some(current) if current == session => {}
        Some(_) => return Err(Code::SessionSuperseded.into()),
        None => return Err(Code::SessionRequired.into()),
    }
    if entry.state == NodeState::Quarantined {
        return Err(Code::NodeQuarantined.into());
    }
    Ok(())
}
