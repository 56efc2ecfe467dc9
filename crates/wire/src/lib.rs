//! How parties talk: who a certificate names, TLS 1.3 without resumption on both ends, an HTTP/1.1 server that sees
//! the client certificate and drains, a client whose errors say which hop failed, retries with jitter, one stop
//! signal. Refuses to decide who may do what: it hands over names, others judge them.

mod alive;
pub mod connections;
pub mod form;
pub mod http;
mod linger;
pub mod pem;
pub mod retry;
pub mod serve;
pub mod spiffe;
pub mod sse;
pub mod stop;
pub mod tls;
