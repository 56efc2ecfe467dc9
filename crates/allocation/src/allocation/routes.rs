//! Allocations over HTTP. What somebody may not know of is not there; what they may see and not do is refused.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base::auth::{Principal, Scope};
use base::http::{Access, Answer, ApiError, Body, ChangedSince, Params, Route, Routes, Search};
use base::idempotency::{self, Key};
use base::wake::Topic;
use fleet::Fleet;
use http::{HeaderMap, HeaderValue, StatusCode};
use model::api::{
    AllocationCreate, AllocationExtend, AllocationPhases, AllocationRelease, AllocationView, NodeReason, Page,
    TransitionView,
};
use model::id::{AllocationId, ProjectId};
use model::signal::Code;
use model::state::AllocationState;
use model::task::vm_power::Action;
use schemars::JsonSchema;
use serde::Deserialize;

use super::create::{Created, create};
use super::store::{self, AllocationRow, Filter};
use super::{power, repair, switches, verbs, view};
use crate::seat::{OPERATOR, SEES, Seat, TENANT, looks};

const ENDS: Access = Access::Scopes(&[Scope::Project, Scope::Operator]);

pub fn routes() -> Routes<Fleet> {
    let verb = |route: Route<Fleet>| route.answers_with::<AllocationView>(StatusCode::ACCEPTED);
    Routes::new([
        Route::get("/v1/allocations", SEES, list)
            .summary("List allocations: of one's own projects, or all for whoever runs the platform")
            .searches::<ListQuery>()
            .answers::<Page<AllocationView>>(),
        verb(Route::post("/v1/allocations", TENANT, post_create))
            .summary("Rent something; needs an Idempotency-Key")
            .takes_key()
            .takes::<AllocationCreate>()
            .fails(&[
                Code::QuotaExceeded,
                Code::NoCapacity,
                Code::SshKeyMissing,
                Code::ImageUnknown,
            ]),
        Route::get("/v1/allocations/{id}", SEES, show)
            .summary("Show an allocation; with changed_since, wait until something of it has changed")
            .searches::<ChangedSince>()
            .answers::<AllocationView>(),
        Route::get("/v1/allocations/{id}/phases", SEES, phases)
            .summary("Every phase of making it and of taking it away")
            .answers::<AllocationPhases>(),
        Route::get("/v1/allocations/{id}/transitions", SEES, transitions)
            .summary("Every move it made and every switch of its VM, oldest first")
            .answers::<Page<TransitionView>>(),
        verb(Route::post("/v1/allocations/{id}/cancel", TENANT, cancel))
            .summary("Take back what is being made")
            .fails(&[Code::AllocationAlreadyActive, Code::StateConflict]),
        verb(Route::post("/v1/allocations/{id}/release", ENDS, release))
            .summary("End it; operators say why")
            .takes::<AllocationRelease>(),
        verb(Route::post(
            "/v1/allocations/{id}/force-release",
            OPERATOR,
            force_release,
        ))
        .summary("End the tenant's side at once; its slots are quarantined")
        .takes::<NodeReason>(),
        verb(Route::post("/v1/allocations/{id}/retry", OPERATOR, retry))
            .summary("Try the stuck step again")
            .fails(&[Code::StateConflict]),
        verb(Route::post("/v1/allocations/{id}/reboot", TENANT, reboot)).summary("Switch its VM off and on"),
        verb(Route::post("/v1/allocations/{id}/stop", TENANT, stop)).summary("Switch its VM off; it stays charged"),
        verb(Route::post("/v1/allocations/{id}/start", TENANT, start)).summary("Switch its VM on"),
        verb(Route::post("/v1/allocations/{id}/repair", ENDS, mend))
            .summary("Make the account on a machine once more: lost user, lost keys")
            .fails(&[Code::StateConflict]),
        verb(Route::post("/v1/allocations/{id}/extend", TENANT, extend))
            .summary("A new end, counted from now")
            .takes::<AllocationExtend>()
            .fails(&[Code::StateConflict, Code::QuotaExceeded]),
        verb(Route::post("/v1/allocations/{id}/again", TENANT, again))
            .summary("A new allocation like one that failed or was cancelled; needs an Idempotency-Key")
            .takes_key()
            .fails(&[Code::StateConflict, Code::QuotaExceeded, Code::NoCapacity]),
    ])
}

#[derive(Deserialize)]
struct PathId {
    id: AllocationId,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    project: Option<ProjectId>,
    state: Option<AllocationState>,
    /// Only those that have not ended.
    live: Option<bool>,
    after: Option<String>,
    limit: Option<u32>,
}

async fn list(
    State(fleet): State<Fleet>,
    principal: Principal,
    Search(query): Search<ListQuery>,
) -> Answer<Json<Page<AllocationView>>> {
    let page = base::http::page(query.after.as_deref(), query.limit, "allocations", &fleet.app.cursors)?;
    let project = query.project.or(principal.confined.map(|confined| confined.project));
    if let Some(project) = project {
        Seat::take(fleet.app.db.read(), &principal, project).await?;
    }
    let filter = Filter {
        of: (!looks(&principal)).then_some(principal.user_id),
        project,
        state: query.state,
        live: query.live.unwrap_or(false),
    };
    let rows = store::list(fleet.app.db.read(), &filter, &page).await?;
    let place = |row: &AllocationRow| (row.created_at.into(), row.id);
    let list = page.answer(rows, "allocations", &fleet.app.cursors, place, |row| row);
    let now = fleet.app.clock.now();
    let items = list
        .items
        .into_iter()
        .map(|row| view::brief(now, row))
        .collect::<Answer<_>>()?;
    Ok(Json(Page { items, next: list.next }))
}

