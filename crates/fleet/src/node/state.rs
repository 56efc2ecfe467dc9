//! What moves a node from one state to another. Ready is earned by a probe, never assumed.

use base::Change;
use base::http::{Answer, ApiError};
use base::wake::Topic;
use model::id::NodeId;
use model::signal::Code;
use model::state::{NodeMode, NodeState};
use serde_json::json;

use super::store::{self, Kept, NodeRow};
use crate::certificate::store as certificates;
use crate::task::store as tasks;

/// The node's row, locked; a removed one is not there any more.
pub async fn lock(change: &mut Change, id: NodeId) -> Answer<NodeRow> {
    let row = store::lock(change, id).await?.ok_or(Code::NotFound)?;
    if row.state()? == NodeState::Removed {
        Err(Code::NotFound.into())
    } else {
        Ok(row)
    }
}

pub async fn enter(change: &mut Change, row: &NodeRow, to: NodeState, reason: &str) -> Answer<()> {
    let resume = match (to, row.state()?) {
        (NodeState::Stale, from @ (NodeState::Ready | NodeState::Draining | NodeState::Drained)) => Some(from),
        _ => None,
    };
    let kept = Kept {
        resume,
        quarantine_code: None,
    };
    enter_keeping(change, row, to, reason, kept).await
}

async fn enter_keeping(change: &mut Change, row: &NodeRow, to: NodeState, reason: &str, kept: Kept) -> Answer<()> {
    let at = change.at();
    store::set_state(change.conn(), row.id(), to, reason, kept, at).await?;
    change.event(
        "node.state",
        row.id(),
        json!({ "from": row.state, "to": to, "reason": reason, "simulated": row.simulated }),
    );
    change.wake(Topic::Revoked);
    Ok(())
}

/// A probe came back. It makes an enrolling or silent node ready again, and nothing else.
pub async fn proved(change: &mut Change, row: &NodeRow) -> Answer<()> {
    match row.state()? {
        NodeState::Enrolling => enter(change, row, NodeState::Ready, "a health probe succeeded").await,
        NodeState::Stale => {
            let back = row
                .resume_state
                .as_deref()
                .and_then(|s| s.parse().ok())
                .unwrap_or(NodeState::Ready);
            enter(change, row, back, "a health probe succeeded").await
        }
        NodeState::Ready | NodeState::Draining | NodeState::Drained | NodeState::Quarantined | NodeState::Removed => {
            Ok(())
        }
    }
}

pub async fn quarantine(change: &mut Change, row: &NodeRow, reason: &str) -> Answer<()> {
    match row.state()? {
        NodeState::Quarantined => Ok(()),
        _ => enter(change, row, NodeState::Quarantined, reason).await,
    }
}

/// Two machines use its identity. Whatever else it was in quarantine for, this is what has to be ended now.
pub async fn cloned(change: &mut Change, row: &NodeRow, reason: &str) -> Answer<()> {
    let kept = Kept {
        resume: None,
        quarantine_code: Some(Code::NodeCloned),
    };
    enter_keeping(change, row, NodeState::Quarantined, reason, kept).await
}

/// Back to `enrolling`: it has to prove itself before it is ready. A copy would prove itself just as well.
pub async fn unquarantine(change: &mut Change, row: &NodeRow, reason: &str) -> Answer<()> {
    match row.state()? {
        NodeState::Quarantined if row.is_cloned() => {
            Err(ApiError::new(Code::NodeCloned).hint(format!("gpuaas node enroll {} shuts the copy out", row.name)))
        }
        NodeState::Quarantined => enter(change, row, NodeState::Enrolling, reason).await,
        other => Err(ApiError::new(Code::StateConflict).message(format!("the node is {other}, not quarantined"))),
    }
}

/// Gone for good: no certificate works, nothing that was asked of it will come.
pub async fn remove(change: &mut Change, row: &NodeRow, reason: &str) -> Answer<()> {
    let at = change.at();
    certificates::revoke_all(change.conn(), row.id(), None, "node removed", at).await?;
    tasks::lose(change, row.id(), None).await?;
    enter(change, row, NodeState::Removed, reason).await
}

/// Only an empty node changes what it is for.
pub async fn set_mode(change: &mut Change, row: &NodeRow, mode: NodeMode) -> Answer<()> {
    if row.mode == mode.as_str() {
        return Ok(());
    }
    if tasks::open_count(change.conn(), row.id()).await? > 0 {
        return Err(ApiError::new(Code::ModeConflict)
            .message("the node has tasks under way; its mode can change once they have ended")
            .hint(format!("gpuaas task list --node {}", row.id())));
    }
    store::set_mode(change.conn(), row.id(), mode).await?;
    change.event("node.mode", row.id(), json!({ "from": row.mode, "to": mode }));
    Ok(())
}
