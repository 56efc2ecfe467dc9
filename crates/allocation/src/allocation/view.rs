//! An allocation as people see it: where it is, since when and why; what wants somebody's eye, whose, and what to type.

use base::http::{Answer, ApiError};
use fleet::Fleet;
use fleet::task::{TaskRow, store as tasks};
use model::api::{
    AllocationPhases, AllocationView, AskedView, ConditionCode, ConditionView, PhaseView, SkuKind, TransitionView,
};
use model::signal::Code;
use model::state::{AllocationState, NodeState, TaskState};
use model::task::TaskType;
use model::task::vm_power::Power;
use model::time::Timestamp;
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use super::store::{self, AllocationRow, TransitionRow, op};
use crate::workflow::Flow;

/// Its end is near in its last hour, and if it lasts less than four, in its last quarter.
const EXPIRING_MS: i64 = 3_600_000;
const EXPIRING_SHARE: i64 = 4;

fn expiring_since(created: Timestamp, ends: Timestamp) -> Timestamp {
    let near_ms = (ends.since_ms(created) / EXPIRING_SHARE).min(EXPIRING_MS);
    ends.plus_ms(-near_ms)
}

/// The tasks that make it and take it away, oldest first.
pub(super) async fn work_of(fleet: &Fleet, row: &AllocationRow) -> Answer<Vec<TaskRow>> {
    let ops: Vec<Uuid> = store::work_of(row.kind()?)
        .iter()
        .map(|task| op(row.id(), *task).uuid())
        .collect();
    Ok(tasks::of_ops(fleet.app.db.bookkeeping(), &ops).await?)
}

/// With its phases, for whoever looks at one.
pub(super) async fn whole(fleet: &Fleet, row: AllocationRow) -> Answer<AllocationView> {
    let tasks = work_of(fleet, &row).await?;
    // The end of what was asked is a change that the row gets to know of later, as its next version.
    let answered = row.asked.as_ref().and_then(|Json(asked)| asked.state.parse().ok());
    let answered = i64::from(answered.is_some_and(TaskState::is_end));
    let revision = row.version + answered + tasks.iter().map(|task| task.version).sum::<i64>();
    let wiped = match row.state()? {
        AllocationState::Released => store::wiped(fleet.app.db.bookkeeping(), row.id()).await?,
        _ => Vec::new(),
    };
    let retried = row.retried_at.map(Timestamp::from);
    let mut view = brief(fleet.app.clock.now(), row)?;
    view.revision = revision;
    view.phases = phases_of(tasks.last(), retried)?;
    view.wiped = wiped.into_iter().map(|row| row.view()).collect();
    Ok(view)
}

/// What somebody wanted of it last, if it is there and that is not written down as done.
fn asked(row: &AllocationRow, state: AllocationState) -> Answer<Option<AskedView>> {
    let (Some(task), Some(Json(asked)), AllocationState::Active) = (row.power_task, &row.asked, state) else {
        return Ok(None);
    };
    Ok(Some(AskedView {
        task_id: task.into(),
        state: asked.state.parse().map_err(ApiError::internal)?,
        since: Timestamp::from_millis(asked.since_ms),
        code: code(asked.code.as_deref()),
        detail: asked.detail.clone(),
    }))
}

/// The phases of a task. One that was late when somebody wanted it tried again has its time from then on.
fn phases_of(task: Option<&TaskRow>, retried: Option<Timestamp>) -> Answer<Vec<PhaseView>> {
    let Some(task) = task else {
        return Ok(Vec::new());
    };
    let mut phases = fleet::task::view(task.clone())?.phases;
    for phase in &mut phases {
        if let (Some(deadline), Some(within_s), Some(retried)) = (&mut phase.deadline_at, phase.within_s, retried) {
            *deadline = retried.plus_s(i64::from(within_s)).max(*deadline);
        }
    }
    Ok(phases)
}

pub(super) async fn phases(fleet: &Fleet, row: &AllocationRow) -> Answer<AllocationPhases> {
    let tasks = work_of(fleet, row).await?;
    let [makes, takes_away] = store::work_of(row.kind()?);
    let retried = row.retried_at.map(Timestamp::from);
    let last = |wanted: TaskType| tasks.iter().rev().find(|task| task.task_type == wanted.as_str());
    Ok(AllocationPhases {
        allocation_id: row.id(),
        provision: phases_of(last(makes), retried)?,
        release: phases_of(last(takes_away), retried)?,
    })
}

