//! TLS as every listener and every client of ours speaks it: version 1.3, aws-lc-rs, no session resumption. A
//! resumed session would skip the look at the client certificate, so an expired one would still be served.

mod client;
mod peer;
mod pinned;
mod server;
mod system;

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;

pub use client::client_config;
pub use peer::{PeerCertificate, PeerCertificateError, common_name};
pub use pinned::{PinnedCa, pinned_ca_client};
pub use server::{ServerIdentity, server_config, server_config_with};
pub use system::{SystemError, trusting};

/// Why no configuration could be made from the given keys and certificates.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("a CA certificate cannot serve as a root")]
    Root(#[source] rustls::Error),
    #[error("no CA certificates")]
    NoRoots,
    #[error("certificate chain and private key do not fit")]
    Identity(#[source] rustls::Error),
    #[error("TLS cannot be configured")]
    Setup(#[source] rustls::Error),
}

/// Named in every builder, so that no process-wide default decides.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn roots(certificates: &[CertificateDer<'static>]) -> Result<Arc<RootCertStore>, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates {
        store.add(certificate.clone()).map_err(TlsError::Root)?;
    }
    if store.is_empty() {
        Err(TlsError::NoRoots)
    } else {
        Ok(Arc::new(store))
    }
}
