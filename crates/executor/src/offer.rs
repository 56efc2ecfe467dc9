//! An offered task: judged, and journalled or answered, under the journal's lock from beginning to end, so that two
//! connections cannot claim it twice.

use std::sync::Arc;

use model::envelope::Identity;
use model::signal::Code;
use model::socket::{FromExecutor, NodeIdentity};
use model::task::TaskType;

use crate::journal::{Claimed, Entry, Journal};
use crate::node::Node;
use crate::policy::Policy;
use crate::verify::{self, Here, Offer, Verdict};
use crate::{machine, run};

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
    let (identity, trust) = {
        let store = node.trust();
        match (store.identity(), store.trust()) {
            (Some(identity), Some(trust)) => (identity, trust.clone()),
            _ => return Err(Code::NotEnrolled),
        }
    };
    let policy = Policy::read(&node.options.policy_path).map_err(|error| {
        tracing::error!(error = format!("{error:#}"), "node.toml");
        Code::ConfigInvalid
    })?;
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
        no_room: no_room(node, journal.takes_claims()),
    };
    match verify::judge(&offer, &here) {
        Verdict::Take { authentic, task } => {
            let claimed = Claimed {
                task_id,
                fence,
                claimed_at: clock,
                subject: task.subject(),
                clock_skew_ms: clock.since_ms(offer.server_time),
                envelope: offer.envelope,
            };
            node.record(&mut journal, Entry::Claimed(claimed))?;
            let payload = &authentic.payload;
            tracing::info!(%task_id, fence, task_type = payload.task_type, correlation_id = %payload.correlation_id, "accepted");
            Ok(FromExecutor::Accepted { task_id, fence })
        }
        Verdict::Running { fence } => Ok(FromExecutor::Accepted { task_id, fence }),
        Verdict::Finished {
            fence,
            result: Some(envelope),
        } => Ok(FromExecutor::Done {
            task_id,
            fence,
            envelope,
        }),
        // The control plane has answered it for good, and the room was needed.
        Verdict::Finished { result: None, .. } => Err(Code::TaskSuperseded),
        Verdict::Refused(refused) => {
            let code = refused.refusal.code;
            tracing::warn!(%task_id, fence, %code, detail = refused.refusal.detail, "task refused");
            let made = (clock, journal.next_seq());
            let key = &node.keys.result;
            let envelope = node.refusals().sign((task_id, fence), &refused, &identity, made, key);
            Ok(FromExecutor::Done {
                task_id,
                fence,
                envelope,
            })
        }
        Verdict::NotNow(code) => Err(code),
    }
}

/// What is open in the journal counts as running, whether its thread has begun or not.
fn busy_with(journal: &Journal) -> Vec<(TaskType, Option<String>)> {
    let open = journal.book().open();
    let typed = open.filter_map(|(_, open)| Some((open.payload.task_type.parse().ok()?, open.claimed.subject.clone())));
    typed.collect()
}

fn no_room(node: &Node, journal_takes: bool) -> Option<Code> {
    if !journal_takes {
        return Some(Code::JournalFull);
    }
    let free = machine::free_bytes(&node.options.state_dir);
    (free < node.options.limits.min_free_bytes).then_some(Code::NodeDiskLow)
}
