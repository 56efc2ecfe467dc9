//! A verb that does not fit the state: the answer says which state that is, and what does fit.

use base::http::{Answer, ApiError};
use model::signal::Code;
use model::state::AllocationState;

use super::store::AllocationRow;
use super::view;

pub(super) fn refused(row: &AllocationRow, what: impl Into<String>) -> ApiError {
    let error = ApiError::new(Code::StateConflict)
        .message(what)
        .detail("state", row.state.as_str());
    match hint(row) {
        Ok(hint) => error.hint(hint),
        Err(broken) => broken,
    }
}

fn hint(row: &AllocationRow) -> Answer<String> {
    let short = row.id().short();
    let state = row.state()?;
    Ok(match state {
        AllocationState::Requested | AllocationState::Provisioning => {
            format!("`gpuaas allocation watch {short}` until it is active, or `gpuaas allocation cancel {short}`")
        }
        AllocationState::Active => {
            let verbs = view::verbs(state, row.kind()?, row.stuck_since.is_some());
            format!(
                "what works now is {}: `gpuaas allocation VERB {short}`",
                verbs.join(", ")
            )
        }
        AllocationState::Unwinding | AllocationState::Releasing => {
            format!("it is on its way out: `gpuaas allocation watch {short}`")
        }
        AllocationState::Released => "it was given back; `gpuaas allocation create` makes a new one".to_owned(),
        AllocationState::Failed | AllocationState::Cancelled => {
            format!("`gpuaas allocation again {short}` makes a new one like it")
        }
    })
}
