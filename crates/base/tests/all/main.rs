//! Everything here runs on a real PostgreSQL: one database per test.

mod audit;
mod auth;
mod events;
mod http;
mod managed;
mod migrations;
mod oidc;
mod open;
mod plans;
mod slots;
mod tenancy;
mod transaction;
mod wakes;
