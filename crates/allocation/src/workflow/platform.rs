//! The ground that real workflows stand on: the database and the queue of signed tasks. Each act is one transaction, made
//! under the allocation's lock; tasks are signed only under the intent that was stored with the wish.

use base::http::{Answer, ApiError};
use base::{Actor, Change};
use fleet::intent;
use fleet::machine;
use fleet::slot::lease;
use fleet::task::{Ask, Cover, enqueue, store as tasks};
use model::digest::Sha256;
use model::id::{AllocationId, OpId};
use model::intent::Wish;
use model::node_api::TaskRequest;
use model::signal::Code;
use model::state::{AllocationState, TaskState};
use model::task::{Task, TaskType, deprovision_user, provision_user, vm_provision, vm_release};
use model::value::Nonce;
use uuid::Uuid;

use super::ground::{Ground, Seen, Work};
use super::look::look;
use super::{Fail, Why};
use crate::allocation::later;
use crate::allocation::moves::{self, Because};
use crate::allocation::store::{self, AllocationRow, op};
use crate::worker::{Desk, Worker};

/// How long an allocation waits for a node that is not ready or has no room.
const NODE_PATIENCE_MS: i64 = 600_000;
/// Between two tries at a node that does not take anything.
const PAUSE_MS: i64 = 2_000;
/// What two clocks that are right may differ by.
const APART_MS: i64 = 5_000;

#[derive(Clone)]
pub struct Platform {
    worker: Worker,
    id: AllocationId,
}

/// What went wrong on our side is tried again: the deadline is what ends it, and a person sees why.
fn passing(error: ApiError) -> Fail {
    tracing::warn!(code = %error.code, message = %error.message, "a step of a workflow is tried again");
    Fail::after_ms(PAUSE_MS)
}

impl Platform {
    pub fn new(worker: Worker, id: AllocationId) -> Self {
        Self { worker, id }
    }

    /// A change with the allocation locked, in the name of the request that is behind it.
    async fn change(&self, action: &'static str, may_end: bool) -> Answer<(Change, AllocationRow)> {
        let actor = Actor::system("provisioning-worker");
        let mut change = self.worker.app.db.change(&actor, action, self.id).await?;
        let row = match may_end {
            true => store::lock_to_end(&mut change, self.id).await?,
            false => store::lock(&mut change, self.id).await?,
        };
        change.belongs_to(row.correlation_id);
        Ok((change, row))
    }

    async fn moved(&self, to: AllocationState, reason: &str, why: &Why) -> Answer<()> {
        let (mut change, mut row) = self.change("allocation.move", to.is_end()).await?;
        if !row.state()?.leads_to().contains(&to) {
            return Ok(()); // there already, or somewhere that has to be looked at again
        }
        if to == AllocationState::Active && self.evidence(&mut change).await? {
            row.version += 1;
        }
        let because = Because {
            reason: if reason.is_empty() { to.as_str() } else { reason },
            code: why.code,
            detail: Some(why.detail.as_str()).filter(|detail| !detail.is_empty()),
        };
        if to == AllocationState::Unwinding {
            intent::withdraw(&mut change, self.id).await?;
        }
        moves::enter(&mut change, &row, to, &because).await?;
        Ok(change.commit().await?)
    }

    /// How to reach it, from what the node has signed. Whether there was anything to write down.
    async fn evidence(&self, change: &mut Change) -> Answer<bool> {
        let tasks = tasks::of_ops(change.conn(), &[op(self.id, TaskType::VmProvision).uuid()]).await?;
        let output = tasks.last().and_then(|task| task.output.clone());
        let output: Option<vm_provision::Output> = output.and_then(|json| serde_json::from_value(json).ok());
        let Some(output) = output else { return Ok(false) };
        sqlx::query(
            "update allocation set private_ip = $2, default_username = $3, power = 'running', version = version + 1 where id = $1",
        )
        .bind(self.id.uuid())
        .bind(output.private_ip.to_string())
        .bind(output.default_user.as_str())
        .execute(change.conn())
        .await?;
        Ok(true)
    }

