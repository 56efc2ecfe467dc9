//! The handlers, one file per task type, generated from the model's table: a type without a handler, without a table of
//! steps or without a proof does not compile. There is no other code that a task can reach.

mod proof;
mod slice;

use std::path::PathBuf;

use crate::Clock;
use crate::policy::SlicePolicy;
use host::Host;
use model::id::{NodeId, OpId, TaskId};
use model::outcome::Proofs;
use model::signal::Code;
use model::task::{Task, TaskType};
use serde::Serialize;
use serde_json::value::RawValue;
use steps::{Complaints, Context, Fail, Journal, OnFail, Proof, Record, Report, Table, Watch};

/// What a handler may see besides its parameters.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) op_id: OpId,
    pub(crate) task_id: TaskId,
    pub(crate) epoch: u64,
    pub(crate) clock: Clock,
    pub(crate) node_id: NodeId,
    pub(crate) slices: SlicePolicy,
    pub(crate) sources: Sources,
    pub(crate) host: Host,
    pub(crate) state_dir: PathBuf,
    pub(crate) journal_used_pct: u32,
    pub(crate) clock_skew_ms: i64,
}

/// One task type: its steps over one typed context, and what it answers.
pub(crate) trait Handler {
    type Params: Clone;
    type Context: Context;
    type Output: Serialize;
    const TABLE: Table<Self::Context>;

    fn context(params: &Self::Params, around: &Surroundings) -> Self::Context;

    /// From the facts and the journal alone: after a restart there is nothing else.
    fn output(context: &Self::Context, report: &Report) -> Option<Self::Output>;

    /// What it shows of the devices it had, however it ended.
    fn proofs(_: &Self::Context, _: &Report) -> Option<Proofs> {
        None
    }

    /// Tries every fault at every place on a pretend host.
    fn proof() -> Result<Proof, Complaints>;
}

pub(crate) struct Walked {
    pub(crate) report: Report,
    pub(crate) proofs: Option<Proofs>,
    pub(crate) output: Option<Box<RawValue>>,
}

macro_rules! handlers {
    ($($variant:ident $module:ident,)*) => {
        $(mod $module;)*

        /// Runs the task's steps, from the records on if there are any.
        pub(crate) fn walk<J: Journal>(
            task: &Task,
            around: &Surroundings,
            journal: &mut J,
            records: &[Record],
            watch: &mut dyn Watch,
        ) -> Result<Walked, steps::Error<J::Error>> {
            match task {
                $(Task::$variant(params) => {
                    walk_one::<$module::Handler, J>(params, around, journal, records, watch)
                })*
            }
        }

        /// Does it only go forward? Such a task cannot be cancelled.
        pub(crate) fn forward_only(task_type: TaskType) -> bool {
            let on_fail = match task_type {
                $(TaskType::$variant => <$module::Handler as Handler>::TABLE.on_fail,)*
            };
            on_fail == OnFail::Halt
        }

        /// The proof of a task type, for the test that runs them all.
        pub fn proof(task_type: TaskType) -> Result<Proof, Complaints> {
            match task_type {
                $(TaskType::$variant => <$module::Handler as Handler>::proof(),)*
            }
        }
    };
}
model::for_each_task!(handlers);

pub use topology_discover::discover;
pub(crate) use vm_provision::Sources;

fn walk_one<H: Handler, J: Journal>(
    params: &H::Params,
    around: &Surroundings,
    journal: &mut J,
    records: &[Record],
    watch: &mut dyn Watch,
) -> Result<Walked, steps::Error<J::Error>> {
    let mut context = H::context(params, around);
    let report = steps::resume(&H::TABLE, &mut context, journal, records, watch)?;
    let done = report.end == steps::End::Done;
    let output = if done { H::output(&context, &report) } else { None };
    let proofs = H::proofs(&context, &report);
    let output = output
        .map(|output| serde_json::value::to_raw_value(&output))
        .transpose();
    let output = output.map_err(steps::Error::Facts)?;
    Ok(Walked { report, proofs, output })
}

/// A host's error as a step's failure.
fn failed(error: host::Error) -> Fail {
    let code = error.code();
    let mut detail = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        detail = format!("{detail}: {cause}");
        source = cause.source();
    }
    fail(code, detail)
}

fn fail(code: Code, detail: impl Into<String>) -> Fail {
    Fail::new(code.as_str(), detail)
}

/// A machine on which a tenant's VM runs, for tests of what goes on beside tasks.
#[cfg(test)]
pub(crate) mod proof_of_slices {
    use host::pretend::State;

    /// Whose the VM is.
    pub(crate) const ALLOCATION: u128 = 1;

    pub(crate) fn resident(state: &mut State) {
        super::vm_provision::proof::resident(state);
    }
}
