//! An event as everybody hears it, on every carrier.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::EventId;
use crate::time::Timestamp;

/// The envelope. Its place in the order is the `id:` of the message that carries it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventView {
    /// The same however often it is told: whoever counts, counts by it.
    pub id: EventId,
    #[serde(rename = "type")]
    pub kind: String,
    /// Of the shape of `data`.
    pub version: u32,
    pub at: Timestamp,
    pub project_id: Option<String>,
    pub subject: EventSubject,
    pub correlation_id: String,
    pub data: serde_json::Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventSubject {
    pub kind: String,
    pub id: String,
    /// After the change; null where the subject is not counted.
    pub version: Option<i64>,
}
