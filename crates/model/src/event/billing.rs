//! What happens to money. Not told yet: amounts are millionths of the currency's unit, never fractions.

use super::shapes;
use crate::id::{AllocationId, ProjectId};
use crate::time::Timestamp;

shapes! {
    /// Whose turn it is to be released.
    ReleaseIntent {
        allocation_id: AllocationId,
        generation: u32,
    }
    LowBalanceWarning {
        billing_account_id: String,
        project_id: ProjectId,
        currency: String,
        balance_micro: i64,
        burn_micro_per_hour: i64,
        runway_seconds: i64,
        /// Which of the thresholds was crossed.
        threshold_seconds: i64,
        allocation_ids: Vec<AllocationId>,
    }
    AutoReleasePending {
        billing_account_id: String,
        project_id: ProjectId,
        currency: String,
        balance_micro: i64,
        burn_micro_per_hour: i64,
        release_at: Timestamp,
        intents: Vec<ReleaseIntent>,
    }
    BalanceDepleted {
        billing_account_id: String,
        project_id: ProjectId,
        currency: String,
        balance_micro: i64,
        depleted_at: Timestamp,
        intents: Vec<ReleaseIntent>,
    }
    BalanceCredited {
        billing_account_id: String,
        project_id: ProjectId,
        currency: String,
        balance_micro: i64,
        amount_micro: i64,
        kind: CreditKind,
        provider: Provider,
        provider_ref: String,
        ledger_tx_id: String,
        cancelled_intent_ids: Vec<String>,
        too_late_allocation_ids: Vec<AllocationId>,
    }
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CreditKind {
    Topup,
    Grant,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    Stripe,
    Manual,
}
