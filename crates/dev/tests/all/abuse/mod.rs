//! Attacks on the control plane over its real listeners and on its real database. Every test shows that the attack is
//! refused, under which code, that the audit has it, that nothing changed, and that its honest twin works.

mod certificates;
mod copies;
mod enrolment;
mod escalation;
mod flood;
mod foreign_node;
mod inserted_again;
mod inserted_bundles;
mod inserted_rows;
mod inserted_tenants;
mod inserted_wishes;
mod late_results;
mod log_forging;
mod over;
mod poison;
mod probing;
mod results;
mod roles;
mod secrets;
mod slow_bodies;
mod watch;
mod worker;

pub(crate) use watch::{audited, connect, refused, snapshot, sql};
pub(crate) use worker::{process, request};