    async fn asked(&self, work: Work) -> Answer<()> {
        let (mut change, row) = self.change("allocation.ask", false).await?;
        if work == Work::Provision && row.state()? != AllocationState::Provisioning {
            return Ok(());
        }
        let task = task_of(self.id, work, store::wish(&mut change, &row).await?)?;
        // An account that is being made once more would be there again after its absence was proved.
        if task.task_type() == TaskType::DeprovisionUser && later::under_way(&mut change, &row).await?.is_some() {
            return Err(ApiError::new(Code::StateConflict).message("what was asked for before has not ended"));
        }
        // What was refused before may be refused again: it waits until its node has begun.
        let again = work == Work::Release && not_at_once(&mut change, row.op(task.task_type())).await?;
        let begins = task.task_type() == TaskType::ProvisionUser
            && machine::begin(&mut change, self.id, row.node(), row.op(TaskType::ProvisionUser)).await?;
        let cover = Cover::Intent {
            sha256: row.intent()?,
            op: row.op(task.task_type()),
        };
        let ask = Ask {
            node: row.node(),
            task,
            cover,
        };
        match &self.worker.desk {
            Desk::Here(fleet) => {
                enqueue(fleet, &mut change, &ask).await?;
                if !again {
                    moves::waits_no_more(&mut change, &row).await?;
                }
                Ok(change.commit().await?)
            }
            Desk::Api(api) => {
                // What is begun is found again if nobody answers: without its task it counts as promised only. It is
                // written once, and not at every try while the api is away.
                match begins {
                    true => change.commit().await?,
                    false => change.rollback().await?,
                }
                api.ask(
                    &asked_for(&ask, row.intent()?, row.op(ask.task.task_type())),
                    row.correlation_id,
                )
                .await?;
                if row.waiting_since.is_some() && !again {
                    self.goes_on().await?;
                }
                Ok(())
            }
        }
    }

    /// What it waited for is there.
    async fn goes_on(&self) -> Answer<()> {
        let (mut change, row) = self.change("allocation.ask", false).await?;
        moves::waits_no_more(&mut change, &row).await?;
        Ok(change.commit().await?)
    }

    /// The node does not take it now: said once, and tried again until patience ends.
    async fn refused(&self, work: Work, error: ApiError) -> Answer<Fail> {
        let for_good = matches!(
            error.code,
            Code::IntentMissing
                | Code::IntentInvalid
                | Code::IntentWithdrawn
                | Code::SlotDevicesChanged
                | Code::ModeConflict
                | Code::StateConflict
                | Code::NotFound
        );
        if work == Work::Provision && for_good {
            return Ok(Fail::fatal(error.code, error.message));
        }
        let (mut change, row) = self.change("allocation.wait", false).await?;
        // By the earlier of our clock and the database's: whoever's own is ahead gives nobody up.
        let waited_ms: i64 = sqlx::query_scalar("select (extract(epoch from least($1, now()) - $2) * 1000)::bigint")
            .bind(time::OffsetDateTime::from(change.at()))
            .bind(row.state_since)
            .fetch_one(change.conn())
            .await?;
        if work == Work::Provision && waited_ms > NODE_PATIENCE_MS {
            return Ok(Fail::fatal(Code::AllocationTimedOut, error.message));
        }
        if row.waiting_code.as_deref() != Some(error.code.as_str()) {
            moves::waits(&mut change, self.id, error.code).await?;
            change.commit().await?;
        }
        Ok(Fail::after_ms(PAUSE_MS))
    }

    async fn stopped(&self) -> Answer<()> {
        let (mut change, _) = self.change("task.cancel", false).await?;
        let ops: Vec<Uuid> = store::MAKES.iter().map(|makes| op(self.id, *makes).uuid()).collect();
        let tasks = tasks::of_ops(change.conn(), &ops).await?;
        for task in tasks.iter().filter(|task| task.ended_at.is_none()) {
            let task = tasks::lock(&mut change, task.id()).await?.ok_or(Code::NotFound)?;
            if !task.state()?.is_end() && task.cancel_at.is_none() {
                fleet::task::cancel(&mut change, &task).await?;
            }
        }
        Ok(change.commit().await?)
    }

