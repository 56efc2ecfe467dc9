//! What is shown of a node: a line in a list, a page for one.

use crate::output::column::{Kind, View, col, extra, piped};

pub(crate) const VIEW: View = View {
    columns: &[
        col("id", "id", Kind::Id),
        col("name", "name", Kind::Named),
        col("state", "state", Kind::Text),
        col("for", "state_since", Kind::Since),
        col("mode", "mode", Kind::Text),
        col("seen", "last_seen_at", Kind::Since),
        col("probed", "last_probe_at", Kind::Since),
        col("agent", "versions.agent", Kind::Text),
        piped("simulated", "simulated", Kind::Text),
        extra("cert", "certificate.not_after", Kind::Until),
        extra("reason", "state_reason", Kind::Text),
        extra("hostname", "facts.hostname", Kind::Text),
        extra("provider", "facts.provider", Kind::Text),
        extra("private_ip", "facts.private_ip", Kind::Text),
        extra("board_serial", "hardware.board_serial", Kind::Text),
        extra("dmi_uuid", "hardware.dmi_uuid", Kind::Text),
        extra("epoch", "epoch", Kind::Text),
        extra("executor", "versions.executor", Kind::Text),
        extra("protocol", "versions.protocol", Kind::Text),
        extra("manifest", "manifest_version", Kind::Text),
        extra("task_types", "task_types.type", Kind::Text),
        extra("kernel", "last_probe.kernel_version", Kind::Text),
        extra("memory_free", "last_probe.free_memory_mib", Kind::Mib),
        extra("root_free", "last_probe.root_free_bytes", Kind::Bytes),
        extra("gpus", "last_probe.gpus.model", Kind::Tally),
        extra("clock_skew_ms", "last_probe.clock_skew_ms", Kind::Text),
        extra("sees_api", "self_probe.api.ok", Kind::Text),
        extra("sees_api_why", "self_probe.api.reason", Kind::Text),
        extra("cert_serial", "certificate.serial", Kind::Text),
        extra("waiting", "waiting.reason", Kind::Text),
        extra("waiting_verb", "waiting.verb", Kind::Text),
        extra("age", "created_at", Kind::Since),
        extra("version", "version", Kind::Text),
    ],
    key: "id",
};

pub(crate) const CERTIFICATES: View = View {
    columns: &[
        col("serial", "serial", Kind::Text),
        col("kind", "kind", Kind::Text),
        col("generation", "generation", Kind::Text),
        col("epoch", "epoch", Kind::Text),
        col("expires", "not_after", Kind::Until),
        col("first_used", "first_used_at", Kind::Since),
        col("revoked", "revoked_at", Kind::Since),
        extra("not_before", "not_before", Kind::Since),
    ],
    key: "serial",
};
