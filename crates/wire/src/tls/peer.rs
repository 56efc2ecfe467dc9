//! A certificate as the rest of the platform looks at it: whose it is, which one it is, how long it lives.

use std::fmt;

use data_encoding::HEXLOWER;
use model::time::Timestamp;
use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::spiffe::Spiffe;

#[derive(Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    pub der: CertificateDer<'static>,
    /// Lower-case hex, whole bytes, no leading zero byte: the one text of a serial everywhere.
    pub serial: String,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// The name, if there is exactly one URI and it is a name of ours.
    pub spiffe: Option<Spiffe>,
    pub subject: String,
    pub common_name: Option<String>,
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
        let common_name = certificate
            .subject()
            .iter_common_name()
            .next()
            .and_then(|name| name.as_str().ok());
        Ok(Self {
            der: der.clone().into_owned(),
            serial: HEXLOWER.encode(&certificate.tbs_certificate.serial.to_bytes_be()),
            not_before: Timestamp::from_millis(validity.not_before.timestamp() * 1000),
            not_after: Timestamp::from_millis(validity.not_after.timestamp() * 1000),
            spiffe: only_name(&certificate),
            subject: certificate.subject().to_string(),
            common_name: common_name.map(str::to_owned),
        })
    }
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

impl fmt::Debug for PeerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerCertificate")
            .field("serial", &self.serial)
            .field("subject", &self.subject)
            .field("spiffe", &self.spiffe)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}
