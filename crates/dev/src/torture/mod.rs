//! Torture: tenants move in and out of simulated hosts, and rent slices of others, while agents, executors and api replicas are killed and a share
//! of all requests and answers is lost. In the end nothing may be lost, doubled or falsely complete; the judge is what
//! the pretended hosts saw, not what anybody says of themselves.

mod left;
mod load;
mod renter;
mod report;
mod run;
mod stage;
mod tasks;
mod verb;
mod witness;

pub use report::{Outcome, write};
pub use run::{Trial, Wish, run};
pub use stage::{CERT_LIFE_S, Ground, STALE_S, Stage};
pub use verb::{Torture, verb};
pub use witness::Witness;
