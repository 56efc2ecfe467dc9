//! What administrators can do with the keys. Everybody who may look at nodes may look at these.

use axum::Json;
use axum::extract::State;
use base::auth::Scope;
use base::http::{Access, Answer, ApiError, Body, Params, Route, Routes};
use base::tx::{Actor, Target};
use model::api::{TrustDelegate, TrustRevoke, TrustRotate, TrustView};
use model::key::KeyId;
use model::signal::Code;
use model::trust::Purpose;
use serde::Deserialize;

use super::{delegate, revoke, rotate, view};
use crate::Fleet;

const WRITE: Access = Access::Scopes(&[Scope::Admin]);
const READ: Access = Access::Scopes(&[Scope::Operator, Scope::Support, Scope::Auditor]);

pub fn routes() -> Routes<Fleet> {
    Routes::new([
        Route::get("/v1/trust", READ, show)
            .summary("The signing keys, who knows them and what waits")
            .answers::<TrustView>(),
        Route::post("/v1/trust/rotate", WRITE, post_rotate)
            .summary("Let the standby keys take over, once every node knows them")
            .takes::<TrustRotate>()
            .answers::<TrustView>()
            .fails(&[Code::SigningKeyMissing]),
        Route::post("/v1/trust/keys/{keyid}/revoke", WRITE, post_revoke)
            .summary("End a signing key now and issue again what it had signed")
            .takes::<TrustRevoke>()
            .answers::<TrustView>()
            .fails(&[Code::NotFound, Code::StateConflict, Code::SigningKeyMissing]),
        Route::post("/v1/trust/delegation", WRITE, post_delegation)
            .summary("Install a delegation that the roots have signed offline")
            .takes::<TrustDelegate>()
            .answers::<TrustView>()
            .fails(&[Code::ManifestRejected, Code::SigningKeyMissing]),
    ])
}

async fn show(State(fleet): State<Fleet>) -> Answer<Json<TrustView>> {
    view(&fleet).await.map(Json)
}

async fn post_rotate(
    State(fleet): State<Fleet>,
    actor: Actor,
    Body(body): Body<TrustRotate>,
) -> Answer<Json<TrustView>> {
    let why = body.reason.as_deref().map(reason).transpose()?;
    let mut purposes = body.purposes.clone();
    purposes.sort_unstable();
    purposes.dedup();
    if purposes.is_empty() {
        purposes = Purpose::ALL.to_vec();
    }
    rotate(&fleet, &actor, &purposes, body.now, why).await?;
    view(&fleet).await.map(Json)
}

#[derive(Deserialize)]
struct PathKey {
    keyid: KeyId,
}

async fn post_revoke(
    State(fleet): State<Fleet>,
    Params(PathKey { keyid }): Params<PathKey>,
    actor: Actor,
    Body(body): Body<TrustRevoke>,
) -> Answer<Json<TrustView>> {
    revoke(&fleet, &actor, keyid, reason(&body.reason)?).await?;
    view(&fleet).await.map(Json)
}

async fn post_delegation(
    State(fleet): State<Fleet>,
    actor: Actor,
    Body(body): Body<TrustDelegate>,
) -> Answer<Json<TrustView>> {
    match delegate(&fleet, &actor, body.delegation).await {
        Ok(()) => view(&fleet).await.map(Json),
        Err(error) => {
            if error.status().is_client_error() {
                // Somebody with an administrator's token tried to bring roots of their own.
                let target = Target::from(fleet.app.installation);
                fleet
                    .app
                    .db
                    .refusal(&actor, "trust.delegate", target, error.code)
                    .await?;
            }
            Err(error)
        }
    }
}

/// Kept for ever: short, printable, there.
fn reason(text: &str) -> Answer<&str> {
    let text = text.trim();
    let fine = (1..=200).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    match fine {
        true => Ok(text),
        false => Err(ApiError::field("reason", "1 to 200 printable characters")),
    }
}
