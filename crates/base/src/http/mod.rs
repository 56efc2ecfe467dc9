//! The shape of everything we answer over HTTP: one error envelope, bounded typed bodies, signed cursors, a
//! correlation id on every answer, and a route table in which access is not optional.

mod body;
mod error;
mod gate;
mod health;
mod later;
mod locate;
mod once;
mod openapi;
mod page;
mod rate;
pub mod route;
mod shell;
mod sse;
mod streams;
mod version;

pub use body::{Body, Params, Search};
pub use error::ApiError;
pub use gate::{Peer, Sender};
pub use health::{Readiness, health_router};
pub use later::{later, settle};
pub use openapi::{Info, openapi};
pub use page::{ChangedSince, CursorKey, Page, PageQuery, page};
pub use rate::{Rates, Standing, Subject};
pub use route::{Access, KeyUse, Route, RouteInfo, Routes};
pub use shell::{CORRELATION_HEADER, Correlation, SERVICE_HEADER, Shell, correlation_id, finish};
pub use sse::{Outlet, Unheard, stream_answer};
pub use streams::{STREAMS_MOST, Streams};
pub use version::IfMatch;

/// What a handler returns.
pub type Answer<T> = Result<T, ApiError>;
