//! When an allocation that is followed has ended: by the event that says so, or, where that was told before anybody
//! listened, by looking.

use model::state::AllocationState;
use serde_json::Value;

use crate::client::Client;
use crate::failure::Failure;
use crate::output::text;

/// By its path in the API.
pub(crate) struct Allocation<'a>(pub(crate) &'a str);

impl Allocation<'_> {
    /// A word about its end, if there was one.
    pub(super) async fn ended(&self, client: &Client) -> Result<Option<String>, Failure> {
        let seen = client.get(self.0).await?;
        let word = |place: &str| seen.get(place).and_then(Value::as_str).unwrap_or_default();
        let state: Option<AllocationState> = word("state").parse().ok();
        let over = state.filter(|state| state.is_end());
        Ok(over.map(|state| {
            format!(
                "{} is {state}: nothing more happens to it",
                text::short_id(&text::plain(word("id")))
            )
        }))
    }

    /// Is this the event after which no other comes?
    pub(super) fn ends_with(&self, event: &str) -> bool {
        let state = event.strip_prefix("provisioning.");
        state.is_some_and(|word| word.parse().is_ok_and(AllocationState::is_end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_move_is_the_end() {
        let ends = |event| Allocation("").ends_with(event);
        for event in ["provisioning.released", "provisioning.failed", "provisioning.cancelled"] {
            assert!(ends(event) && model::event::find(event).is_some(), "{event}");
        }
        for event in [
            "provisioning.releasing",
            "provisioning.active",
            "released",
            "provisioning.",
            "end",
        ] {
            assert!(!ends(event), "{event}");
        }
    }
}
