//! The verdict on an offered task, in a fixed order and failing closed: whether these bytes have been answered before,
//! who signed them and for whom, whether they may run now and here, whether there is room. What is known never gets a
//! second verdict, whatever has changed since. Decides only; nothing is written here.

use model::digest::Sha256;
use model::dsse::{self, Envelope};
use model::envelope::{
    self, Authentic, CLOCK_TOLERANCE_S, Identity, MAX_START_S, Refusal, TASK_TYPE, TaskPayload, Times,
};
use model::id::{OpId, TaskId};
use model::key::KeyId;
use model::signal::Code;
use model::task::{Task, TaskType};
use model::time::Timestamp;
use model::trust::Trust;

use crate::journal::{Book, Finished, Known, Task as Held};
use crate::policy::Policy;

/// A task as the agent offers it. Only what is inside the envelope is believed.
pub(crate) struct Offer {
    pub(crate) task_id: TaskId,
    pub(crate) fence: u64,
    pub(crate) envelope: Envelope,
    pub(crate) server_time: Timestamp,
}

/// What the verdict depends on.
pub(crate) struct Here<'a> {
    pub(crate) trust: &'a Trust,
    pub(crate) me: Identity,
    pub(crate) policy: &'a Policy,
    pub(crate) book: &'a Book,
    pub(crate) clock: Timestamp,
    /// Type and subjects of everything that runs.
    pub(crate) running: &'a [(TaskType, Vec<String>)],
    /// Why nothing new can be taken at all, if so.
    pub(crate) no_room: Option<Code>,
}

#[derive(Debug)]
pub(crate) enum Verdict {
    /// Journal it, then run it.
    Take { authentic: Box<Authentic>, task: Task },
    /// Being worked on; no new verdict.
    Running { fence: u64 },
    /// Done before: the same result again, unless the control plane has it and it was let go.
    Finished { fence: u64, result: Option<Envelope> },
    /// Never, and signed so: final, and journalled as such where a key of ours has signed it.
    Refused(Refused),
    /// Not now; nothing is signed, and it may be offered again.
    NotNow(Code),
}

#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) refusal: Refusal,
    pub(crate) payload_sha256: Sha256,
    /// None: no key that the manifest lists has signed it.
    pub(crate) signed: Option<Signed>,
}

/// What is known of a payload that one of the listed keys has signed, whether or not that key may still sign.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signed {
    pub(crate) op_id: Option<OpId>,
    /// After it, the bytes could not start whatever else changed.
    pub(crate) start_by: Timestamp,
}

pub(crate) fn judge(offer: &Offer, here: &Here<'_>) -> Verdict {
    let payload_sha256 = offer.envelope.payload_digest();
    if let Some(verdict) = known(offer, here.book) {
        return verdict;
    }
    let times = Times {
        clock: here.clock,
        floor: here.book.floor().time,
        server: Some(offer.server_time),
    };
    let refused = |refusal| {
        Verdict::Refused(Refused {
            refusal,
            payload_sha256,
            signed: signed(&offer.envelope, here.trust, times.now()),
        })
    };
    let bytes = offer.envelope.to_bytes();
    let authentic = match envelope::authenticate(&bytes, here.trust, here.me, times.now()) {
        Ok(authentic) => authentic,
        Err(refusal) => return refused(refusal),
    };
    let payload = &authentic.payload;
    if payload.task_id != offer.task_id {
        let why = "the offer names another task than the one that was signed";
        return refused(Refusal::new(Code::PayloadMalformed, why));
    }
    // Other bytes under a name that is taken: one name is one task.
    match here.book.task(payload.task_id) {
        Some(Held::Open(open)) => {
            return Verdict::Running {
                fence: open.claimed.fence,
            };
        }
        Some(Held::Finished(done)) => return finished(done),
        None => {}
    }
    let task = match envelope::admit(&authentic, here.trust, times) {
        Ok(task) => task,
        Err(refusal) => return refused(refusal),
    };
    if !here.policy.allows(task.task_type()) {
        return refused(Code::TypeNotAllowedHere.into());
    }
    let later = |subject: &String| {
        let last = here.book.floor().seqs.get(subject);
        last.is_some_and(|last| payload.seq < last.seq)
    };
    if task.subjects().iter().any(later) {
        return refused(Code::TaskSuperseded.into());
    }
    if let Some(code) = here.no_room {
        return Verdict::NotNow(code);
    }
    if busy(&task, here.running) {
        return Verdict::NotNow(Code::ExecutorBusy);
    }
    Verdict::Take {
        authentic: Box::new(authentic),
        task,
    }
}

/// The answer that these bytes have had, if any. Asks neither key nor clock nor policy: they may have changed since.
pub(crate) fn known(offer: &Offer, book: &Book) -> Option<Verdict> {
    Some(match book.known(offer.task_id, &offer.envelope.payload_digest())? {
        Known::Open(open) => Verdict::Running {
            fence: open.claimed.fence,
        },
        Known::Finished(done) => finished(done),
    })
}

fn finished(done: &Finished) -> Verdict {
    let (fence, result) = (done.fence, done.result.clone());
    Verdict::Finished { fence, result }
}

/// Bytes without a time of their own, or with too long a one, are remembered for as long as any task could wait.
fn signed(envelope: &Envelope, trust: &Trust, now: Timestamp) -> Option<Signed> {
    let find = |keyid: &KeyId| {
        let key = trust.manifest().keys.iter().find(|key| key.keyid == *keyid);
        key.map(|key| key.public).ok_or(Code::KeyUnknown)
    };
    let bytes = envelope.open(TASK_TYPE, find).ok()?;
    let payload: Option<TaskPayload> = dsse::parse_payload(&bytes).ok();
    let longest = now.plus_s(MAX_START_S + CLOCK_TOLERANCE_S);
    let start_by = payload
        .as_ref()
        .map_or(longest, |payload| payload.start_by.min(longest));
    Some(Signed {
        op_id: payload.map(|payload| payload.op_id),
        start_by,
    })
}

/// As many of this type as may run at once, or one that works on the same user or slot.
fn busy(task: &Task, running: &[(TaskType, Vec<String>)]) -> bool {
    let task_type = task.task_type();
    let same_type = running.iter().filter(|(other, _)| *other == task_type).count();
    let subjects = task.subjects();
    let same_subject = running
        .iter()
        .flat_map(|(_, others)| others)
        .any(|other| subjects.contains(other));
    same_subject || same_type >= task_type.spec().running_per_node as usize
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    fn account(name: &str) -> Task {
        let params = serde_json::json!({
            "allocation_id": model::id::AllocationId::new(), "username": name, "uid": 20_001, "gpu_access": false,
            "ssh_public_keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"],
        });
        let params = to_raw_value(&params).expect("JSON");
        Task::parse("allocation.provision_user", 1, &params).expect("good parameters")
    }

    fn run(task: &Task) -> (TaskType, Vec<String>) {
        (task.task_type(), task.subjects())
    }

    #[test]
    fn only_so_many_of_a_type_run_at_once() {
        let mut running = Vec::new();
        for n in 0..account("any").task_type().spec().running_per_node {
            let next = account(&format!("tenant-{n}"));
            assert!(!busy(&next, &running), "{n} run");
            running.push(run(&next));
        }
        assert!(busy(&account("late"), &running));
        let probe = Task::HealthProbe(model::task::health_probe::Params {});
        assert!(!busy(&probe, &running), "another type has room of its own");
    }

    #[test]
    fn only_one_task_works_on_a_subject() {
        let running = [run(&account("ada"))];
        assert!(busy(&account("ada"), &running) && !busy(&account("bob"), &running));
    }
}
