//! A certificate as the rest of the platform looks at it: whose it is, which one it is, how long it lives.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use model::time::Timestamp;
use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::spiffe::Spiffe;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate {
    /// Lower-case hex, whole bytes, no leading zero byte: the one text of a serial everywhere.
    pub serial: Arc<str>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// The name, if there is exactly one URI and it is a name of ours.
    pub spiffe: Option<Spiffe>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an X.509 certificate")]
pub struct PeerCertificateError;

impl PeerCertificate {
    /// Reads, does not verify: the handshake did that, or the caller must.
    pub fn parse(der: &CertificateDer<'_>) -> Result<Self, PeerCertificateError> {
        let (rest, certificate) = X509Certificate::from_der(der).map_err(|_| PeerCertificateError)?;
        if !rest.is_empty() {
            return Err(PeerCertificateError);
        }
        let validity = certificate.validity();
        Ok(Self {
            serial: HEXLOWER
                .encode(&certificate.tbs_certificate.serial.to_bytes_be())
                .into(),
            not_before: Timestamp::from_millis(validity.not_before.timestamp() * 1000),
            not_after: Timestamp::from_millis(validity.not_after.timestamp() * 1000),
            spiffe: only_name(&certificate),
        })
    }
}

/// What a certificate calls itself, for people.
pub fn common_name(der: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let name = certificate.subject().iter_common_name().next()?;
    name.as_str().ok().map(str::to_owned)
}

/// Two names would leave it to each reader which one counts; so they count as none.
fn only_name(certificate: &X509Certificate<'_>) -> Option<Spiffe> {
    let names = certificate.subject_alternative_name().ok()??;
    let mut uris = names.value.general_names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Some(*uri),
        _ => None,
    });
    match (uris.next(), uris.next()) {
        (Some(uri), None) => uri.parse().ok(),
        _ => None,
    }
}
