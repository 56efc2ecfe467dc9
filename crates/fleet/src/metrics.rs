//! The fleet's metrics, in one list.

use base::metrics::{Kind, Metric};

pub const TASKS_ENQUEUED: &str = "gpuaas_task_enqueued_total";
pub const TASKS_ENDED: &str = "gpuaas_task_ended_total";
pub const NODES_HELD: &str = "gpuaas_node_waits_held";
pub const IDENTITY_AGE: &str = "gpuaas_identity_table_age_seconds";
pub const IDENTITY_REFUSED: &str = "gpuaas_identity_refused_total";
pub const CONNECTIONS_CUT: &str = "gpuaas_identity_connections_cut_total";
pub const MANIFEST_LEFT: &str = "gpuaas_trust_manifest_left_seconds";
pub const DELEGATION_LEFT: &str = "gpuaas_trust_delegation_left_seconds";
pub const SILENCE_SUSPENDED: &str = "gpuaas_fleet_silence_suspended_total";
pub const ALARMS: &str = "gpuaas_fleet_alarms_total";

pub const METRICS: &[Metric] = &[
    Metric {
        name: TASKS_ENQUEUED,
        kind: Kind::Counter,
        help: "Tasks signed and queued, by type.",
    },
    Metric {
        name: TASKS_ENDED,
        kind: Kind::Counter,
        help: "Tasks that ended, by type and state.",
    },
    Metric {
        name: NODES_HELD,
        kind: Kind::Gauge,
        help: "Long-polls that this process holds.",
    },
    Metric {
        name: IDENTITY_AGE,
        kind: Kind::Gauge,
        help: "Age of the identity table; node-facing listeners close when it is too old.",
    },
    Metric {
        name: IDENTITY_REFUSED,
        kind: Kind::Counter,
        help: "Certificates refused, by code.",
    },
    Metric {
        name: CONNECTIONS_CUT,
        kind: Kind::Counter,
        help: "Connections ended because their certificate was over.",
    },
    Metric {
        name: MANIFEST_LEFT,
        kind: Kind::Gauge,
        help: "How long the signing-key manifest is still valid; then nothing that acts is signed.",
    },
    Metric {
        name: DELEGATION_LEFT,
        kind: Kind::Gauge,
        help: "How long the roots' delegation is still valid; then nothing that acts is signed.",
    },
    Metric {
        name: SILENCE_SUSPENDED,
        kind: Kind::Counter,
        help: "Looks for silent nodes at which another process stood still, so that their silence meant nothing yet.",
    },
    Metric {
        name: ALARMS,
        kind: Kind::Counter,
        help: "Things that an operator should look at, by code.",
    },
];
