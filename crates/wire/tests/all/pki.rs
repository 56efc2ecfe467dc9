//! A CA and the certificates of one test.

use model::time::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) der: CertificateDer<'static>,
}

pub(crate) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("key");
        let mut params = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key).expect("self-signed");
        Self {
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// For 127.0.0.1 and localhost, for servers and clients; the chain ends in the CA's certificate.
    pub(crate) fn leaf(&self, uri: Option<&str>) -> Identity {
        self.sign(leaf_params(uri))
    }

    /// The same, but its time is over.
    pub(crate) fn lapsed(&self, uri: Option<&str>) -> Identity {
        let mut params = leaf_params(uri);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.sign(params)
    }

    /// The same, valid until then.
    pub(crate) fn until(&self, not_after: Timestamp) -> Identity {
        let mut params = leaf_params(None);
        params.not_after = not_after.datetime();
        self.sign(params)
    }

    /// For a name that nobody here dials.
    pub(crate) fn elsewhere(&self) -> Identity {
        let mut params = leaf_params(None);
        params.subject_alt_names = vec![SanType::DnsName("elsewhere.test".try_into().expect("name"))];
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        (vec![certificate.der().clone(), self.der.clone()], key)
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn leaf_params(uri: Option<&str>) -> CertificateParams {
    let mut params = named("leaf");
    params.subject_alt_names = vec![
        SanType::DnsName("localhost".try_into().expect("name")),
        SanType::IpAddress([127, 0, 0, 1].into()),
    ];
    params
        .subject_alt_names
        .extend(uri.map(|uri| SanType::URI(uri.try_into().expect("uri"))));
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params
}
