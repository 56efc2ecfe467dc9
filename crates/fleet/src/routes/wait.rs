//! The wait for work: a request that is held until there is some.

use std::net::IpAddr;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base::http::{Answer, Search, correlation_id, later};
use base::tx::Actor;
use http::{HeaderMap, StatusCode};
use model::id::SessionId;
use model::node_api::header;
use model::signal::Code;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;

use super::identify::{Me, version_of};
use crate::dispatch::Wait;
use crate::identity::NodeCaller;
use crate::{Fleet, session, task};

/// How long before the end of its certificate a wait is over.
const BEFORE_END_MS: i64 = 250;
/// When we stop, those who wait are sent away over this long.
const LEAVE_WITHIN_MS: u64 = 5000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitQuery {
    /// 1: answer at once and claim nothing.
    probe: Option<u8>,
}

pub(super) async fn get_wait(
    State(fleet): State<Fleet>,
    Me(me): Me,
    Search(query): Search<WaitQuery>,
    actor: Actor,
    headers: HeaderMap,
) -> Answer<Response> {
    if query.probe == Some(1) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let session = session_of(&headers)?;
    let (manifest, catalogue) = (fleet.manifest_version(), fleet.images().version());
    let behind = |name, newest| version_of(&headers, name).is_some_and(|known| known < newest);
    if behind(header::MANIFEST, manifest) || behind(header::CATALOGUE, catalogue) {
        // It was between two waits when they came; it must not hear of a revocation only after this one.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    session::takes_tasks(&session::check(&fleet, &me, &actor, session).await?)?;
    let wait = fleet.dispatch.enter(me.node_id);
    let held = Held {
        me,
        address: actor.address,
        session,
        manifest,
        catalogue,
        wait,
    };
    Ok(later(async move { hold(&fleet, &held).await.into_response() }))
}

/// A request that is held: whose it is, and what it waits for.
struct Held {
    me: NodeCaller,
    address: Option<IpAddr>,
    session: SessionId,
    /// What was in force when it came.
    manifest: u64,
    catalogue: u64,
    wait: Wait,
}

/// What is left of a held request: a bell, a clock, and whom to ask for when either rings. Ten thousand of these are
/// there at any time, so the rest is made when it is needed, and the bell is rung for everything, our stop included.
async fn hold(fleet: &Fleet, held: &Held) -> Answer<Response> {
    let Held { me, wait, .. } = held;
    let session = held.session;
    let jitter_ms = rand::random_range(0..=fleet.limits.hold_ms / 4);
    // Over just before the certificate is: then it ends as any wait does, and nobody was refused.
    let left_ms = me.not_after.since_ms(fleet.app.clock.now()) - BEFORE_END_MS;
    let left_ms = u64::try_from(left_ms).unwrap_or(0);
    let over = tokio::time::sleep(Duration::from_millis((fleet.limits.hold_ms + jitter_ms).min(left_ms)));
    tokio::pin!(over);
    loop {
        let rung = wait.rung();
        tokio::pin!(rung);
        rung.as_mut().enable();
        if fleet.stop.is_cancelled() {
            // Everybody will come back to another process: not all in the same moment.
            let left_ms = rand::random_range(0..=(fleet.limits.hold_ms / 4).min(LEAVE_WITHIN_MS));
            over.as_mut().reset(Instant::now() + Duration::from_millis(left_ms));
            over.await;
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        // A new manifest, perhaps since this request was let in: whoever rings does it once.
        if fleet.manifest_version() != held.manifest || fleet.images().version() != held.catalogue {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        if !session::known(fleet, me, session) {
            Box::pin(opened_again(fleet, held)).await?;
        }
        if let Some(taken) = wait.take_work() {
            let answer = Box::pin(work_for(fleet, me, session)).await?;
            taken.claimed();
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
        tokio::select! {
            biased;
            () = &mut over => return Ok(StatusCode::NO_CONTENT.into_response()),
            () = &mut rung => {}
        }
        // Revoked while it waited: the connection is not asked again, so the table is.
        Box::pin(fleet.still_stands(me)).await?;
    }
}

/// Somebody may have opened another session since, or this process has never heard of it.
async fn opened_again(fleet: &Fleet, held: &Held) -> Answer<()> {
    let actor = Actor::node(held.me.node_id, correlation_id()).at(held.address);
    session::takes_tasks(&session::check(fleet, &held.me, &actor, held.session).await?)
}

/// What there is for this node and session right now.
async fn work_for(fleet: &Fleet, me: &NodeCaller, session: SessionId) -> Answer<Option<Response>> {
    let answer = task::claim::claim(fleet, me.node_id, me.epoch, session).await?;
    let something = !answer.tasks.is_empty() || !answer.cancel.is_empty();
    Ok(something.then(|| Json(answer).into_response()))
}

pub(super) fn session_of(headers: &HeaderMap) -> Answer<SessionId> {
    let value = headers.get(header::SESSION).ok_or(Code::SessionRequired)?;
    value
        .to_str()
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Code::IdKindMismatch.into())
}
