//! One engine for anything with a way back: an ordered table of steps over one typed context, run forwards, undone
//! backwards, resumed after a crash, and proven by [`prove()`]. It promises that nothing acts before the journal says
//! so, that one move costs one durable write, that the step which failed is undone too, and that an undo which fails
//! is never silent. It refuses to guess: a journal written for another table is left as it is and reported.
//!
//! [`Walk`] decides and does no I/O, so that a synchronous driver ([`run`], [`resume`], [`retry`]) and an
//! asynchronous one can share it.

mod drive;
mod journal;
mod prove;
mod step;
mod walk;

pub use drive::{Error, Report, Watch, resume, retry, run};
pub use journal::{Cause, Ended, Journal, Next, Record};
pub use prove::{Blow, Cell, Complaint, Complaints, Proof, World, prove};
pub use step::{Context, Fail, OnFail, Step, Table, Way, nothing};
pub use walk::{End, FLOW_CHANGED, Walk};
