//! PEM in, DER out, and back. Only certificates and PKCS#8 keys exist here; a text that contains anything else
//! under those labels is an error, not a shorter list.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PemError {
    #[error("not a PEM certificate chain")]
    Certificates,
    #[error("not a PEM private key (PKCS#8)")]
    Key,
}

/// All certificates of a text, in order; none is an error.
pub fn certificates(text: &str) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|_| PemError::Certificates)?;
    if chain.is_empty() {
        Err(PemError::Certificates)
    } else {
        Ok(chain)
    }
}

pub fn private_key(text: &str) -> Result<PrivateKeyDer<'static>, PemError> {
    PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes())
        .map(PrivateKeyDer::Pkcs8)
        .map_err(|_| PemError::Key)
}

pub fn encode_certificates(chain: &[CertificateDer<'_>]) -> String {
    chain
        .iter()
        .map(|der| {
            let body = data_encoding::BASE64.encode(der);
            let lines: Vec<&str> = body
                .as_bytes()
                .chunks(64)
                .map(|line| std::str::from_utf8(line).expect("base64 is ASCII"))
                .collect();
            format!(
                "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
                lines.join("\n")
            )
        })
        .collect()
}
