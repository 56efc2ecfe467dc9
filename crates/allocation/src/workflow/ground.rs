//! What the steps stand on: one look and five acts, each of them one transaction. The platform is one ground; a proof
//! stands on another, in memory, with a fault at every call.

use std::future::Future;

use model::id::TaskId;
use model::signal::Code;
use model::state::{AllocationState, TaskState};

use super::{Fail, Why};

/// What a task of the allocation is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSeen {
    pub id: TaskId,
    pub state: TaskState,
    pub code: Option<Code>,
    pub detail: Option<String>,
}

/// What the allocation has of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    Nothing,
    /// Promised, and no node was given a task about it.
    Promised,
    /// Something of the tenant may be there.
    Given,
}

/// An allocation at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub state: AllocationState,
    pub cancelled: bool,
    /// The latest task that makes it, and the latest that takes it away.
    pub provision: Option<TaskSeen>,
    pub release: Option<TaskSeen>,
    pub holds: Holds,
}

/// What a node can be asked for an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Provision,
    Release,
}

type Done<T> = Result<T, Fail>;

pub trait Ground: Send + Sync + 'static {
    fn look(&self) -> impl Future<Output = Done<Seen>> + Send;

    /// Moves the allocation, unless it is there already. From elsewhere it is looked at again.
    fn enter(&self, to: AllocationState, reason: &str, why: &Why) -> impl Future<Output = Done<()>> + Send;

    /// Asks the node; what was asked already and is under way is not asked again.
    fn ask(&self, work: Work) -> impl Future<Output = Done<()>> + Send;

    /// Stops the making, if that is under way.
    fn stop(&self) -> impl Future<Output = Done<()>> + Send;

    /// Gives back what was only promised.
    fn give_back(&self) -> impl Future<Output = Done<()>> + Send;
}
