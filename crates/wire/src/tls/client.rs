//! The client's half: whom it trusts and, if it has one, who it is.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, version};

use super::{TlsError, provider, roots};

pub fn client_config(
    identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    authorities: &[CertificateDer<'static>],
) -> Result<Arc<ClientConfig>, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(TlsError::Setup)?
        .with_root_certificates(roots(authorities)?);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(TlsError::Identity)?,
    };
    Ok(Arc::new(plain(config)))
}

/// No resumption, HTTP/1.1: the same for every client.
pub(super) fn plain(mut config: ClientConfig) -> ClientConfig {
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}
