//! What an operator has taken from a tenant by force is wiped when its node is back: once, by itself. If that does not go
//! well the slot waits for a person, as every slot in quarantine does.

use std::time::Duration;

use base::Actor;
use fleet::Fleet;
use fleet::slot::rewipe_by;
use model::id::SlotId;
use model::task::TaskType;
use uuid::Uuid;

const EVERY: Duration = Duration::from_secs(5);
const AT_ONCE: i64 = 20;

pub(super) async fn run(fleet: Fleet) {
    while fleet.running(tokio::time::sleep(EVERY)).await {
        if let Err(error) = pass(&fleet).await {
            tracing::warn!(%error, "abandoned slots were not looked for");
        }
    }
}

async fn pass(fleet: &Fleet) -> sqlx::Result<()> {
    let abandoned: Vec<Uuid> = sqlx::query_scalar(
        "select s.id from slot s join slot_quarantine q on q.no = s.quarantine_no join node n on n.id = s.node_id
         where s.state = 'quarantined' and s.disk_gone_at is null and n.state in ('ready', 'draining', 'drained')
           and exists (select from lease l join allocation a on a.id = l.allocation_id
                       where l.slot_id = s.id and l.ended_at = q.since and a.forced)
           and not exists (select from task t where t.node_id = s.node_id and s.id = any (t.slots)
                             and t.task_type = $1 and (t.created_at > q.since or t.ended_at is null))
         order by s.id limit $2",
    )
    .bind(TaskType::VmRelease.as_str())
    .bind(AT_ONCE)
    .fetch_all(fleet.app.db.read())
    .await?;
    for id in abandoned.into_iter().map(SlotId::from) {
        match rewipe_by(fleet, id, &Actor::system("abandoned-slots")).await {
            Ok(task) => tracing::info!(slot_id = %id, task_id = %task, "an abandoned slot is wiped"),
            Err(error) => tracing::info!(slot_id = %id, code = %error.code, "an abandoned slot waits"),
        }
    }
    Ok(())
}
