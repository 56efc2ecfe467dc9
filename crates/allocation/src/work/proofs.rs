//! What nodes sign that they hold: it moves the proof of used time (nothing later than the newest list that names an
//! allocation is ever charged) and tells whether a VM is on. One that its tenant has switched off is held, too; one that is
//! lost, or off by itself, is not used until it runs again.

use std::time::Duration;

use fleet::Fleet;
use fleet::held::{HeldRow, of_nodes};
use model::held::{HeldPower, Holdings};
use model::id::AllocationId;
use model::time::Timestamp;
use sqlx::PgPool;
use uuid::Uuid;

use crate::allocation::{store, usage};

const EVERY: Duration = Duration::from_secs(5);
/// Nodes that are looked at together.
const AT_ONCE: usize = 200;

pub(super) async fn run(fleet: Fleet) {
    while fleet
        .stop
        .run_until_cancelled(tokio::time::sleep(EVERY))
        .await
        .is_some()
    {
        if let Err(error) = pass(fleet.app.db.bookkeeping()).await {
            tracing::warn!(%error, "used time stays unproven");
        }
    }
}

/// What a list may say something new about.
#[derive(sqlx::FromRow)]
struct Unproven {
    node_id: Uuid,
    id: Uuid,
    is_slice: bool,
    /// It is used now, as far as we know.
    open: bool,
    /// Its tenant, or its release, wants it off.
    off_wanted: bool,
}

async fn pass(pool: &PgPool) -> sqlx::Result<()> {
    store::switched(pool).await?;
    let unproven: Vec<Unproven> = sqlx::query_as(
        "select a.node_id, a.id, a.kind = 'slice' as is_slice, s.id is not null as open,
                a.power_wanted is not distinct from 'off' as off_wanted
         from allocation a join node_held h on h.node_id = a.node_id
         left join usage_span s on s.allocation_id = a.id and s.end_reason is null
         where a.state = 'active' and least(h.at, h.received_at) >
             coalesce(s.proven_until, (select max(e.proven_until) from usage_span e where e.allocation_id = a.id))
         union
         select a.node_id, a.id, a.kind = 'slice', false, true
         from allocation a join usage_span s on s.allocation_id = a.id join node_held h on h.node_id = a.node_id
         where a.state = 'releasing' and not isempty(s.span) and s.proven_until < least(h.at, h.received_at, upper(s.span))
         order by 1",
    )
    .fetch_all(pool)
    .await?;
    let by_node: Vec<&[Unproven]> = unproven.chunk_by(|a, b| a.node_id == b.node_id).collect();
    for some in by_node.chunks(AT_ONCE) {
        let nodes: Vec<Uuid> = some.iter().map(|of_node| of_node[0].node_id).collect();
        for list in of_nodes(pool, &nodes).await? {
            let Some(holds) = list.holds() else { continue };
            for one in unproven.iter().filter(|one| one.node_id == list.node_id) {
                if let Err(error) = judge(pool, one, &list, &holds).await {
                    tracing::warn!(%error, allocation = %AllocationId::from(one.id), "its used time stays unproven");
                }
            }
        }
    }
    Ok(())
}

async fn judge(pool: &PgPool, one: &Unproven, list: &HeldRow, holds: &Holdings) -> sqlx::Result<()> {
    let id = AllocationId::from(one.id);
    // The earlier of both clocks: a node that is ahead proves nothing of what is to come.
    let until = Timestamp::from(list.at.min(list.received_at));
    if holds.users.iter().any(|user| user.allocation_id == id) {
        // Whoever has a machine starts it again as they like.
        usage::proven(pool, id, until, None).await?;
        return Ok(());
    }
    let held = holds.slices.iter().find(|slice| slice.allocation_id == id);
    let lost = match held.map(|slice| slice.power) {
        Some(HeldPower::Running) => None,
        Some(HeldPower::Off) => (!one.off_wanted).then_some("power_lost"),
        Some(HeldPower::Absent) => Some("vm_absent"),
        None if one.is_slice && !holds.truncated => Some("vm_absent"),
        Some(HeldPower::Unknown) | None => return Ok(()),
    };
    match lost {
        None => {
            let boot = Some(list.boot_id.as_str()).filter(|boot| !boot.is_empty());
            usage::proven(pool, id, until, boot).await?;
        }
        // While it is being switched it may be seen so for a moment: the next list knows.
        Some(why) if one.open && !store::was_switched(pool, id, until).await? => {
            usage::lost(pool, id, until, why).await?;
        }
        Some(_) => {}
    }
    match held.map(|slice| slice.power) {
        Some(HeldPower::Running) => store::powered(pool, id, "running", until).await,
        Some(HeldPower::Off) => store::powered(pool, id, "off", until).await,
        Some(HeldPower::Absent | HeldPower::Unknown) | None => Ok(()),
    }
}
