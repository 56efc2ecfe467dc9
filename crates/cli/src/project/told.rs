//! What a change of a project is told as.

use serde_json::Value;

use crate::output::{Done, money, text};

/// `demo may have at once: 8 slots (2 used), …`; what is not limited is not said.
pub(super) fn may_have(project: &str, quota: &Value) -> Done {
    let number = |place: &str| quota.get(place).and_then(Value::as_u64);
    let of = |place: &str, words: &str| {
        let used = number(&format!("{place}_used")).map(|used| format!(" ({used} used)"));
        number(place).map(|most| format!("{most} {words}{}", used.unwrap_or_default()))
    };
    let all = [
        of("slots", "slots"),
        of("allocations", "allocations"),
        of("slots_per_sku", "slots of one SKU"),
        of("terminals", "terminals"),
        of("max_ttl_hours", "hours for each allocation"),
    ];
    let spend = number("spend_per_day_micro").map(|micro| format!("{} a day", money::amount(micro)));
    let all: Vec<String> = all.into_iter().chain([spend]).flatten().collect();
    Done::of(format!("{} may have at once: {}", text::plain(project), all.join(", ")))
}
