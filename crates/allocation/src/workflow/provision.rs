//! From the wish to an allocation that is ready. On the way back nothing is left: the task is stopped, what a node was
//! given is taken away with proof, what was only promised is given back, and only then is it over for the tenant.

use model::signal::Code;
use model::state::{AllocationState, TaskState};

use super::ground::{Ground, Holds, Work};
use super::{Doing, Fail, Step, Why};

pub fn steps<G: Ground>() -> Vec<Step<G>> {
    vec![
        Step {
            name: "accept",
            run: accept,
            undo: end,
        },
        Step {
            name: "make",
            run: make,
            undo: take_back,
        },
        Step {
            name: "activate",
            run: activate,
            undo: deactivate,
        },
    ]
}

fn cancelled() -> Fail {
    Fail::fatal(Code::TaskCancelled, "somebody wants it back")
}

fn accept<'a, G: Ground>(ground: &'a G, why: &'a Why) -> Doing<'a> {
    Box::pin(async move {
        match ground.look().await?.state {
            AllocationState::Requested => {
                ground
                    .enter(AllocationState::Provisioning, "a worker took it up", why)
                    .await
            }
            AllocationState::Provisioning | AllocationState::Active => Ok(()),
            AllocationState::Unwinding
            | AllocationState::Releasing
            | AllocationState::Released
            | AllocationState::Failed
            | AllocationState::Cancelled => Err(cancelled()),
        }
    })
}

/// The last act of the way back. Slots are promised before anything is begun, so what is held is let go of here, too;
/// then the tenant hears the end.
fn end<'a, G: Ground>(ground: &'a G, why: &'a Why) -> Doing<'a> {
    Box::pin(async move {
        let seen = ground.look().await?;
        let reason = why.detail.as_str();
        match seen.state {
            AllocationState::Requested | AllocationState::Provisioning => {
                ground.enter(AllocationState::Unwinding, reason, why).await?;
                Err(Fail::after_ms(0))
            }
            AllocationState::Unwinding => {
                let_go(ground).await?;
                match seen.cancelled {
                    true => {
                        ground
                            .enter(AllocationState::Cancelled, "taken back", &Why::default())
                            .await
                    }
                    false => ground.enter(AllocationState::Failed, reason, why).await,
                }
            }
            AllocationState::Releasing => {
                let_go(ground).await?;
                ground.enter(AllocationState::Released, reason, why).await
            }
            AllocationState::Released | AllocationState::Failed | AllocationState::Cancelled => Ok(()),
            AllocationState::Active => Err(Fail::fatal(
                Code::StateConflict,
                "it is active, and was to be taken back",
            )),
        }
    })
}

fn make<'a, G: Ground>(ground: &'a G, _: &'a Why) -> Doing<'a> {
    Box::pin(async move {
        let seen = ground.look().await?;
        match seen.state {
            AllocationState::Provisioning => {}
            AllocationState::Active => return Ok(()),
            AllocationState::Requested
            | AllocationState::Unwinding
            | AllocationState::Releasing
            | AllocationState::Released
            | AllocationState::Failed
            | AllocationState::Cancelled => return Err(cancelled()),
        }
        let Some(task) = seen.provision else {
            ground.ask(Work::Provision).await?;
            return Err(Fail::after_ms(0));
        };
        match task.state {
            TaskState::Queued | TaskState::Dispatched | TaskState::Started | TaskState::Unknown => {
                Err(Fail::until(task.id))
            }
            TaskState::Succeeded => Ok(()),
            end @ (TaskState::Failed | TaskState::Expired | TaskState::Cancelled) => {
                let code = task.code.unwrap_or(Code::TaskExpired);
                let detail = task.detail.unwrap_or_else(|| format!("the task has {end}"));
                Err(Fail::fatal(code, detail))
            }
        }
    })
}

fn take_back<'a, G: Ground>(ground: &'a G, why: &'a Why) -> Doing<'a> {
    Box::pin(async move {
        let seen = ground.look().await?;
        if matches!(seen.state, AllocationState::Requested | AllocationState::Provisioning) {
            ground.enter(AllocationState::Unwinding, &why.detail, why).await?;
        }
        if let Some(task) = seen.provision.filter(|task| !task.state.is_end()) {
            ground.stop().await?;
            return Err(Fail::until(task.id));
        }
        let_go(ground).await
    })
}

/// Until nothing is held. What is free was wiped with proof or never touched; what could not be is quarantined.
pub(super) async fn let_go<G: Ground>(ground: &G) -> Result<(), Fail> {
    let seen = ground.look().await?;
    // A row of a workflow is no wish: what nobody has given back or taken back is its tenant's, whatever a journal says.
    if !matches!(seen.state, AllocationState::Unwinding | AllocationState::Releasing) && seen.holds != Holds::Nothing {
        let what = format!("it is {}, and nobody has ended it", seen.state);
        return Err(Fail::fatal(Code::StateConflict, what));
    }
    match (seen.holds, seen.release) {
        (Holds::Nothing, _) => Ok(()),
        (Holds::Promised, _) => {
            ground.give_back().await?;
            Err(Fail::after_ms(0))
        }
        (Holds::Given, Some(task)) if !task.state.is_end() => Err(Fail::until(task.id)),
        (Holds::Given, _) => {
            ground.ask(Work::Release).await?;
            Err(Fail::after_ms(0))
        }
    }
}

fn activate<'a, G: Ground>(ground: &'a G, why: &'a Why) -> Doing<'a> {
    Box::pin(async move {
        let seen = ground.look().await?;
        let made = seen.provision.is_some_and(|task| task.state == TaskState::Succeeded);
        match seen.state {
            // The journal alone makes nothing ready.
            AllocationState::Provisioning if !made => {
                Err(Fail::fatal(Code::StateConflict, "no node has signed that it is there"))
            }
            // Somebody may take it back at this very moment: only a look tells that it is active.
            AllocationState::Provisioning => {
                ground.enter(AllocationState::Active, "ready", why).await?;
                Err(Fail::after_ms(0))
            }
            // It was active: whoever gives it back before we see that has a workflow for it, and there is nothing to undo.
            AllocationState::Active | AllocationState::Releasing | AllocationState::Released => Ok(()),
            AllocationState::Requested
            | AllocationState::Unwinding
            | AllocationState::Failed
            | AllocationState::Cancelled => Err(cancelled()),
        }
    })
}

fn deactivate<'a, G: Ground>(ground: &'a G, why: &'a Why) -> Doing<'a> {
    Box::pin(async move {
        match ground.look().await?.state {
            AllocationState::Active => ground.enter(AllocationState::Releasing, &why.detail, why).await,
            AllocationState::Requested
            | AllocationState::Provisioning
            | AllocationState::Unwinding
            | AllocationState::Releasing
            | AllocationState::Released
            | AllocationState::Failed
            | AllocationState::Cancelled => Ok(()),
        }
    })
}
