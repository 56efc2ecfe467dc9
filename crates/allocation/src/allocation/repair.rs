//! A tenant's account on a machine is made once more: for whoever has lost it, or their keys. What is there stays.

use base::auth::Principal;
use base::http::Answer;
use base::wake::Topic;
use fleet::{Fleet, intent};
use model::id::AllocationId;
use model::intent::Wish;
use model::state::AllocationState;
use model::task::{Task, provision_user};
use serde_json::json;

use super::refused::refused;
use super::verbs::seen;
use super::{later, store};

pub(super) async fn repair(fleet: &Fleet, principal: &Principal, id: AllocationId) -> Answer<()> {
    let (row, seat) = seen(fleet, principal, id).await?;
    seat.may_repair(row.creator())?;
    let mut change = fleet.app.db.change(&principal.actor(), "allocation.repair", id).await?;
    let row = store::lock(&mut change, id).await?;
    let wish = match intent::wished(fleet, &mut change, row.intent()?, id).await {
        Ok(wish) => wish,
        Err(error) => {
            drop(change);
            return Err(intent::refused(fleet, &principal.actor(), "allocation.repair", id, error).await);
        }
    };
    let Wish::Machine {
        username,
        uid,
        ssh_public_keys,
        gpu_access,
        ..
    } = wish.clone()
    else {
        return Err(refused(
            &row,
            "a slice has no account of ours: use the image's own ways",
        ));
    };
    if row.state()? != AllocationState::Active {
        let what = format!("the allocation is {}, not active", row.state);
        return Err(refused(&row, what));
    }
    if let Some(open) = later::under_way(&mut change, &row).await? {
        // An answer like the first one's: under a key of its own it is kept like that.
        change.detail(json!({ "shared": open }));
        return Ok(change.commit().await?);
    }
    let task = Task::ProvisionUser(provision_user::Params {
        allocation_id: id,
        username,
        uid,
        ssh_public_keys,
        gpu_access,
    });
    let task = later::ask(fleet, &mut change, &row, wish, task).await?;
    let told = json!({ "project_id": row.project(), "task_id": task });
    change.event("provisioning.repair", id, told);
    change.wake(Topic::Progress);
    Ok(change.commit().await?)
}
