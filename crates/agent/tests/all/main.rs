//! The agent between an executor and a control plane that are played by the tests: real sockets, real mutual TLS.

mod control;
mod errands;
mod executor;
mod journal;
mod pki;
mod place;
mod reconnect;
mod renewal;
mod slots;
mod walk;
