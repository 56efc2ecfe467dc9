//! What people and programs send by mistake or on purpose. Each has a stable code and the status that belongs to it, a
//! sentence that names the culprit, one correlation id in header and body, and leaves everything as it was.

mod bodies;
mod doors;
mod hostile;
mod hostile_sign_in;
mod lists;
mod matches;
mod nodes;
mod often;
mod raw;
mod standing;
mod versions;

use dev::town::Town;

use crate::abuse::snapshot;

const TABLES: [&str; 7] = [
    "node",
    "enrolment",
    "certificate",
    "task",
    "intent",
    "api_token",
    "app_user",
];

/// All that a refused request could have changed.
async fn everything(town: &Town) -> Vec<String> {
    snapshot(town, &TABLES).await
}
