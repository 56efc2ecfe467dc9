//! Everything that can go wrong and be met by a person, as a closed list of codes. Promises for
//! each: a stable word, an owner, a sentence that says what happened, one that says what to do,
//! and whether trying again can help. Refuses free text as identity: nobody decides on a message.

mod explain;
#[macro_use]
mod host_table;
mod nearest;
mod table;
mod text;

pub use nearest::nearest;
pub use table::Code;
pub use text::UnknownCode;
