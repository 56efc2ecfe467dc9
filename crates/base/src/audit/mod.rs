//! The audit: who did or tried what. Rows are written with the change they tell of (tx.rs) and never altered; within
//! a second a sealer chains them, so that an edit, a deletion, a swap or a cut is found by the verifier, which names
//! the first row that does not fit. What it cannot see alone is a chain cut short together with its head: compare the
//! head it reports with one kept elsewhere.

use model::digest::Sha256;
use sqlx::FromRow;
use time::OffsetDateTime;
use uuid::Uuid;

mod list;
mod project;
mod reach;
mod seal;
pub mod slice;
mod verify;

pub use list::{AuditFilter, list};
pub use project::{OF_PROJECT, ProjectAuditFilter, list_of_project};
pub use seal::{Sealer, seal_all, sealer};
pub use verify::{Head, verify};

/// A row as the seal covers it.
#[derive(Clone, Debug, FromRow)]
struct AuditRow {
    id: Uuid,
    at: OffsetDateTime,
    actor_kind: String,
    actor_id: String,
    address: Option<String>,
    action: String,
    target_kind: String,
    target_id: String,
    outcome: String,
    code: Option<String>,
    correlation_id: Uuid,
    details_text: String,
}

/// Before the first row.
const GENESIS: [u8; 32] = [0; 32];

/// The hash of a row in its place: over the hash before it and every field with its length, so that no two different
/// rows have the same bytes.
fn chain(before: &[u8], row: &AuditRow) -> Sha256 {
    let mut bytes = Vec::with_capacity(512);
    let mut field = |value: Option<&[u8]>| match value {
        Some(value) => {
            bytes.push(1);
            bytes.extend_from_slice(&(value.len() as u64).to_be_bytes());
            bytes.extend_from_slice(value);
        }
        None => bytes.push(0),
    };
    field(Some(before));
    field(Some(row.id.as_bytes()));
    field(Some(&row.at.unix_timestamp_nanos().to_be_bytes()));
    for text in [&row.actor_kind, &row.actor_id] {
        field(Some(text.as_bytes()));
    }
    field(row.address.as_ref().map(|text| text.as_bytes()));
    for text in [&row.action, &row.target_kind, &row.target_id, &row.outcome] {
        field(Some(text.as_bytes()));
    }
    field(row.code.as_ref().map(|text| text.as_bytes()));
    field(Some(row.correlation_id.as_bytes()));
    field(Some(row.details_text.as_bytes()));
    Sha256::of(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> AuditRow {
        AuditRow {
            id: Uuid::nil(),
            at: OffsetDateTime::UNIX_EPOCH,
            actor_kind: "user".into(),
            actor_id: "a".into(),
            address: None,
            action: "x.y".into(),
            target_kind: "node".into(),
            target_id: "n".into(),
            outcome: "ok".into(),
            code: None,
            correlation_id: Uuid::nil(),
            details_text: "{}".into(),
        }
    }

    #[test]
    fn every_field_counts_and_borders_cannot_be_moved() {
        let plain = chain(&GENESIS, &row());
        let changed = [
            AuditRow {
                actor_id: "ax".into(),
                action: ".y".into(),
                ..row()
            },
            AuditRow {
                address: Some(String::new()),
                ..row()
            },
            AuditRow {
                code: Some(String::new()),
                ..row()
            },
            AuditRow {
                outcome: "refused".into(),
                ..row()
            },
            AuditRow {
                details_text: "{ }".into(),
                ..row()
            },
            AuditRow {
                at: OffsetDateTime::UNIX_EPOCH + time::Duration::microseconds(1),
                ..row()
            },
            AuditRow {
                target_id: "n2".into(),
                ..row()
            },
            AuditRow {
                correlation_id: Uuid::max(),
                ..row()
            },
        ];
        for other in changed {
            assert_ne!(chain(&GENESIS, &other), plain, "{other:?}");
        }
        assert_ne!(chain(&[1; 32], &row()), plain);
    }
}
