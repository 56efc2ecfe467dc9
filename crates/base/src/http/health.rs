//! What machines ask a process about itself: `/healthz` (it runs), `/readyz` (it can work, and if not, why) and
//! `/metrics`. On a listener of its own, loopback unless configured; it tells no secrets, but it tells load.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use http::{StatusCode, header};
use model::signal::Code;
use serde_json::{Value, json};

use super::shell::{Shell, finish};
use crate::app::App;
use crate::metrics;

/// What keeps a process from working, by name. Loops set and clear their own entry.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<Vec<(&'static str, Code)>>>);

impl Readiness {
    pub fn set(&self, part: &'static str, trouble: Option<Code>) {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.retain(|(name, _)| *name != part);
        parts.extend(trouble.map(|code| (part, code)));
    }

    pub fn troubles(&self) -> Vec<(&'static str, Code)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub fn health_router(app: App, service: &'static str) -> Router {
    let router = Router::new()
        .route("/healthz", get(|| async { Json(json!({ "status": "ok" })) }))
        .route("/readyz", get(ready))
        .route(
            "/metrics",
            get(|| async { ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], metrics::render()) }),
        )
        .with_state(app);
    finish(router, Shell::new(service))
}

async fn ready(State(app): State<App>) -> (StatusCode, Json<Value>) {
    let mut troubles = app.readiness.troubles();
    if let Err(error) = app.db.ping().await {
        tracing::warn!(%error, "the database does not answer");
        troubles.push(("database", Code::DatabaseUnavailable));
    }
    let status = if troubles.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let list: Vec<Value> = troubles
        .iter()
        .map(|(part, code)| json!({ "part": part, "code": code }))
        .collect();
    (status, Json(json!({ "ready": troubles.is_empty(), "troubles": list })))
}
