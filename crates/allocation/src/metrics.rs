//! Metrics of allocations and of the workflows behind them, in one list.

use base::metrics::{Kind, Metric};

pub const ALLOCATION_MOVES: &str = "gpuaas_allocation_moves_total";
pub const ALLOCATION_ALARMS: &str = "gpuaas_allocation_alarms_total";
pub const WORKFLOW_CLAIMS: &str = "gpuaas_workflow_claims_total";
pub const WORKFLOW_MOVES: &str = "gpuaas_workflow_moves_total";

pub const METRICS: &[Metric] = &[
    Metric {
        name: ALLOCATION_MOVES,
        kind: Kind::Counter,
        help: "Allocations that entered a state, by state.",
    },
    Metric {
        name: ALLOCATION_ALARMS,
        kind: Kind::Counter,
        help: "Allocations that an operator should look at, by code.",
    },
    Metric {
        name: WORKFLOW_CLAIMS,
        kind: Kind::Counter,
        help: "Workflows that this process took up, first or again.",
    },
    Metric {
        name: WORKFLOW_MOVES,
        kind: Kind::Counter,
        help: "Steps of workflows that were journalled, by flow.",
    },
];
