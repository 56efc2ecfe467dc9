//! The verdict on an offered task, in a fixed order and failing closed: who signed it and for whom, whether it is
//! already known, whether it may run now and here, whether there is room. Decides only; nothing is written here.

use model::digest::Sha256;
use model::dsse::Envelope;
use model::envelope::{self, Authentic, Identity, Refusal, Times};
use model::id::{OpId, TaskId};
use model::signal::Code;
use model::task::{Task, TaskType};
use model::time::Timestamp;
use model::trust::Trust;

use crate::journal::{Book, Task as Known};
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
    /// Type and subject of everything that runs.
    pub(crate) running: &'a [(TaskType, Option<String>)],
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
    /// Never, and signed so.
    Refused(Refused),
    /// Not now; nothing is signed, and it may be offered again.
    NotNow(Code),
}

#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) refusal: Refusal,
    /// Known only where the signature was good.
    pub(crate) op_id: Option<OpId>,
    pub(crate) payload_sha256: Sha256,
}

pub(crate) fn judge(offer: &Offer, here: &Here<'_>) -> Verdict {
    let times = Times {
        clock: here.clock,
        floor: here.book.floor().time,
        server: Some(offer.server_time),
    };
    let payload_sha256 = offer.envelope.payload_digest();
    let refused = |op_id, refusal| {
        Verdict::Refused(Refused {
            refusal,
            op_id,
            payload_sha256,
        })
    };
    let bytes = offer.envelope.to_bytes();
    let authentic = match envelope::authenticate(&bytes, here.trust, here.me, times.now()) {
        Ok(authentic) => authentic,
        Err(refusal) => return refused(None, refusal),
    };
    let payload = &authentic.payload;
    let op_id = Some(payload.op_id);
    if payload.task_id != offer.task_id {
        let why = "the offer names another task than the one that was signed";
        return refused(op_id, Refusal::new(Code::PayloadMalformed, why));
    }
    match here.book.task(payload.task_id) {
        Some(Known::Open(open)) => {
            return Verdict::Running {
                fence: open.claimed.fence,
            };
        }
        Some(Known::Finished(finished)) => {
            let (fence, result) = (finished.fence, finished.result.clone());
            return Verdict::Finished { fence, result };
        }
        None => {}
    }
    let task = match envelope::admit(&authentic, here.trust, times) {
        Ok(task) => task,
        Err(refusal) => return refused(op_id, refusal),
    };
    if !here.policy.allows(task.task_type()) {
        return refused(op_id, Code::TypeNotAllowedHere.into());
    }
    let last = task.subject().and_then(|subject| here.book.floor().seqs.get(&subject));
    if last.is_some_and(|last| payload.seq < last.seq) {
        return refused(op_id, Code::TaskSuperseded.into());
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

/// As many of this type as may run at once, or one that works on the same user or slot.
fn busy(task: &Task, running: &[(TaskType, Option<String>)]) -> bool {
    let task_type = task.task_type();
    let same_type = running.iter().filter(|(other, _)| *other == task_type).count();
    let subject = task.subject();
    let same_subject = subject.is_some() && running.iter().any(|(_, other)| *other == subject);
    same_subject || same_type >= task_type.spec().running_per_node as usize
}
