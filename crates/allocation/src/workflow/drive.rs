//! The asynchronous driver of a walk: journal, act, journal, act, until there is an end or something to wait for. It
//! decides nothing itself; the walk does.

use base::Db;
use model::signal::Code;
use std::time::Instant;
use steps::{End, Ended, Next, Record, Walk, Way};

use super::ground::Ground;
use super::journal::{self, Claim, Still};
use super::{Fail, Flow, Step, Why};

/// A step that says "again, at once" is believed this often in a row; then others have their turn.
const PATIENCE: usize = 64;

/// Goes on with a claim as far as it goes. Every return leaves the row as somebody else can go on with it: one that nobody
/// can go on with says so, and is claimed by nobody until somebody wants it tried again.
pub async fn drive<G: Ground>(db: &Db, flow: Flow, claim: &Claim, ground: &G) -> sqlx::Result<()> {
    let steps: Vec<Step<G>> = flow.steps();
    let names = steps.iter().map(|step| step.name).collect();
    let mut walk = Walk::resume(names, flow.on_fail(), &claim.records);
    // The row says that somebody wants it tried again; the walk still knows only that it was stuck.
    walk.retry();
    let mut written = claim.records.len();
    let mut ended: Option<Ended> = None;
    let mut cancelled = claim.cancel_at.is_some();
    let mut turns = 0;
    loop {
        // Not before anything is written: then there would be nothing to undo, and slots are promised already.
        if cancelled && written > 0 && matches!(walk.next(), Next::Begin { way: Way::Run, .. }) {
            walk.interrupt(steps::Fail::new(Code::TaskCancelled.as_str(), "somebody wants it back"));
        }
        if walk.must_be_journalled() {
            let record = Record {
                table: (written == 0).then(|| walk.names().iter().map(|name| (*name).to_owned()).collect()),
                ended: ended.take(),
                next: walk.next().clone(),
                cause: walk.cause().cloned(),
                facts: serde_json::Value::Null,
            };
            match journal::append(db, claim, written, &record).await? {
                Still::Fenced => return Ok(()),
                Still::Ours { cancelled: now } => cancelled = now,
            }
            written += 1;
            walk.begun();
        }
        let (way, at) = match walk.next() {
            Next::Begin { way, at, .. } => (*way, *at),
            Next::End(End::Done | End::Undone { .. }) => return Ok(()),
            Next::End(End::Stuck { at, undo, error }) => {
                tracing::error!(workflow = %claim.id, flow = flow.name(), at, ?undo, %error, "a workflow is stuck");
                return match undo {
                    // The record that says so was written with it.
                    Some(_) => Ok(()),
                    None => journal::stuck(db, claim, at, error).await,
                };
            }
            Next::End(End::Halted { at, error }) => return journal::stuck(db, claim, at, error).await,
        };
        let why = why(&walk);
        let step = &steps[at];
        let began = Instant::now();
        let outcome = match way {
            Way::Run => (step.run)(ground, &why).await,
            Way::Undo => (step.undo)(ground, &why).await,
        };
        let outcome = match outcome {
            Ok(()) => Ok(()),
            Err(Fail::Wait {
                task: None,
                after_ms: 0,
            }) if turns < PATIENCE => {
                turns += 1;
                continue;
            }
            Err(Fail::Wait { task, after_ms }) => {
                return journal::park(db, claim, task.map(|task| task.uuid()), after_ms.max(1)).await;
            }
            Err(Fail::Fatal { code, detail }) => Err(steps::Fail::new(code.as_str(), detail)),
        };
        turns = 0;
        ended = Some(Ended {
            way,
            step: step.name.to_owned(),
            ok: outcome.is_ok(),
            took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        walk.ended(outcome);
    }
}

fn why(walk: &Walk) -> Why {
    walk.cause().map_or_else(Why::default, |cause| Why {
        code: cause.error.code.parse().ok(),
        detail: cause.error.detail.clone(),
    })
}