    async fn given_back(&self) -> Answer<()> {
        let (mut change, _) = self.change("allocation.give_back", false).await?;
        lease::unreserve(&mut change, self.id).await?;
        machine::unreserve(&mut change, self.id).await?;
        Ok(change.commit().await?)
    }
}

fn asked_for(ask: &Ask, intent_sha256: Sha256, op_id: OpId) -> TaskRequest {
    let spec = ask.task.task_type().spec();
    TaskRequest {
        op_id,
        intent_sha256,
        node_id: ask.node,
        task_type: spec.name.to_owned(),
        type_version: spec.version,
        params: ask.task.params(),
    }
}

/// A host that refused to take something away is asked again, but not in the same moment for ever. False if this is the
/// first time.
async fn not_at_once(change: &mut Change, op: OpId) -> Answer<bool> {
    let before = tasks::of_ops(change.conn(), &[op.uuid()]).await?;
    let Some(last) = before.last().filter(|last| last.state != TaskState::Succeeded.as_str()) else {
        return Ok(false);
    };
    let pause_ms = PAUSE_MS << before.len().min(5);
    let since_ms = last.ended_at.map(|ended| change.at().since_ms(ended.into()));
    // What ended in the future was told by a clock that was wrong: nobody waits until then.
    if since_ms.is_some_and(|since_ms| (-APART_MS..pause_ms).contains(&since_ms)) {
        let code = last.code.as_deref().and_then(|code| code.parse().ok());
        let why = last
            .detail
            .clone()
            .unwrap_or_else(|| format!("its release has {}", last.state));
        return Err(ApiError::new(code.unwrap_or(Code::TaskExpired)).message(why));
    }
    Ok(true)
}

fn task_of(id: AllocationId, work: Work, wish: Wish) -> Answer<Task> {
    Ok(match (work, wish) {
        (Work::Provision, Wish::Slice { params, .. }) => Task::VmProvision(*params),
        (Work::Release, Wish::Slice { params, .. }) => Task::VmRelease(vm_release::Params {
            allocation_id: id,
            vm_name: params.vm_name,
            slots: params.slots,
            graceful_timeout_seconds: params.graceful_timeout_seconds,
            wipe: true,
            release_nonce: Nonce::fresh(),
        }),
        (
            Work::Provision,
            Wish::Machine {
                username,
                uid,
                ssh_public_keys,
                gpu_access,
                ..
            },
        ) => Task::ProvisionUser(provision_user::Params {
            allocation_id: id,
            username,
            uid,
            ssh_public_keys,
            gpu_access,
        }),
        (Work::Release, Wish::Machine { username, uid, .. }) => Task::DeprovisionUser(deprovision_user::Params {
            allocation_id: id,
            username,
            uid,
            remove_home: true,
        }),
        (Work::Provision | Work::Release, Wish::Wipe { .. } | Wish::Power { .. }) => {
            return Err(Code::IntentInvalid.into());
        }
    })
}

impl Ground for Platform {
    async fn look(&self) -> Result<Seen, Fail> {
        let (seen, waits) = look(self.worker.app.db.bookkeeping(), self.id).await.map_err(passing)?;
        let begun = seen.release.as_ref().map(|task| task.state) == Some(TaskState::Started);
        if waits && begun {
            self.goes_on().await.map_err(passing)?;
        }
        Ok(seen)
    }

    async fn enter(&self, to: AllocationState, reason: &str, why: &Why) -> Result<(), Fail> {
        self.moved(to, reason, why).await.map_err(passing)
    }

    async fn ask(&self, work: Work) -> Result<(), Fail> {
        match self.asked(work).await {
            Ok(()) => Ok(()),
            Err(error) if matches!(error.code, Code::DatabaseUnavailable | Code::ServerUnreachable) => {
                Err(passing(error))
            }
            Err(error) => Err(self.refused(work, error).await.unwrap_or_else(passing)),
        }
    }

    async fn stop(&self) -> Result<(), Fail> {
        self.stopped().await.map_err(passing)
    }

    async fn give_back(&self) -> Result<(), Fail> {
        self.given_back().await.map_err(passing)
    }
}
