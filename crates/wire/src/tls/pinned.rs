//! First contact, when all that is known of the other side is the hash of its CA certificate. The chain it presents
//! must contain that certificate, which then is the only root: name, time and signatures are checked as ever.

use std::sync::{Arc, OnceLock};

use model::digest::Sha256;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme, version};

use super::client::plain;
use super::{TlsError, provider, roots};

/// The CA behind the hash, once a handshake has shown it.
#[derive(Clone, Debug, Default)]
pub struct PinnedCa(Arc<OnceLock<CertificateDer<'static>>>);

impl PinnedCa {
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.0.get()
    }
}

/// A client that trusts one CA by its hash, and where to find that CA afterwards.
pub fn pinned_ca_client(ca_sha256: Sha256) -> Result<(Arc<ClientConfig>, PinnedCa), TlsError> {
    let seen = PinnedCa::default();
    let verifier = Verifier {
        ca_sha256,
        provider: provider(),
        seen: seen.clone(),
    };
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(TlsError::Setup)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok((Arc::new(plain(config)), seen))
}

#[derive(Debug)]
struct Verifier {
    ca_sha256: Sha256,
    provider: Arc<CryptoProvider>,
    seen: PinnedCa,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let pinned = intermediates
            .iter()
            .find(|certificate| Sha256::of(certificate) == self.ca_sha256)
            .ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?
            .clone()
            .into_owned();
        let bad_root = |_| Error::InvalidCertificate(CertificateError::BadEncoding);
        let only = roots(std::slice::from_ref(&pinned)).map_err(bad_root)?;
        let verified = WebPkiServerVerifier::builder_with_provider(only, self.provider.clone())
            .build()
            .map_err(|error| Error::General(error.to_string()))?
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        // Every certificate with this hash is the same certificate, so the first one seen is the one.
        self.seen.0.get_or_init(|| pinned);
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is spoken here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
