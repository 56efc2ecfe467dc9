//! What happens to an allocation. Nothing here names a node: tenants read it.

use super::shapes;
use crate::id::{AllocationId, ProjectId, TaskId};
use crate::signal::Code;
use crate::state::AllocationState;
use crate::task::vm_power::Action;
use crate::time::Timestamp;

shapes! {
    AllocationRequested {
        project_id: ProjectId,
        sku: String,
        /// How many slots it has; none if it is a whole machine.
        slots: u32,
    }
    AllocationMoved {
        project_id: ProjectId,
        from: AllocationState,
        to: AllocationState,
        reason: String,
        /// What went wrong, if something did.
        code: Option<Code>,
        /// On a pretended host.
        simulated: bool,
    }
    AllocationStuck {
        project_id: ProjectId,
        state: AllocationState,
        code: Code,
        /// The step that could not be gone on with.
        at: String,
    }
    AllocationRetried {
        project_id: ProjectId,
    }
    AllocationUnstuck {
        project_id: ProjectId,
        /// Where it was stuck.
        at: String,
    }
    AllocationExtended {
        project_id: ProjectId,
        /// None: it lasts until it is released.
        ends_at: Option<Timestamp>,
    }
    AllocationPower {
        project_id: ProjectId,
        action: Action,
        /// Told to whoever may look at tasks.
        task_id: Option<TaskId>,
    }
    AllocationRepair {
        project_id: ProjectId,
        /// Told to whoever may look at tasks.
        task_id: Option<TaskId>,
    }
    ForceReleaseRequested {
        allocation_id: AllocationId,
        project_id: ProjectId,
        billing_account_id: String,
        intent_id: String,
        generation: u32,
        reason: ForceReason,
        requested_at: Timestamp,
    }
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForceReason {
    BalanceDepleted,
    Delinquent,
    Operator,
}