/// Without them, for lists.
pub(super) fn brief(now: Timestamp, row: AllocationRow) -> Answer<AllocationView> {
    let state = row.state()?;
    let flow = match state {
        AllocationState::Releasing | AllocationState::Released => Flow::Release,
        _ => Flow::Provision,
    };
    Ok(AllocationView {
        conditions: conditions(&row, now),
        verbs: verbs(state, row.kind()?, row.stuck_since.is_some()),
        id: row.id(),
        project_id: row.project(),
        kind: row.kind()?,
        sku_id: row.sku_id.into(),
        sku_version: row.sku_version.into(),
        rate_micro_per_hour: row.rate_micro_per_hour.unsigned_abs(),
        creator_id: row.creator(),
        state,
        state_since: row.state_since.into(),
        deadline_at: row.deadline_at.map(Into::into),
        ends_at: row.ends_at.map(Into::into),
        forced: row.forced,
        code: code(row.code.as_deref()),
        power: power(&row, state),
        asked: asked(&row, state)?,
        private_ip: row.private_ip.as_deref().and_then(|ip| ip.parse().ok()),
        slot_ids: row.slot_ids.iter().map(|id| (*id).into()).collect(),
        simulated: row.simulated,
        operation_id: Some(row.workflow(flow.name())),
        phases: Vec::new(),
        wiped: Vec::new(),
        correlation_id: row.correlation_id.to_string(),
        created_at: row.created_at.into(),
        ended_at: row.ended_at.map(Into::into),
        version: row.version,
        revision: row.version,
        name: row.name,
        sku: row.sku_name,
        currency: row.currency,
        creator: row.creator_name,
        state_reason: row.state_reason,
        detail: row.detail,
        default_username: row.default_username,
        node_name: row.node_name,
    })
}

/// As its node has signed it last: a switch that has landed counts before anybody has written it down. What is being made or
/// taken away has none.
fn power(row: &AllocationRow, state: AllocationState) -> Option<Power> {
    let word = match state {
        AllocationState::Active if row.is_switched() => row.power_wanted.as_deref(),
        AllocationState::Active => row.power.as_deref(),
        AllocationState::Requested
        | AllocationState::Provisioning
        | AllocationState::Unwinding
        | AllocationState::Releasing
        | AllocationState::Released
        | AllocationState::Failed
        | AllocationState::Cancelled => None,
    };
    word.map(|word| if word == "off" { Power::Off } else { Power::Running })
}

/// A machine has no VM to switch, a slice no account of ours.
pub(super) fn verbs(state: AllocationState, kind: SkuKind, stuck: bool) -> Vec<String> {
    let fits = |verb: &&str| match *verb {
        "reboot" | "stop" | "start" => kind == SkuKind::Slice,
        "repair" => kind == SkuKind::Machine,
        _ => true,
    };
    let verbs = state.verbs().iter().copied().filter(fits);
    verbs.chain(stuck.then_some("retry")).map(str::to_owned).collect()
}

fn code(word: Option<&str>) -> Option<Code> {
    word.and_then(|word| word.parse().ok())
}

