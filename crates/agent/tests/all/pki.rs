//! A small CA: server certificates, and whatever a request asks for.

use std::time::Duration;

use model::digest::Sha256;
use model::time::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType, IsCa, Issuer,
    KeyPair, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use wire::spiffe::Spiffe;

pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) der: CertificateDer<'static>,
}

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("key");
        let mut params = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let der = params.self_signed(&key).expect("self-signed").der().clone();
        Self {
            issuer: Issuer::new(params, key),
            der,
        }
    }

    pub(crate) fn sha256(&self) -> Sha256 {
        Sha256::of(&self.der)
    }

    pub(crate) fn pem(&self) -> String {
        wire::pem::encode_certificates(std::slice::from_ref(&self.der))
    }

    pub(crate) fn server(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().expect("key");
        let mut params = named("server");
        params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
        let leaf = params.signed_by(&key, &self.issuer).expect("signed");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        (vec![leaf.der().clone(), self.der.clone()], key)
    }

    /// The chain for a request in a name, valid for `life` from `now` and backdated as ours are.
    pub(crate) fn sign(&self, csr: &str, name: &Spiffe, now: Timestamp, life: Duration) -> String {
        let csr = CertificateSigningRequestParams::from_pem(csr).expect("request");
        let mut params = named("node");
        params.subject_alt_names = vec![SanType::URI(name.to_string().try_into().expect("uri"))];
        params.not_before = now.plus_s(-60).into();
        params.not_after = now.plus_ms(life.as_millis() as i64).into();
        let leaf = params.signed_by(&csr.public_key, &self.issuer).expect("signed");
        wire::pem::encode_certificates(&[leaf.der().clone(), self.der.clone()])
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
