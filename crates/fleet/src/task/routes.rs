//! What operators can see and stop of tasks. Nobody can ask for one here by name: a task comes from a verb.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use base::auth::Scope;
use base::http::{Access, Answer, ChangedSince, Params, Route, Routes, Search};
use base::tx::Actor;
use base::wake::Topic;
use model::api::{Page, TaskTypeView, TaskView};
use model::id::{NodeId, TaskId};
use model::signal::Code;
use model::state::TaskState;
use model::task::TaskType;
use schemars::JsonSchema;
use serde::Deserialize;

use super::store::{self, Filter};
use super::view;
use crate::Fleet;

const WRITE: Access = Access::Scopes(&[Scope::Operator]);
const READ: Access = Access::Scopes(&[Scope::Operator, Scope::Support, Scope::Auditor]);

pub fn routes() -> Routes<Fleet> {
    Routes::new([
        Route::get("/v1/tasks", READ, list)
            .summary("List tasks")
            .searches::<TaskQuery>()
            .answers::<Page<TaskView>>(),
        Route::get("/v1/tasks/{id}", READ, show)
            .summary("Show a task; with changed_since, wait until it has changed")
            .searches::<ChangedSince>()
            .answers::<TaskView>(),
        Route::post("/v1/tasks/{id}/cancel", WRITE, cancel)
            .summary("Stop a task that has not ended")
            .answers::<TaskView>()
            .fails(&[Code::StateConflict]),
        Route::get("/v1/task-types", READ, types)
            .summary("Everything a node can be asked to do")
            .answers::<Page<TaskTypeView>>(),
    ])
}

#[derive(Deserialize)]
struct PathId {
    id: TaskId,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskQuery {
    node: Option<NodeId>,
    state: Option<TaskState>,
    #[serde(rename = "type")]
    task_type: Option<String>,
    after: Option<String>,
    limit: Option<u32>,
}

async fn list(State(fleet): State<Fleet>, Search(query): Search<TaskQuery>) -> Answer<Json<Page<TaskView>>> {
    let page = base::http::page(query.after.as_deref(), query.limit, "tasks", &fleet.app.cursors)?;
    let filter = Filter {
        node: query.node,
        state: query.state,
        task_type: query.task_type,
    };
    let rows = store::list(fleet.app.db.read(), &filter, &page).await?;
    let list = page.answer(
        rows,
        "tasks",
        &fleet.app.cursors,
        |row| (row.created_at.into(), row.id),
        |row| row,
    );
    let items = list.items.into_iter().map(view).collect::<Answer<_>>()?;
    Ok(Json(Page { items, next: list.next }))
}

async fn show(
    State(fleet): State<Fleet>,
    Params(PathId { id }): Params<PathId>,
    Search(query): Search<ChangedSince>,
) -> Answer<Json<TaskView>> {
    let until = tokio::time::Instant::now() + query.hold();
    let mut news = fleet.app.wake.subscribe(Topic::Progress);
    loop {
        let row = store::get(fleet.app.db.read(), id).await?.ok_or(Code::NotFound)?;
        let ended = row.state()?.is_end();
        let left = until.saturating_duration_since(tokio::time::Instant::now());
        if ended || left.is_zero() || query.passed(row.version) {
            return view(row).map(Json);
        }
        news.look_again(left.min(Duration::from_secs(2))).await;
    }
}

async fn cancel(
    State(fleet): State<Fleet>,
    Params(PathId { id }): Params<PathId>,
    actor: Actor,
) -> Answer<Json<TaskView>> {
    let mut change = fleet.app.db.change(&actor, "task.cancel", id).await?;
    let row = store::lock(&mut change, id).await?.ok_or(Code::NotFound)?;
    super::cancel(&mut change, &row).await?;
    change.commit().await?;
    let row = store::get(fleet.app.db.bookkeeping(), id)
        .await?
        .ok_or(Code::NotFound)?;
    view(row).map(Json)
}

async fn types() -> Json<Page<TaskTypeView>> {
    let items = TaskType::ALL
        .iter()
        .map(|task_type| {
            let spec = task_type.spec();
            TaskTypeView {
                task_type: spec.name.to_owned(),
                version: spec.version,
                summary: spec.summary.to_owned(),
                purpose: spec.purpose.as_str().to_owned(),
                max_runtime_s: spec.max_runtime_s,
                running_per_node: spec.running_per_node,
                changes_host: spec.changes_host,
                destroys_data: spec.destroys_data,
            }
        })
        .collect();
    Json(Page { items, next: None })
}