fn conditions(row: &AllocationRow, now: Timestamp) -> Vec<ConditionView> {
    if row.ended_at.is_some() {
        return Vec::new();
    }
    let short = row.id().short();
    let condition = |code, since: OffsetDateTime, detail: Option<String>, owner: &str, verb: String| ConditionView {
        code,
        since: since.into(),
        detail,
        owner: owner.to_owned(),
        verb,
    };
    let mut all = Vec::new();
    if let Some(since) = row.stuck_since {
        let step = row.stuck_at.as_deref().unwrap_or_default();
        let detail = row.stuck_code.as_ref().map(|code| format!("{code} at {step}"));
        all.push(condition(
            ConditionCode::Stuck,
            since,
            detail,
            "operator",
            format!("gpuaas allocation retry {short}"),
        ));
    }
    if let Some(since) = row.waiting_since {
        // What is on its way back can only be taken away by force.
        let back = [AllocationState::Unwinding, AllocationState::Releasing].map(AllocationState::as_str);
        let (owner, verb) = match back.contains(&row.state.as_str()) {
            true => (
                "operator",
                format!("gpuaas allocation force-release {short} --reason WHY"),
            ),
            false => ("tenant", format!("gpuaas allocation cancel {short}")),
        };
        let code = row.waiting_code.clone();
        all.push(condition(ConditionCode::WaitingForNode, since, code, owner, verb));
    }
    if row.node_state == NodeState::Stale.as_str() {
        let verb = format!("gpuaas node show {}", row.node_name);
        all.push(condition(
            ConditionCode::Unreachable,
            row.node_state_since,
            None,
            "operator",
            verb,
        ));
    }
    if let Some(ends) = row.ends_at.map(Timestamp::from) {
        let since = expiring_since(row.created_at.into(), ends);
        if since <= now {
            let verb = format!("gpuaas allocation extend {short} --ttl 4h");
            let detail = Some(format!("released at {ends}"));
            all.push(condition(ConditionCode::Expiring, since.into(), detail, "tenant", verb));
        }
    }
    all
}

pub(super) fn transition(row: TransitionRow) -> Answer<TransitionView> {
    let state = |word: &str| word.parse().map_err(ApiError::internal);
    Ok(TransitionView {
        from: row.from_state.as_deref().map(state).transpose()?,
        to: state(&row.to_state)?,
        at: row.at.into(),
        reason: row.reason,
        actor: row.actor,
        code: code(row.code.as_deref()),
        correlation_id: row.correlation_id.to_string(),
        switch: None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::allocation::moves::deadline_s;

    #[test]
    fn an_end_is_near_in_the_last_hour_or_the_last_quarter() {
        let (created, s) = (Timestamp::from_millis(0), 1000);
        for (lasts_s, near_s) in [(60, 15), (1800, 450), (4 * 3600, 3600), (30 * 86_400, 3600)] {
            let ends = created.plus_ms(lasts_s * s);
            assert_eq!(ends.since_ms(expiring_since(created, ends)), near_s * s, "{lasts_s}");
        }
    }

    /// Only the wipe of a disk takes a day: whoever waits for an account hears within hours that it is stuck.
    #[test]
    fn a_deadline_is_that_of_the_task_that_is_waited_for() {
        use AllocationState::{Provisioning, Releasing, Unwinding};
        let hours = |state, kind, given| deadline_s(state, kind, given).expect("a deadline") / 3600;
        for (state, slice, machine) in [(Provisioning, 3, 0), (Unwinding, 24, 1), (Releasing, 24, 1)] {
            assert_eq!(hours(state, SkuKind::Slice, true), slice, "{state}");
            assert_eq!(hours(state, SkuKind::Machine, true), machine, "{state}");
        }
        assert_eq!(hours(Unwinding, SkuKind::Slice, false), 0, "no disk was touched");
    }

    #[test]
    fn no_state_is_without_a_deadline_and_a_way_out() {
        let routes = crate::allocation::routes::routes().infos();
        let verbs: BTreeSet<&str> = routes
            .iter()
            .filter_map(|route| route.path.strip_prefix("/v1/allocations/{id}/"))
            .filter(|verb| !["phases", "transitions", "events"].contains(verb))
            .collect();
        let mut offered = BTreeSet::from(["retry"]);
        for state in AllocationState::ALL {
            offered.extend(state.verbs());
            if state.is_end() {
                assert_eq!(deadline_s(*state, SkuKind::Slice, true), None, "{state}");
                continue;
            }
            // An active one lasts as long as its tenant wants; everything else is on its way.
            assert_eq!(
                deadline_s(*state, SkuKind::Slice, true).is_none(),
                *state == AllocationState::Active,
                "{state}"
            );
            for way_out in ["release", "force-release"] {
                assert!(state.verbs().contains(&way_out), "{state} has no {way_out}");
            }
        }
        assert_eq!(
            offered, verbs,
            "every verb is a route, and every route is offered somewhere"
        );
    }
}
