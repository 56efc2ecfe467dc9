//! What the control plane's own rows say in the end: of every task that there ever was, and of nodes that were called silent.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::id::{OpId, TaskId};
use uuid::Uuid;

use super::stage::Stage;
use crate::history::{History, What};

/// The platform's own probes may still be under way.
pub(super) async fn until_all_ended(stage: &Stage) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        let open: sqlx::Result<i64> = sqlx::query_scalar("select count(*) from task where ended_at is null")
            .fetch_one(stage.fleet.app.db.read())
            .await;
        if matches!(open, Ok(0)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// How often something like this was done to a node: `node.stale` took it for silent, `node.cloned` for two.
pub(super) async fn taken_for(stage: &Stage, action: &str) -> sqlx::Result<u64> {
    let count: i64 = sqlx::query_scalar("select count(*) from audit where action = $1 and outcome = 'ok'")
        .bind(action)
        .fetch_one(stage.fleet.app.db.read())
        .await?;
    Ok(count.unsigned_abs())
}

/// How many working certificates the nodes have had since they enrolled.
pub(super) async fn renewals(stage: &Stage) -> sqlx::Result<u64> {
    let count: i64 = sqlx::query_scalar(
        "select count(*) from certificate where kind = 'working' and first_used_at is not null and generation > 1",
    )
    .fetch_one(stage.fleet.app.db.read())
    .await?;
    Ok(count.unsigned_abs())
}

/// Every task that there ever was: it has an end, one result has landed for it, and it is the only one of its operation but
/// for those that were never begun.
pub(super) async fn landed(stage: &Stage, history: &mut History) -> anyhow::Result<()> {
    let read = stage.fleet.app.db.read();
    let tasks: Vec<(Uuid, Uuid, bool, bool)> = sqlx::query_as(
        "select id, op_id, ended_at is not null, state in ('failed', 'expired') and started_at is null from task",
    )
    .fetch_all(read)
    .await?;
    let landed: Vec<(String, i64)> = sqlx::query_as(
        "select target_id, count(*) from audit where action = 'task.result' and outcome = 'ok' group by target_id",
    )
    .fetch_all(read)
    .await?;
    let landed: BTreeMap<String, i64> = landed.into_iter().collect();
    for (task, op, ended, never_begun) in tasks {
        let (task, op) = (TaskId::from(task), OpId::from(op));
        let (results, issues) = (format!("result of {task}"), format!("tasks of {op}"));
        for what in [What::Invoke, What::Effect, What::Ok] {
            if !never_begun {
                history.put(issues.clone(), what);
            }
        }
        history.put(results.clone(), What::Invoke);
        for _ in 0..landed.get(&task.to_string()).copied().unwrap_or(0) {
            history.put(results.clone(), What::Effect);
        }
        if ended {
            history.put(results, What::Ok);
        }
    }
    Ok(())
}
