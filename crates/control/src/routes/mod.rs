//! The route table of the public API at a glance.

mod access;
mod audit;
mod events;
mod version;

use axum::Router;
use base::http::{RouteInfo, Routes};
use fleet::Fleet;

/// Everything people can ask, by noun.
fn tables() -> Routes<Fleet> {
    version::routes()
        .merge(access::routes())
        .merge(fleet::node::routes::routes())
        .merge(fleet::slot::routes::routes())
        .merge(fleet::image::routes::routes())
        .merge(fleet::task::routes::routes())
        .merge(fleet::trust::routes::routes())
        .merge(allocation::routes())
        .merge(audit::routes())
        .merge(events::routes())
}

pub fn public_router(fleet: &Fleet) -> Router {
    tables().router(&fleet.app).with_state(fleet.clone())
}

pub fn public_infos() -> Vec<RouteInfo> {
    tables().infos()
}

/// Everything on the node-facing listeners.
pub fn node_infos() -> Vec<RouteInfo> {
    fleet::routes::node_routes()
        .merge(fleet::routes::enrol_routes())
        .infos()
}
