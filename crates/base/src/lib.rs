//! The ground of the control plane: configuration, the database and the one transaction that changes it, users and
//! tokens, the shape of HTTP answers, events, audit, logs and metrics. It knows no nouns of the business and starts
//! no process but its own private PostgreSQL.

pub mod app;
pub mod audit;
pub mod auth;
pub mod clock;
pub mod config;
pub mod cores;
pub mod db;
pub mod http;
pub mod idempotency;
pub mod logs;
pub mod metrics;
pub mod open_files;
pub mod outbox;
pub mod testing;
pub mod tx;
pub mod wake;

pub use app::App;
pub use clock::Clock;
pub use config::Config;
pub use db::Db;
pub use tx::{Actor, ActorKind, Change, Target};
