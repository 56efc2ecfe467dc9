//! The queue of signed tasks. A task is signed when it is asked for, inside the asker's transaction, and only under
//! a rule that allows it; it is never signed when it is handed out. Its end comes from the node's executor, signed,
//! and lands once.

mod cancel;
pub mod claim;
pub mod ends;
pub mod enqueue;
pub mod reissue;
pub mod result;
pub mod retention;
pub mod routes;
pub mod store;
mod view;

pub use cancel::cancel;
pub use enqueue::{Ask, Asked, Cover, enqueue, enqueue_discovery, enqueue_later_discovery, enqueue_probe};
pub use store::TaskRow;
pub use view::view;
