//! The built-in certificate authority. One CA signs what speaks TLS, another signs device credentials: a device
//! certificate can vouch for a renewal, but it opens no listener.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use model::digest::Sha256;
use model::time::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType, SerialNumber,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use wire::spiffe::Spiffe;

use crate::trust::KeyringError;

const CA_DAYS: i64 = 3650;
const SERVER_DAYS: i64 = 30;
const DAY_S: i64 = 86_400;
/// Clocks differ; a certificate is valid a little before it is made.
const BACKDATE_S: i64 = 60;

#[derive(Clone)]
pub struct Ca {
    tls: Arc<Authority>,
    device: Arc<Authority>,
}

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    der: CertificateDer<'static>,
    pem: String,
}

#[derive(Debug, thiserror::Error)]
pub enum CaError {
    #[error("the certificate request cannot be used: {0}")]
    Csr(String),
    #[error("the certificate request asks for a name that is not its own")]
    ForeignName,
    #[error("the certificate authority failed")]
    Rcgen(#[from] rcgen::Error),
    #[error(transparent)]
    Keys(#[from] KeyringError),
}

/// A certificate that was just made, not yet stored or handed out.
#[derive(Clone, Debug)]
pub struct Issued {
    pub pem: String,
    pub serial: String,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

/// What a listener of ours presents: leaf, CA certificate, and the leaf's key.
pub struct ServerIdentity {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

impl Ca {
    /// Makes both authorities' files. In dev the name says so, and real hosts refuse it.
    pub fn create(dir: &Path, dev: bool, now: Timestamp) -> Result<(), CaError> {
        let kind = if dev { "gpuaas DEV" } else { "gpuaas" };
        for (file, name) in [("ca", format!("{kind} CA")), ("device-ca", format!("{kind} device CA"))] {
            let key = KeyPair::generate()?;
            let mut params = named(&name, now, CA_DAYS * DAY_S);
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            let certificate = params.self_signed(&key)?;
            crate::trust::write_key_file(&dir.join(format!("{file}.key")), key.serialize_pem().as_bytes())?;
            crate::trust::write_key_file(&dir.join(format!("{file}.crt")), certificate.pem().as_bytes())?;
        }
        Ok(())
    }

    pub fn load(dir: &Path) -> Result<Self, CaError> {
        Ok(Self {
            tls: Arc::new(load(dir, "ca")?),
            device: Arc::new(load(dir, "device-ca")?),
        })
    }

    /// The hash that first contact trusts.
    pub fn sha256(&self) -> Sha256 {
        Sha256::of(&self.tls.der)
    }

    pub fn tls_root(&self) -> &CertificateDer<'static> {
        &self.tls.der
    }

    pub fn device_root(&self) -> &CertificateDer<'static> {
        &self.device.der
    }

    /// PEM of every CA that a server of ours may present.
    pub fn bundle_pem(&self) -> String {
        self.tls.pem.clone()
    }

    /// A certificate for TLS in the name given; only the public key comes from the request.
    pub fn issue_working(&self, csr_pem: &str, name: &Spiffe, life_s: i64, now: Timestamp) -> Result<Issued, CaError> {
        issue(&self.tls, csr_pem, name, life_s, now)
    }

    pub fn issue_device(&self, csr_pem: &str, name: &Spiffe, life_s: i64, now: Timestamp) -> Result<Issued, CaError> {
        issue(&self.device, csr_pem, name, life_s, now)
    }

    /// A listener's own certificate, with a key that never touches a disk.
    pub fn server(&self, names: &[String], now: Timestamp) -> Result<ServerIdentity, CaError> {
        let key = KeyPair::generate()?;
        let mut params = named("gpuaas", now, SERVER_DAYS * DAY_S);
        params.subject_alt_names = names
            .iter()
            .map(|name| match name.parse::<IpAddr>() {
                Ok(address) => Ok(SanType::IpAddress(address)),
                Err(_) => name.as_str().try_into().map(SanType::DnsName),
            })
            .collect::<Result<_, rcgen::Error>>()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let leaf = params.signed_by(&key, &self.tls.issuer)?;
        Ok(ServerIdentity {
            chain: vec![leaf.der().clone(), self.tls.der.clone()],
            key: PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        })
    }
}

fn load(dir: &Path, file: &str) -> Result<Authority, CaError> {
    let read = |name: String| {
        let path = dir.join(name);
        std::fs::read_to_string(&path).map_err(|source| KeyringError::File { path, source })
    };
    let key = KeyPair::from_pem(&read(format!("{file}.key"))?)?;
    let pem = read(format!("{file}.crt"))?;
    let der = x509_parser::pem::parse_x509_pem(pem.as_bytes())
        .map_err(|e| CaError::Csr(e.to_string()))?
        .1
        .contents;
    let issuer = Issuer::from_ca_cert_pem(&pem, key)?;
    Ok(Authority {
        issuer,
        der: CertificateDer::from(der),
        pem,
    })
}

fn named(name: &str, now: Timestamp, life_s: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = now.plus_s(-BACKDATE_S).datetime();
    params.not_after = now.plus_s(life_s).datetime();
    let mut serial: [u8; 16] = rand::random();
    // Positive, and sixteen bytes long whatever was drawn: one serial has one spelling.
    serial[0] = (serial[0] & 0x7f) | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params
}

fn issue(authority: &Authority, csr_pem: &str, name: &Spiffe, life_s: i64, now: Timestamp) -> Result<Issued, CaError> {
    if csr_pem.len() > 16 * 1024 {
        return Err(CaError::Csr("larger than 16 KiB".to_owned()));
    }
    // Parsing checks the request's own signature: whoever asks holds the key.
    let csr = CertificateSigningRequestParams::from_pem(csr_pem).map_err(|e| CaError::Csr(e.to_string()))?;
    // The only algorithm that renewal tokens know: another key would be let in once and never again.
    if csr.public_key.algorithm() != &rcgen::PKCS_ECDSA_P256_SHA256 {
        return Err(CaError::Csr("the key must be P-256".to_owned()));
    }
    let uri = name.to_string();
    let asked = &csr.params.subject_alt_names;
    if asked
        .iter()
        .any(|san| !matches!(san, SanType::URI(asked) if asked.as_str() == uri))
    {
        return Err(CaError::ForeignName);
    }
    let mut params = named("gpuaas node", now, life_s);
    let san = uri.as_str().try_into().map_err(|_| CaError::Csr("name".to_owned()))?;
    params.subject_alt_names = vec![SanType::URI(san)];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let serial = params
        .serial_number
        .as_ref()
        .map(|s| data_encoding::HEXLOWER.encode(s.as_ref()))
        .unwrap_or_default();
    let (not_before, not_after) = (params.not_before.into(), params.not_after.into());
    let leaf = params.signed_by(&csr.public_key, &authority.issuer)?;
    Ok(Issued {
        pem: format!("{}{}", leaf.pem(), authority.pem),
        serial,
        not_before,
        not_after,
    })
}
