//! What tenants have to do with the platform: projects and who is in them, the catalogue, and allocations from the wish
//! to the proven end. A request is authorised, counted, given its slots and signed in one transaction; what happens on
//! hosts afterwards is a workflow that any worker can go on with. Nothing here acts on a host or signs a task by itself.

pub mod allocation;
pub mod key;
pub mod metrics;
pub mod project;
pub mod seat;
pub mod sku;
pub mod work;
mod worker;
pub mod workflow;

pub use worker::Worker;

use base::http::Routes;
use fleet::Fleet;

/// Everything people can ask about these nouns.
pub fn routes() -> Routes<Fleet> {
    project::routes::routes()
        .merge(key::routes())
        .merge(sku::routes::routes())
        .merge(allocation::routes::routes())
}
