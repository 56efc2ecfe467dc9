//! The server's half: its own identity, which can be replaced while it listens, and the CA whose clients it hears.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, version};

use super::{TlsError, provider, roots};

/// Chain and key of a listener. Replaced by a renewal; the next handshake uses the new one.
#[derive(Debug)]
pub struct ServerIdentity {
    current: RwLock<Arc<CertifiedKey>>,
}

impl ServerIdentity {
    pub fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Arc<Self>, TlsError> {
        Ok(Arc::new(Self {
            current: RwLock::new(certified(chain, key)?),
        }))
    }

    /// On error the old identity stays.
    pub fn replace(&self, chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<(), TlsError> {
        let fresh = certified(chain, key)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }
}

fn certified(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Arc<CertifiedKey>, TlsError> {
    CertifiedKey::from_der(chain, key, &provider())
        .map(Arc::new)
        .map_err(TlsError::Identity)
}

impl ResolvesServerCert for ServerIdentity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// A listener with one fixed identity. With `client_ca`, a client without a valid certificate of it gets nowhere.
pub fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    client_ca: Option<&[CertificateDer<'static>]>,
) -> Result<Arc<ServerConfig>, TlsError> {
    server_config_with(ServerIdentity::new(chain, key)?, client_ca)
}

/// The same with an identity that can be replaced later.
pub fn server_config_with(
    identity: Arc<ServerIdentity>,
    client_ca: Option<&[CertificateDer<'static>]>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(TlsError::Setup)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(authorities) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(roots(authorities)?, provider())
                .build()
                .map_err(|error| TlsError::Setup(rustls::Error::General(error.to_string())))?,
        ),
    };
    let mut config = builder.with_cert_resolver(identity);
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
