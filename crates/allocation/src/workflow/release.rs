//! From the acceptance of a release to its proof. Forward only: a release that cannot go on waits, is seen to wait, and is
//! tried again; it never gives anything back to the tenant.

use model::signal::Code;
use model::state::AllocationState;

use super::ground::Ground;
use super::provision::let_go;
use super::{Doing, Fail, Step, Why, nothing};

pub fn steps<G: Ground>() -> Vec<Step<G>> {
    vec![
        Step {
            name: "take_away",
            run: take_away,
            undo: nothing,
        },
        Step {
            name: "close",
            run: close,
            undo: nothing,
        },
    ]
}

fn take_away<'a, G: Ground>(ground: &'a G, _: &'a Why) -> Doing<'a> {
    Box::pin(let_go(ground))
}

fn close<'a, G: Ground>(ground: &'a G, why: &'a Why) -> Doing<'a> {
    Box::pin(async move {
        match ground.look().await?.state {
            AllocationState::Releasing => {
                ground
                    .enter(AllocationState::Released, "nothing is held any more", why)
                    .await
            }
            AllocationState::Released => Ok(()),
            state @ (AllocationState::Requested
            | AllocationState::Provisioning
            | AllocationState::Unwinding
            | AllocationState::Active
            | AllocationState::Failed
            | AllocationState::Cancelled) => Err(Fail::fatal(
                Code::StateConflict,
                format!("it is {state}, and was to be released"),
            )),
        }
    })
}
