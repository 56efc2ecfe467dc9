//! The list of migrations, in order. To add one: write `migrations/NNNN_name.sql`, idempotent, granting what
//! `gpuaas_app` needs, and add its line here. What was applied somewhere is never edited again: the runner compares
//! digests and refuses.

use super::migrate::Migration;

macro_rules! migrations {
    ($($version:literal = $name:literal),* $(,)?) => {
        pub const MIGRATIONS: &[Migration] = &[$(
            Migration { version: $version, name: $name, sql: include_str!(concat!("../../migrations/", $name, ".sql")) },
        )*];
    };
}

migrations! {
    1 = "0001_base",
    2 = "0002_fleet",
    3 = "0003_retention",
    4 = "0004_identity",
    5 = "0005_trust",
    6 = "0006_condition",
    7 = "0007_scale",
    8 = "0008_slots",
    9 = "0009_topology",
    10 = "0010_slot_tasks",
    11 = "0011_held",
    12 = "0012_guest_telemetry",
    13 = "0013_slot_ways_out",
    14 = "0014_images",
    15 = "0015_tenancy",
    16 = "0016_as_promised",
    17 = "0017_machines",
    18 = "0018_events",
    19 = "0019_sign_in",
    20 = "0020_names",
    21 = "0021_progress",
    22 = "0022_room",
    23 = "0023_node_rows",
    24 = "0024_open_tasks",
    25 = "0025_fewer_task_indexes",
    26 = "0026_numbered_events",
    27 = "0027_fewer_event_indexes",
    28 = "0028_proven_time",
    29 = "0029_project_ends",
    30 = "0030_project_audit",
    31 = "0031_phase_since",
    32 = "0032_retried",
    33 = "0033_dirt_with_the_task",
    34 = "0034_project_audit_index",
    35 = "0035_project_audit_before",
    36 = "0036_project_audit_checked",
}
