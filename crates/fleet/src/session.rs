//! A session is one run of one agent: who it is, what it can do, how new it is. Claims need one, so that nothing
//! that only looks at a node can ever take its work. A newer one takes over for good; one that was replaced and goes
//! on asking beside a living one is a copy of the node.

use base::http::{Answer, ApiError};
use base::tx::Actor;
use model::id::SessionId;
use model::node_api::{Hardware, PROTOCOL, SessionAnswer, SessionRequest, compatible};
use model::signal::Code;
use model::state::NodeState;
use serde_json::json;

use crate::Fleet;
use crate::clone::{self, Evidence};
use crate::identity::{NodeCaller, NodeEntry};
use crate::node::state;
use crate::node::store as nodes;

mod store;

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
    let enrolled: Hardware = serde_json::from_value(row.hardware.clone()).map_err(ApiError::internal)?;
    if let Some(field) = clone::other_hardware(&enrolled, &request.hardware) {
        change.rollback().await?;
        return Err(copy_found(fleet, caller, actor, &Evidence::OtherHardware { field }).await);
    }
    let session = request.session_id;
    let current = row.session_id == Some(session.uuid());
    if !current && store::is_known(change.conn(), caller.node_id, session).await? {
        change.rollback().await?;
        return Err(superseded(fleet, caller, actor, session).await);
    }
    let at = change.at();
    let hardware = clone::learnt(&enrolled, &request.hardware);
    nodes::session(change.conn(), caller.node_id, request, &hardware, at).await?;
    store::opened(change.conn(), caller.node_id, session, at).await?;
    change.detail(json!({ "session": request.session_id, "versions": request.versions, "boot_id": request.boot_id }));
    change.event(
        "node.session",
        caller.node_id,
        json!({ "session": request.session_id, "simulated": row.simulated }),
    );
    change.commit().await?;
    fleet.identity.note_session(caller.node_id, request.session_id);
    // Whatever this node was handed in an earlier session is handed out again with the first wait, wherever that is. Called
    // last: a wait of the earlier session that is still held has to find out that its time is over.
    fleet.app.wake.call(caller.node_id);
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
pub async fn check(fleet: &Fleet, caller: &NodeCaller, actor: &Actor, session: SessionId) -> Answer<NodeEntry> {
    let mut entry = fleet.identity.node(caller.node_id);
    if entry.is_none_or(|entry| entry.session != Some(session) || entry.state == NodeState::Quarantined) {
        entry = Some(fleet.read_node(caller.node_id).await?);
    }
    let entry = entry.ok_or(Code::CertRevoked)?;
    match entry.session {
        Some(current) if current == session => {
            fleet.presence.heard_in(caller.node_id, session, fleet.app.clock.now());
            Ok(entry)
        }
        Some(_) => Err(superseded(fleet, caller, actor, session).await),
        None => Err(Code::SessionRequired.into()),
    }
}

/// A node in quarantine goes on reporting what it has, but it is given nothing new.
pub fn takes_tasks(entry: &NodeEntry) -> Answer<()> {
    match entry.state {
        NodeState::Quarantined if entry.cloned => Err(Code::NodeCloned.into()),
        NodeState::Quarantined => Err(Code::NodeQuarantined.into()),
        _ => Ok(()),
    }
}

/// What to answer in a session that another one has replaced. A killed agent's last request may come late, and the
/// late opening of a dead one may replace a living one: only two that live side by side for longer are two machines.
async fn superseded(fleet: &Fleet, caller: &NodeCaller, actor: &Actor, session: SessionId) -> ApiError {
    let now = fleet.app.clock.now();
    let told = match store::told(fleet.app.db.bookkeeping(), caller.node_id, session, now).await {
        Ok(told) => told,
        Err(error) => return error.into(),
    };
    let both_live = told.is_some_and(|told| {
        now.since_ms(told.first) > fleet.limits.session_grace_ms && told.other_heard.is_some_and(|at| at > told.first)
    });
    if both_live {
        let evidence = Evidence::TwoSessions { superseded: session };
        copy_found(fleet, caller, actor, &evidence).await
    } else {
        Code::SessionSuperseded.into()
    }
}

async fn copy_found(fleet: &Fleet, caller: &NodeCaller, actor: &Actor, evidence: &Evidence) -> ApiError {
    let answer = clone::found(fleet, actor, caller.node_id, caller.epoch, evidence).await;
    let noted = match answer.status().is_client_error() {
        true => {
            fleet
                .app
                .db
                .refusal(actor, "node.session", caller.node_id, answer.code)
                .await
        }
        false => Ok(()),
    };
    noted.err().map_or(answer, Into::into)
}
