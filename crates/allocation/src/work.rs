//! The provisioning worker: takes up workflows that are due, goes on with each as far as it goes, and looks after
//! deadlines. Any number of them may run; each pass is safe to run twice at once. A worker that dies is followed by
//! another as soon as its leases have run out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::wake::Topic;
use fleet::Fleet;
use model::signal::Code;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::metrics::WORKFLOW_CLAIMS;
use crate::worker::Worker;
use crate::workflow::drive::drive;
use crate::workflow::journal::{self, Claim};
use crate::workflow::{Flow, Platform};

mod abandoned;
pub mod deadlines;
mod proofs;

/// Workflows that one process goes on with at once.
const AT_ONCE: usize = 16;
const SWEEP: Duration = Duration::from_millis(1000);
const RENEW: Duration = Duration::from_millis(2000);

type Held = Arc<Mutex<HashMap<Uuid, i64>>>;

/// Starts the loops of a worker.
pub fn spawn(worker: &Worker, loops: &mut JoinSet<()>) {
    let held = Held::default();
    loops.spawn(workflow_loop(worker.clone(), held.clone()));
    loops.spawn(renew_loop(worker.clone(), held));
    loops.spawn(deadlines::run(worker.clone()));
}

/// What belongs beside the api: what the platform itself wishes is signed where the keys are, and what nodes have signed of
/// used time is written down where they bring it, whether any worker is there or not.
pub fn spawn_beside_api(fleet: &Fleet, loops: &mut JoinSet<()>) {
    loops.spawn(abandoned::run(fleet.clone()));
    loops.spawn(proofs::run(fleet.clone()));
}

async fn workflow_loop(worker: Worker, held: Held) {
    let mut news = worker.app.wake.subscribe(Topic::Workflows);
    let mut running: JoinSet<()> = JoinSet::new();
    let mut more = true;
    loop {
        let wait = async {
            if more {
                return;
            }
            tokio::select! {
                () = news.look_again(SWEEP) => {}
                Some(_) = running.join_next(), if !running.is_empty() => {}
            }
        };
        if !worker.running(wait).await {
            break;
        }
        while running.try_join_next().is_some() {}
        let room = AT_ONCE.saturating_sub(running.len());
        more = false;
        if room == 0 {
            continue;
        }
        match journal::claim(&worker.app.db, room as i64).await {
            Ok(claims) => {
                more = claims.len() == room;
                for claim in claims {
                    metrics::counter!(WORKFLOW_CLAIMS).increment(1);
                    running.spawn(go_on(worker.clone(), held.clone(), claim));
                }
            }
            Err(error) => tracing::warn!(%error, "no look at the workflows"),
        }
    }
    // What is in our hands is put down where the next one can take it up.
    while running.join_next().await.is_some() {}
}

/// A workflow that is in our hands, and renewed for as long; also a panic takes it out of them. If its lease ran out and we
/// have claimed it once more, the newer claim stays.
struct InHand {
    held: Held,
    id: Uuid,
    epoch: i64,
}

impl InHand {
    fn take(held: Held, claim: &Claim) -> Self {
        held.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(claim.id, claim.epoch);
        let (id, epoch) = (claim.id, claim.epoch);
        Self { held, id, epoch }
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.get(&self.id) == Some(&self.epoch) {
            held.remove(&self.id);
        }
    }
}

async fn go_on(worker: Worker, held: Held, claim: Claim) {
    let _in_hand = InHand::take(held, &claim);
    match Flow::parse(&claim.flow) {
        Some(flow) => {
            let ground = Platform::new(worker.clone(), claim.allocation_id.into());
            if let Err(error) = drive(&worker.app.db, flow, &claim, &ground).await {
                // Its lease runs out, and somebody reads the journal again.
                tracing::warn!(%error, workflow = %claim.id, flow = %claim.flow, "a workflow was interrupted");
            }
        }
        None => {
            tracing::error!(workflow = %claim.id, flow = %claim.flow, "no such flow in this build");
            let unknown = steps::Fail::new(Code::FlowChanged.as_str(), "this build has no such flow");
            if let Err(error) = journal::stuck(&worker.app.db, &claim, &claim.flow, &unknown).await {
                tracing::warn!(%error, workflow = %claim.id, "nobody is told of it yet");
            }
        }
    }
}

async fn renew_loop(worker: Worker, held: Held) {
    while worker.running(tokio::time::sleep(RENEW)).await {
        let claims: Vec<(Uuid, i64)> = held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|(id, epoch)| (*id, *epoch))
            .collect();
        if !claims.is_empty()
            && let Err(error) = journal::renew(&worker.app.db, &claims).await
        {
            tracing::warn!(%error, "the leases of workflows were not renewed");
        }
    }
}

#[cfg(test)]
mod tests {
    use sqlx::types::Json;

    use super::*;

    #[test]
    fn a_claim_that_is_put_down_late_leaves_the_newer_one_in_hand() {
        let held = Held::default();
        let claim = |epoch| Claim {
            id: Uuid::nil(),
            flow: Flow::Release.name().to_owned(),
            allocation_id: Uuid::nil(),
            epoch,
            cancel_at: None,
            records: Json(Vec::new()),
        };
        let renewed = || held.lock().expect("whole").get(&Uuid::nil()).copied();
        let first = InHand::take(held.clone(), &claim(1));
        let second = InHand::take(held.clone(), &claim(2));
        drop(first);
        assert_eq!(renewed(), Some(2));
        drop(second);
        assert_eq!(renewed(), None);
    }
}
