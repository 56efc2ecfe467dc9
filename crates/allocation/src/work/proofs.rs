//! What nodes sign that they hold: it moves the proof of used time (nothing later than the newest list that names an
//! allocation is ever charged) and tells whether a VM is on. One that is switched off is held, too; a lost one is not.

use std::time::Duration;

use fleet::held::of_nodes;
use model::held::HeldPower;
use model::id::AllocationId;
use model::time::Timestamp;
use uuid::Uuid;

use crate::allocation::{store, usage};
use crate::worker::Worker;

const EVERY: Duration = Duration::from_secs(5);
/// Nodes that are looked at together.
const AT_ONCE: usize = 200;

pub(super) async fn run(worker: Worker) {
    while worker.running(tokio::time::sleep(EVERY)).await {
        if let Err(error) = pass(&worker).await {
            tracing::warn!(%error, "used time stays unproven");
        }
    }
}

async fn pass(worker: &Worker) -> sqlx::Result<()> {
    let pool = worker.app.db.bookkeeping();
    store::switched(pool).await?;
    let unproven: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "select a.node_id, a.id from usage_span s join allocation a on a.id = s.allocation_id
         join node_held h on h.node_id = a.node_id
         where s.end_reason is null and s.proven_until < least(h.at, h.received_at)
         union
         select a.node_id, a.id from allocation a join usage_span s on s.allocation_id = a.id
         join node_held h on h.node_id = a.node_id
         where a.state = 'releasing' and not isempty(s.span) and s.proven_until < least(h.at, h.received_at, upper(s.span)) order by 1",
    )
    .fetch_all(pool)
    .await?;
    for some in unproven.chunk_by(|a, b| a.0 == b.0).collect::<Vec<_>>().chunks(AT_ONCE) {
        let nodes: Vec<Uuid> = some.iter().map(|of_node| of_node[0].0).collect();
        for list in of_nodes(pool, &nodes).await? {
            let Some(holds) = list.holds() else { continue };
            // The earlier of both clocks: a node that is ahead proves nothing of what is to come.
            let until = Timestamp::from(list.at.min(list.received_at));
            let here = unproven.iter().filter(|(node, _)| *node == list.node_id);
            for allocation in here.map(|(_, id)| AllocationId::from(*id)) {
                if holds.users.iter().any(|user| user.allocation_id == allocation) {
                    usage::proven(pool, allocation, until).await?;
                    continue;
                }
                let held = holds.slices.iter().find(|slice| slice.allocation_id == allocation);
                let power = match held.map(|slice| slice.power) {
                    Some(HeldPower::Running) => "running",
                    Some(HeldPower::Off) => "off",
                    Some(HeldPower::Absent | HeldPower::Unknown) | None => continue,
                };
                usage::proven(pool, allocation, until).await?;
                store::powered(pool, allocation, power, until).await?;
            }
        }
    }
    Ok(())
}
