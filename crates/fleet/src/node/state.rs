//! What moves a node from one state to another. Ready is earned by a probe, never assumed.

use base::Change;
use base::http::{Answer, ApiError};
use base::wake::Topic;
use model::id::NodeId;
use model::signal::Code;
use model::state::{NodeMode, NodeState};
use serde_json::json;

use super::store::{self, Kept, NodeRow};
use crate::Fleet;
use crate::certificate::store as certificates;
use crate::slot::{self, Fit};
use crate::task::ends;
use crate::task::store as tasks;
use crate::task::{enqueue_discovery, enqueue_probe};

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

/// Does a probe or a discovery of such a node move it?
pub fn waits_for_proof(state: NodeState) -> bool {
    match state {
        NodeState::Enrolling | NodeState::Stale | NodeState::Draining | NodeState::Drained => true,
        NodeState::Ready | NodeState::Quarantined | NodeState::Removed => false,
    }
}

/// A probe or a discovery came back. It makes an enrolling or silent node ready again, and one that somebody wants back
/// from a drain, if both are young and what was approved is there; and nothing else.
/// The row is locked, and what has just landed is in it.
pub async fn proved(fleet: &Fleet, change: &mut Change, row: &NodeRow) -> Answer<()> {
    let id = row.id();
    let state = row.state()?;
    let (since, back) = match state {
        NodeState::Enrolling => (row.state_since, NodeState::Ready),
        NodeState::Stale => {
            let back = row.resume_state.as_deref().and_then(|s| s.parse().ok());
            (row.state_since, back.unwrap_or(NodeState::Ready))
        }
        NodeState::Draining | NodeState::Drained => match row.return_asked_at {
            Some(asked) => (asked, NodeState::Ready),
            None => return Ok(()),
        },
        NodeState::Ready | NodeState::Quarantined | NodeState::Removed => return Ok(()),
    };
    if row.last_probe_at.is_none_or(|at| at < since) {
        return Ok(());
    }
    let fit = match back {
        NodeState::Ready => slot::fit(change, id, since.into()).await?,
        // Nobody gets anything of it there.
        _ => Fit::Yes,
    };
    let returns = row.return_asked_at.is_some();
    match fit {
        Fit::Yes if back == NodeState::Draining => {
            enter(change, row, back, "wanted out of use before it fell silent").await?;
            // Its last tenant may have gone meanwhile.
            let row = lock(change, id).await?;
            emptied(change, &row).await
        }
        Fit::Yes => enter(change, row, back, "a health probe succeeded").await,
        Fit::Unseen => {
            enqueue_discovery(fleet, change, id).await?;
            store::ask_return(
                change.conn(),
                id,
                row.return_asked_at.map(Into::into),
                "waits for a discovery",
            )
            .await?;
            Ok(())
        }
        Fit::Differs(what) => {
            let reason = format!("not as it was approved: {what}");
            // A wish to come back ends with the answer; a node that came back by itself is asked again and again.
            let asked = row.return_asked_at.filter(|_| !returns).map(Into::into);
            store::ask_return(change.conn(), id, asked, &reason).await?;
            change.event("node.differs", id, json!({ "what": what }));
            Ok(())
        }
    }
}

/// A verb that does not fit its state, and what does.
fn unfit(row: &NodeRow, state: NodeState, why: &str) -> ApiError {
    let name = &row.name;
    let hint = match state {
        NodeState::Ready => format!("it is in use; `gpuaas node drain {name} --reason WHY` takes it out"),
        NodeState::Enrolling => format!("`gpuaas node show {name}` says what it waits for"),
        NodeState::Draining | NodeState::Drained => format!("`gpuaas node undrain {name}` wants it back"),
        NodeState::Stale => format!("it is silent; `gpuaas node show {name}` says since when"),
        NodeState::Quarantined => format!("`gpuaas node unquarantine {name}` comes first"),
        NodeState::Removed => format!("`gpuaas node enroll {name}` lets a host of this name in anew"),
    };
    ApiError::new(Code::StateConflict)
        .message(format!("the node is {state}, {why}"))
        .hint(hint)
        .detail("state", state.as_str())
}

/// Gives out nothing new. What is on it stays until it is released. Whoever wanted it back before does not any more.
pub async fn drain(change: &mut Change, row: &NodeRow, reason: &str) -> Answer<()> {
    match row.state()? {
        NodeState::Draining | NodeState::Drained => {
            if row.return_asked_at.is_some() {
                store::ask_return(change.conn(), row.id(), None, reason).await?;
            }
            let row = lock(change, row.id()).await?;
            emptied(change, &row).await
        }
        NodeState::Ready => {
            enter(change, row, NodeState::Draining, reason).await?;
            let row = lock(change, row.id()).await?;
            emptied(change, &row).await
        }
        other @ (NodeState::Enrolling | NodeState::Stale | NodeState::Quarantined | NodeState::Removed) => {
            Err(unfit(row, other, "so it gives out nothing anyway"))
        }
    }
}

/// Wants it back: it is ready once a probe has succeeded and a discovery has found what was approved.
pub async fn undrain(fleet: &Fleet, change: &mut Change, row: &NodeRow) -> Answer<()> {
    match row.state()? {
        NodeState::Draining | NodeState::Drained => {
            let at = change.at();
            let reason = "waits for a probe and a discovery";
            store::ask_return(change.conn(), row.id(), Some(at), reason).await?;
            change.event("node.return", row.id(), json!({}));
            enqueue_probe(fleet, change, row.id()).await?;
            Ok(())
        }
        other => Err(unfit(row, other, "not draining or drained")),
    }
}

/// A draining node that nobody has anything of any more is drained.
pub async fn emptied(change: &mut Change, row: &NodeRow) -> Answer<()> {
    if row.state()? == NodeState::Draining && slot::lease::open_on(change, row.id()).await? == 0 {
        let reason = row.state_reason.clone().unwrap_or_default();
        enter(change, row, NodeState::Drained, &reason).await?;
    }
    Ok(())
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
        other => Err(unfit(row, other, "not quarantined")),
    }
}

/// Gone for good: no certificate works, nothing that was asked of it will come.
pub async fn remove(change: &mut Change, row: &NodeRow, reason: &str) -> Answer<()> {
    let at = change.at();
    // A tenant whose node nobody knows any more could never be told that what they had is gone, or wiped.
    let leases = slot::lease::open_on(change, row.id()).await?;
    if leases > 0 {
        let what =
            format!("tenants have {leases} of its slots, or all of it: release those first, or force their release");
        return Err(ApiError::new(Code::StateConflict)
            .message(what)
            .hint(format!("gpuaas slot list --node {}", row.name)));
    }
    certificates::revoke_all(change.conn(), row.id(), None, "node removed", at).await?;
    ends::lose(change, row.id(), None).await?;
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
    if slot::lease::open_on(change, row.id()).await? > 0 {
        return Err(ApiError::new(Code::ModeConflict)
            .message("tenants have slots of it; its mode can change once they are released")
            .hint(format!("gpuaas slot list --node {}", row.id())));
    }
    if row.left_over_since.is_some() {
        return Err(ApiError::new(Code::ModeConflict)
            .message("something of its last tenant may be on it")
            .hint(format!("gpuaas node clean {}", row.name)));
    }
    store::set_mode(change.conn(), row.id(), mode).await?;
    change.event("node.mode", row.id(), json!({ "from": row.mode, "to": mode }));
    Ok(())
}
