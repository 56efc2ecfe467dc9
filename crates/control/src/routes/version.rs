//! `/v1/version`: what answers here. Public, and worth nothing to a stranger.

use axum::Json;
use axum::extract::State;
use base::http::{Access, Route, Routes};
use fleet::Fleet;
use model::api::VersionView;

pub(super) fn routes() -> Routes<Fleet> {
    Routes::new([Route::get("/v1/version", Access::Public, version)
        .summary("The version of the control plane")
        .answers::<VersionView>()])
}

async fn version(State(fleet): State<Fleet>) -> Json<VersionView> {
    Json(VersionView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        installation: fleet.app.installation,
        dev: fleet.app.config.dev,
    })
}
