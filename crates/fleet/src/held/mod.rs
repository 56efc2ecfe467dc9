//! What nodes say they hold. A list counts if that node's executor signed it for this enrolment and its number is above
//! the last one that counted; everything else is refused, told apart by its code, and audited. What differs from what we
//! believe is kept with its age. It changes no slot and no lease: it shows what an operator has to decide.

mod judge;
mod store;
mod view;

use base::http::Answer;
use base::tx::Actor;
use model::dsse::Envelope;
use model::held::HeldPayload;
use model::id::NodeId;
use model::key::PublicKey;
use model::signal::Code;
use serde_json::json;

use crate::Fleet;
use crate::identity::NodeCaller;
use crate::metrics::ALARMS;
use crate::slot;

pub use store::{HeldRow, of_nodes};
pub(crate) use view::{node_view, on_slot, waiting};

pub async fn land(fleet: &Fleet, caller: &NodeCaller, actor: &Actor, envelope: &Envelope) -> Answer<()> {
    let landed = attempt(fleet, caller, envelope).await;
    if let Err(error) = &landed
        && error.status().is_client_error()
    {
        metrics::counter!(ALARMS, "code" => error.code.as_str()).increment(1);
        tracing::warn!(node_id = %caller.node_id, code = %error.code, "a list of what is held was refused");
        let db = &fleet.app.db;
        db.refusal(actor, "node.held", caller.node_id, error.code).await?;
    }
    landed
}

async fn attempt(fleet: &Fleet, caller: &NodeCaller, envelope: &Envelope) -> Answer<()> {
    let pool = fleet.app.db.bookkeeping();
    let key = store::result_key(pool, caller.node_id).await?;
    let key = key.and_then(|key| <[u8; 32]>::try_from(key).ok());
    let key = PublicKey::from_bytes(key.ok_or(Code::HeldSignatureInvalid)?);
    let list = HeldPayload::open(envelope, &key)?;
    let now = fleet.app.clock.now();
    list.check(fleet.app.installation, caller.node_id, caller.epoch, now)?;
    let before = store::get(pool, caller.node_id).await?;
    if let Some(before) = &before {
        match before.place().cmp(&(list.node_epoch, list.number)) {
            std::cmp::Ordering::Less => {}
            // The answer to it was lost.
            std::cmp::Ordering::Equal if before.envelope == envelope.to_bytes() => return Ok(()),
            std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => return Err(Code::HeldStale.into()),
        }
    }
    let believed = judge::Believed {
        slots: slot::store::of_node(pool, caller.node_id).await?,
        tenants: store::tenants(pool, caller.node_id).await?,
    };
    let known = before.as_ref().map(HeldRow::differences).unwrap_or_default();
    let differences = judge::judge(&list, &believed, &known, now);
    let kept = store::keep(pool, &list, envelope, &differences, now).await?;
    if !kept {
        // Another one overtook it between our look and our write.
        return Err(Code::HeldStale.into());
    }
    tell_news(fleet, caller.node_id, &known, &differences).await
}

/// A difference that two lists on end have shown is told, and so is its end.
async fn tell_news(
    fleet: &Fleet,
    node: NodeId,
    known: &[judge::Difference],
    differences: &[judge::Difference],
) -> Answer<()> {
    let (known, sure) = (judge::confirmed(known), judge::confirmed(differences));
    if known == sure {
        return Ok(());
    }
    let fresh: Vec<_> = sure.difference(&known).collect();
    let over: Vec<_> = known.difference(&sure).collect();
    for (code, ..) in &fresh {
        metrics::counter!(ALARMS, "code" => (*code).to_owned()).increment(1);
        tracing::warn!(node_id = %node, code, "a node does not hold what it should");
    }
    let actor = Actor::system("held");
    let mut change = fleet.app.db.change(&actor, "node.held_differs", node).await?;
    let data = json!({ "differs": fresh, "over": over });
    change.detail(data.clone());
    change.event("node.held_differs", node, data);
    change.commit().await?;
    Ok(())
}
