//! What happens to projects and to what can be rented.

use super::shapes;
use crate::api::QuotaLimit;
use crate::id::UserId;
use crate::state::ProjectRole;
use crate::value::FileName;

shapes! {
    ProjectCreated {
        name: String,
    }
    ProjectDeleted {
        name: String,
    }
    MemberChanged {
        user_id: UserId,
        /// None: they are no longer in it.
        role: Option<ProjectRole>,
    }
    /// What is left out stays as it is.
    QuotaChanged {
        slots: Option<u32>,
        slots_per_sku: Option<u32>,
        allocations: Option<u32>,
        terminals: Option<u32>,
        max_ttl_hours: Option<u32>,
        spend_per_day_micro: Option<u64>,
        /// Back to what a new project has.
        reset: Option<Vec<QuotaLimit>>,
    }
    SkuCreated {
        name: String,
    }
    /// What is left out stays as it is.
    SkuChanged {
        visible: Option<bool>,
        images: Option<Vec<FileName>>,
    }
    SkuPriced {
        price_micro_per_hour: i64,
    }
}
