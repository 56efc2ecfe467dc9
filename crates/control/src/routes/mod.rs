//! The route table of the public API at a glance.

mod access;
mod audit;
mod events;
mod project_tokens;
mod sign_in;
mod users;
mod version;

use axum::Router;
use base::http::{RouteInfo, Routes};
use fleet::Fleet;
use http::Method;

/// What a project's own token reaches. Each of these asks for a seat in the project, or is the same for everybody.
const IN_PROJECTS: &[(Method, &str)] = &[
    (Method::GET, "/v1/me"),
    (Method::GET, "/v1/skus"),
    (Method::GET, "/v1/skus/{id}"),
    (Method::GET, "/v1/projects"),
    (Method::GET, "/v1/projects/{id}"),
    (Method::GET, "/v1/projects/{id}/members"),
    (Method::GET, "/v1/projects/{id}/quota"),
    (Method::GET, "/v1/projects/{id}/audit"),
    (Method::GET, "/v1/allocations"),
    (Method::POST, "/v1/allocations"),
    (Method::GET, "/v1/allocations/{id}"),
    (Method::GET, "/v1/events"),
    (Method::GET, "/v1/allocations/{id}/events"),
    (Method::GET, "/v1/allocations/{id}/phases"),
    (Method::GET, "/v1/allocations/{id}/transitions"),
    (Method::POST, "/v1/allocations/{id}/cancel"),
    (Method::POST, "/v1/allocations/{id}/release"),
    (Method::POST, "/v1/allocations/{id}/reboot"),
    (Method::POST, "/v1/allocations/{id}/stop"),
    (Method::POST, "/v1/allocations/{id}/start"),
    (Method::POST, "/v1/allocations/{id}/extend"),
    (Method::POST, "/v1/allocations/{id}/again"),
    (Method::POST, "/v1/allocations/{id}/repair"),
];

/// Everything people can ask, by noun.
fn tables() -> Routes<Fleet> {
    every().open_to_projects(IN_PROJECTS)
}

fn every() -> Routes<Fleet> {
    version::routes()
        .merge(access::routes())
        .merge(sign_in::routes())
        .merge(users::routes())
        .merge(project_tokens::routes())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_that_is_open_to_projects_exists() {
        let open = public_infos().iter().filter(|route| route.in_project).count();
        assert_eq!(open, IN_PROJECTS.len());
    }
}
