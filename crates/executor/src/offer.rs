//! An offered task: judged, and journalled or answered, under the journal's lock from beginning to end, so that two
//! connections cannot claim it twice.

use std::sync::Arc;

use model::dsse::Envelope;
use model::envelope::Identity;
use model::id::TaskId;
use model::signal::Code;
use model::socket::{FromExecutor, NodeIdentity};
use model::task::TaskType;

use crate::journal::{Claimed, Done, Entry, Journal};
use crate::node::Node;
use crate::policy::Policy;
use crate::verify::{self, Here, Offer, Refused, Verdict};
use crate::{disk, result, run};

pub(crate) fn answer(node: &Arc<Node>, offer: Offer) {
    let (task_id, fence) = (offer.task_id, offer.fence);
    let said = match take(node, offer) {
        Ok(said) => said,
        Err(code) => FromExecutor::NotTaken { task_id, code },
    };
    if let FromExecutor::NotTaken { code, .. } = &said {
        tracing::warn!(%task_id, fence, %code, "not taken");
    }
    node.outlet.send(said);
    run::start_claimed(node);
}

fn take(node: &Node, offer: Offer) -> Result<FromExecutor, Code> {
    let (task_id, fence) = (offer.task_id, offer.fence);
    // Before anything that may have changed since: identity, trust, policy.
    let known = verify::known(&offer, node.journal()?.book());
    if let Some(verdict) = known {
        return answered(task_id, verdict);
    }
    if let Some(trouble) = node.trouble() {
        return Err(trouble);
    }
    let policy = Policy::read(&node.options.policy_path).map_err(|error| {
        tracing::error!(error = format!("{error:#}"), "node.toml");
        Code::ConfigInvalid
    })?;
    let (identity, trust) = {
        let store = node.trust();
        // Read again each time: root may have pinned another root, or none, since we started.
        if store
            .pinned_root()
            .is_some_and(|pinned| policy.root_sha256 != Some(pinned))
        {
            return Err(Code::RootMismatch);
        }
        match (store.identity(), store.trust()) {
            (Some(identity), Some(trust)) => (identity, trust.clone()),
            _ => return Err(Code::NotEnrolled),
        }
    };
    let mut journal = node.journal()?;
    node.make_room(&mut journal)?;
    let running = busy_with(&journal);
    let clock = node.options.clock.now();
    let NodeIdentity { node_id, epoch, .. } = identity;
    let here = Here {
        trust: &trust,
        me: Identity { node_id, epoch },
        policy: &policy,
        book: journal.book(),
        clock,
        running: &running,
        no_room: no_room(node, &journal),
    };
    match verify::judge(&offer, &here) {
        Verdict::Take { authentic, task } => {
            if let Some(kept) = node.refusals().find(task_id, &authentic.sha256) {
                // These bytes have been refused in another wrapping, under our signature.
                let (fence, envelope) = (kept.fence, kept.result.clone());
                return Ok(done(task_id, fence, envelope));
            }
            let claimed = Claimed {
                task_id,
                fence,
                claimed_at: clock,
                subjects: task.subjects(),
                clock_skew_ms: clock.since_ms(offer.server_time),
                envelope: offer.envelope,
            };
            node.record(&mut journal, Entry::Claimed(claimed))?;
            let payload = &authentic.payload;
            tracing::info!(%task_id, fence, task_type = payload.task_type, correlation_id = %payload.correlation_id, "accepted");
            Ok(FromExecutor::Accepted { task_id, fence })
        }
        Verdict::Refused(refused) => refuse(node, &mut journal, (task_id, fence), &refused, &identity),
        verdict @ (Verdict::Running { .. } | Verdict::Finished { .. } | Verdict::NotNow(_)) => {
            answered(task_id, verdict)
        }
    }
}

fn answered(task_id: TaskId, verdict: Verdict) -> Result<FromExecutor, Code> {
    match verdict {
        Verdict::Running { fence } => Ok(FromExecutor::Accepted { task_id, fence }),
        Verdict::Finished {
            fence,
            result: Some(envelope),
        } => Ok(done(task_id, fence, envelope)),
        // The control plane has answered it for good, and the room was needed.
        Verdict::Finished { result: None, .. } => Err(Code::TaskSuperseded),
        Verdict::NotNow(code) => Err(code),
        Verdict::Take { .. } | Verdict::Refused(_) => unreachable!("these are no answers yet"),
    }
}

/// Signed, hence final: durable before anybody hears of it, unless nobody that we know has signed the offer.
fn refuse(
    node: &Node,
    journal: &mut Journal,
    (task_id, fence): (TaskId, u64),
    refused: &Refused,
    identity: &NodeIdentity,
) -> Result<FromExecutor, Code> {
    let (clock, code, payload_sha256) = (node.options.clock.now(), refused.refusal.code, refused.payload_sha256);
    if code == Code::KeyUnknown && node.refusals().key_may_come(task_id, payload_sha256, clock) {
        return Err(code);
    }
    if refused.signed.is_some() && !journal.takes_claims() {
        return Err(Code::JournalFull);
    }
    tracing::warn!(%task_id, fence, %code, detail = refused.refusal.detail, "task refused");
    let made = (clock, journal.next_seq());
    let sign = || result::refusal(task_id, refused, identity, made, &node.keys.result);
    let Some(signed) = refused.signed else {
        let envelope = node.refusals().keep((task_id, fence), payload_sha256, code, sign);
        return Ok(done(task_id, fence, envelope));
    };
    let envelope = sign();
    let entry = Done {
        task_id,
        fence,
        payload_sha256,
        refused: true,
        start_by: signed.start_by,
        started_at: None,
        result: envelope.clone(),
    };
    node.record(journal, Entry::Done(entry))?;
    Ok(done(task_id, fence, envelope))
}

fn done(task_id: TaskId, fence: u64, envelope: Envelope) -> FromExecutor {
    FromExecutor::Done {
        task_id,
        fence,
        envelope,
    }
}

/// What is open in the journal counts as running, whether its thread has begun or not.
fn busy_with(journal: &Journal) -> Vec<(TaskType, Vec<String>)> {
    let open = journal.book().open();
    let typed =
        open.filter_map(|(_, open)| Some((open.payload.task_type.parse().ok()?, open.claimed.subjects.clone())));
    typed.collect()
}

/// Why nothing new is taken although everything works, if so: what runs has to be able to finish.
pub(crate) fn no_room(node: &Node, journal: &Journal) -> Option<Code> {
    if !journal.takes_claims() {
        return Some(Code::JournalFull);
    }
    let free = disk::free_bytes(&node.options.state_dir);
    (free < node.options.limits.min_free_bytes).then_some(Code::NodeDiskLow)
}
