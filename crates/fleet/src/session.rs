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
    if request.task_types.len() > 256 || request.boot_id.len() > 64 {
        return Err(ApiError::field("task_types", "no build has that many"));
    }
    let mut change = fleet.app.db.change(actor, "node.session", caller.node_id).await?;
    let row = state::lock(&mut change, caller.node_id).await?;
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
    change.wake(Topic::Revoked).wake(Topic::Tasks);
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
