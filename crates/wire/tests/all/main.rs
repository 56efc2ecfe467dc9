//! Real sockets on port 0, real handshakes, certificates made for each test.

mod classify;
mod limits;
mod mutual;
mod pinned;
mod pki;
mod site;
