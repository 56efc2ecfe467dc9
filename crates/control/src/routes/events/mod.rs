//! Events as they happen, over HTTP. A stream tells only what its reader may know at that moment, goes on where an earlier
//! one ended if that was within a day, and says why it ends.

mod pour;
mod resume;
mod sight;

use allocation::allocation::verbs::seen;
use allocation::seat::SEES;
use axum::extract::State;
use axum::response::Response;
use base::auth::{Principal, Scope};
use base::http::{Access, Answer, ApiError, Params, Route, Routes, Search, stream_answer};
use base::outbox::Reader;
use fleet::Fleet;
use http::HeaderMap;
use model::api::EventView;
use model::id::{AllocationId, ProjectId};
use model::signal::Code;
use schemars::JsonSchema;
use serde::Deserialize;

use pour::{Pour, TIMES};
use sight::{Ask, Kinds, Sight};

const ANYBODY: Access = Access::Scopes(&Scope::ALL);

pub(super) fn routes() -> Routes<Fleet> {
    Routes::new([
        Route::get("/v1/events", ANYBODY, all)
            .summary(
                "Events as they happen: of one's projects, or all for whoever runs the platform. Last-Event-ID goes on",
            )
            .searches::<EventQuery>()
            .answers_events::<EventView>()
            .fails(&[Code::TooManyStreams]),
        Route::get("/v1/allocations/{id}/events", SEES, of_allocation)
            .summary("Events of one allocation as they happen. Last-Event-ID goes on")
            .answers_events::<EventView>()
            .fails(&[Code::TooManyStreams]),
    ])
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EventQuery {
    /// Only of this project.
    project: Option<ProjectId>,
    /// Only these, with commas between: `provisioning.active`, or `provisioning.*` for all of a noun.
    types: Option<String>,
}

async fn all(
    State(fleet): State<Fleet>,
    principal: Principal,
    headers: HeaderMap,
    Search(query): Search<EventQuery>,
) -> Answer<Response> {
    let ask = Ask {
        project: query.project,
        allocation: None,
        kinds: Kinds::parse(query.types.as_deref())?,
    };
    answer(fleet, principal, headers, ask).await
}

#[derive(Deserialize)]
struct PathId {
    id: AllocationId,
}

async fn of_allocation(
    State(fleet): State<Fleet>,
    principal: Principal,
    headers: HeaderMap,
    Params(PathId { id }): Params<PathId>,
) -> Answer<Response> {
    let (row, _) = seen(&fleet, &principal, id).await?;
    let ask = Ask {
        project: Some(row.project()),
        allocation: Some(id),
        kinds: Kinds::default(),
    };
    answer(fleet, principal, headers, ask).await
}

async fn answer(fleet: Fleet, principal: Principal, headers: HeaderMap, ask: Ask) -> Answer<Response> {
    let begin = resume::place(&fleet.app, &headers).await?;
    let reader = Reader::open(&fleet.app.bus, begin.after()).await?;
    // Asked when the place is known: who is let in before it is seen here, and who is let in later is heard of.
    let sight = Sight::of(&fleet, &principal, &ask).await?;
    let place = fleet.app.streams.take(principal.user_id)?;
    let (outlet, response) = stream_answer(TIMES.patience, place)
        .ok_or_else(|| ApiError::internal(anyhow::anyhow!("no room in a new stream")))?;
    let pour = Pour {
        fleet,
        headers,
        address: principal.address,
        ask,
        sight,
        reader,
        times: TIMES,
    };
    tokio::spawn(pour.run(outlet, begin));
    Ok(response)
}
