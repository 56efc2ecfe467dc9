//! Offers that this node could not tell from forgeries. Each is refused under the node's signature, because somebody
//! wants to know, but none is journalled: whoever reaches the socket could fill the journal with noise. They are kept
//! in memory, the last few hundred: the same offer gets the same bytes again, and what was refused is not taken in
//! another wrapping.

use std::collections::VecDeque;

use model::digest::Sha256;
use model::dsse::Envelope;
use model::id::TaskId;
use model::signal::Code;
use model::time::Timestamp;

const MOST: usize = 256;
/// A key that is not in our manifest may be in the next one, which the agent is about to bring: the first such offer
/// is only turned away. After that long, or after documents have come, it is refused.
const KEY_MAY_COME_MS: i64 = 5_000;

#[derive(Default)]
pub(crate) struct Refusals {
    kept: VecDeque<Kept>,
    strangers: VecDeque<Stranger>,
    /// How often the agent has brought documents.
    documents: u64,
}

#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) task_id: TaskId,
    pub(crate) fence: u64,
    pub(crate) payload_sha256: Sha256,
    pub(crate) code: Code,
    pub(crate) result: Envelope,
    acked: bool,
}

struct Stranger {
    task_id: TaskId,
    payload_sha256: Sha256,
    first_at: Timestamp,
    documents: u64,
}

impl Refusals {
    /// The refusal of this offer: the one that was signed before for the same reason, or a new one.
    pub(crate) fn keep(
        &mut self,
        (task_id, fence): (TaskId, u64),
        payload_sha256: Sha256,
        code: Code,
        sign: impl FnOnce() -> Envelope,
    ) -> Envelope {
        let same = self.kept.iter().find(|kept| {
            (kept.task_id, kept.fence) == (task_id, fence) && (kept.payload_sha256, kept.code) == (payload_sha256, code)
        });
        if let Some(kept) = same {
            return kept.result.clone();
        }
        let (result, acked) = (sign(), false);
        push(
            &mut self.kept,
            Kept {
                task_id,
                fence,
                payload_sha256,
                code,
                result: result.clone(),
                acked,
            },
        );
        result
    }

    /// What was signed about these bytes before, under whatever wrapping they came.
    pub(crate) fn find(&self, task_id: TaskId, payload_sha256: &Sha256) -> Option<&Kept> {
        let same = |kept: &&Kept| (kept.task_id, &kept.payload_sha256) == (task_id, payload_sha256);
        self.kept.iter().find(same)
    }

    /// May the key that signed this offer still come? Once.
    pub(crate) fn key_may_come(&mut self, task_id: TaskId, payload_sha256: Sha256, clock: Timestamp) -> bool {
        let same = |seen: &&Stranger| (seen.task_id, seen.payload_sha256) == (task_id, payload_sha256);
        if let Some(seen) = self.strangers.iter().find(same) {
            return seen.documents == self.documents && clock.since_ms(seen.first_at).abs() < KEY_MAY_COME_MS;
        }
        push(
            &mut self.strangers,
            Stranger {
                task_id,
                payload_sha256,
                first_at: clock,
                documents: self.documents,
            },
        );
        true
    }

    pub(crate) fn documents_came(&mut self) {
        self.documents += 1;
    }

    pub(crate) fn acked(&mut self, task_id: TaskId) {
        let answered = self.kept.iter_mut().filter(|kept| kept.task_id == task_id);
        answered.for_each(|kept| kept.acked = true);
    }

    pub(crate) fn pending(&self) -> impl Iterator<Item = &Kept> {
        self.kept.iter().filter(|kept| !kept.acked)
    }
}

fn push<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() == MOST {
        queue.pop_front();
    }
    queue.push_back(item);
}
