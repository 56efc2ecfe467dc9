//! Which images slices may be made of, and their bytes for nodes. The list is a document that operators sign where
//! their key is; here it is verified, kept, followed by every replica and handed to nodes. Nothing here can sign one.

mod bytes;
mod follow;
mod publish;
pub mod routes;
mod store;

pub(crate) use bytes::{ImagePath, PieceQuery, get_piece};
pub use follow::newest;
pub use follow::{Published, follow};