/// 202 with the allocation as it is now.
async fn accepted(fleet: &Fleet, id: AllocationId) -> Answer<(StatusCode, Json<AllocationView>)> {
    let row = store::get(fleet.app.db.bookkeeping(), id)
        .await?
        .ok_or(Code::NotFound)?;
    Ok((StatusCode::ACCEPTED, Json(view::whole(fleet, row).await?)))
}

async fn made(fleet: &Fleet, created: Created) -> Answer<Response> {
    let mut response = accepted(fleet, created.id).await?.into_response();
    if created.replayed {
        response
            .headers_mut()
            .insert(idempotency::REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

async fn post_create(
    State(fleet): State<Fleet>,
    principal: Principal,
    headers: HeaderMap,
    Body(body): Body<AllocationCreate>,
) -> Answer<Response> {
    // A token of another project that sends the same words wants something else.
    let project = body.project.or(principal.confined.map(|confined| confined.project));
    let body = AllocationCreate { project, ..body };
    let key = Key::required(&headers, principal.user_id, "POST /v1/allocations", &body)?;
    let created = create(&fleet, &principal, &body, &key).await?;
    made(&fleet, created).await
}

async fn again(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    headers: HeaderMap,
) -> Answer<Response> {
    let wish = verbs::asked_before(&fleet, &principal, id).await?;
    // Two that were asked for in the same words are two wishes: the key stands for this one's successor.
    let asked = (id, &wish);
    let key = Key::required(&headers, principal.user_id, "POST /v1/allocations/{id}/again", &asked)?;
    let created = create(&fleet, &principal, &wish, &key).await?;
    made(&fleet, created).await
}

async fn show(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    Search(query): Search<ChangedSince>,
) -> Answer<Json<AllocationView>> {
    let until = tokio::time::Instant::now() + query.hold();
    let mut news = fleet.app.wake.subscribe(Topic::Progress);
    loop {
        // Asked each time: a seat that is taken away ends the wait, too.
        let (row, seat) = verbs::seen(&fleet, &principal, id).await?;
        let creator = row.creator();
        let mut view = view::whole(&fleet, row).await?;
        view.verbs.retain(|verb| seat.may(verb, creator));
        let left = until.saturating_duration_since(tokio::time::Instant::now());
        if view.state.is_end() || left.is_zero() || query.passed(view.revision) {
            return Ok(Json(view));
        }
        news.look_again(left.min(Duration::from_secs(2))).await;
    }
}

async fn phases(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
) -> Answer<Json<AllocationPhases>> {
    let (row, _) = verbs::seen(&fleet, &principal, id).await?;
    view::phases(&fleet, &row).await.map(Json)
}

async fn transitions(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
) -> Answer<Json<Page<TransitionView>>> {
    let (row, _) = verbs::seen(&fleet, &principal, id).await?;
    let pool = fleet.app.db.bookkeeping();
    let rows = store::transitions(pool, id).await?;
    let moves = rows.into_iter().map(view::transition).collect::<Answer<_>>()?;
    let items = switches::among(pool, &row, moves).await?;
    Ok(Json(Page { items, next: None }))
}

type Accepted = Answer<(StatusCode, Json<AllocationView>)>;

async fn cancel(State(fleet): State<Fleet>, principal: Principal, Params(PathId { id }): Params<PathId>) -> Accepted {
    verbs::cancel(&fleet, &principal, id).await?;
    accepted(&fleet, id).await
}

fn reason(text: Option<&str>) -> Answer<Option<&str>> {
    match text {
        Some(text) if text.trim().is_empty() || text.len() > 400 || text.chars().any(char::is_control) => {
            Err(ApiError::field("reason", "1 to 400 printable characters"))
        }
        other => Ok(other),
    }
}

async fn release(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    Body(body): Body<AllocationRelease>,
) -> Accepted {
    verbs::release(&fleet, &principal, id, reason(body.reason.as_deref())?).await?;
    accepted(&fleet, id).await
}

async fn force_release(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    Body(body): Body<NodeReason>,
) -> Accepted {
    reason(Some(&body.reason))?;
    verbs::force_release(&fleet, &principal, id, &body.reason).await?;
    accepted(&fleet, id).await
}

async fn retry(State(fleet): State<Fleet>, principal: Principal, Params(PathId { id }): Params<PathId>) -> Accepted {
    verbs::retry(&fleet, &principal, id).await?;
    accepted(&fleet, id).await
}

async fn reboot(State(fleet): State<Fleet>, principal: Principal, Params(PathId { id }): Params<PathId>) -> Accepted {
    power::switch(&fleet, &principal, id, Action::Reboot).await?;
    accepted(&fleet, id).await
}

async fn mend(State(fleet): State<Fleet>, principal: Principal, Params(PathId { id }): Params<PathId>) -> Accepted {
    repair::repair(&fleet, &principal, id).await?;
    accepted(&fleet, id).await
}

async fn stop(State(fleet): State<Fleet>, principal: Principal, Params(PathId { id }): Params<PathId>) -> Accepted {
    power::switch(&fleet, &principal, id, Action::Stop).await?;
    accepted(&fleet, id).await
}

async fn start(State(fleet): State<Fleet>, principal: Principal, Params(PathId { id }): Params<PathId>) -> Accepted {
    power::switch(&fleet, &principal, id, Action::Start).await?;
    accepted(&fleet, id).await
}

async fn extend(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    Body(body): Body<AllocationExtend>,
) -> Accepted {
    verbs::extend(&fleet, &principal, id, &body).await?;
    accepted(&fleet, id).await
}
