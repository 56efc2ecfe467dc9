//! The device certificate, as far as this node looks at it: that it is for our own key, and which names it carries.
//! Whether its issuer is right is for the control plane to judge; it is who reads the tokens made from it.

use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER};
use model::digest::Sha256;
use model::node_api::CertificateKind;
use model::socket::NodeIdentity;
use model::time::Timestamp;
use serde::Serialize;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use crate::keys::Keys;

/// Renewal tokens live this long at most.
const TOKEN_S: i64 = 300;
/// Where no audience names a provisioner.
const ISSUER: &str = "gpuaas-device";

#[derive(Debug, thiserror::Error)]
pub(crate) enum DeviceError {
    #[error("the device chain is not a list of PEM certificates")]
    ChainMalformed,
    #[error("the device certificate is for another key")]
    OtherKey,
    #[error("the device certificate does not name this node: {0}")]
    OtherName(String),
    #[error("the request to vouch for is not a PEM certificate request")]
    CsrMalformed,
    #[error("the device key cannot sign")]
    Sign(#[source] anyhow::Error),
}

pub(crate) struct Device {
    /// DER, leaf first.
    chain: Vec<Vec<u8>>,
    uri: String,
    not_before: Timestamp,
    not_after: Timestamp,
}

/// `spiffe://<installation>/node/<node>/epoch/<n>`.
pub(crate) fn uri_of(identity: &NodeIdentity) -> String {
    let NodeIdentity {
        installation,
        node_id,
        epoch,
    } = identity;
    format!("spiffe://{installation}/node/{node_id}/epoch/{epoch}")
}

impl Device {
    /// Reads a chain and holds it against our key and identity.
    pub(crate) fn read(chain: &str, keys: &Keys, identity: &NodeIdentity) -> Result<Self, DeviceError> {
        let pems: Result<Vec<Pem>, _> = Pem::iter_from_buffer(chain.as_bytes()).collect();
        let pems = pems.map_err(|_| DeviceError::ChainMalformed)?;
        if pems.is_empty() || pems.len() > 8 || pems.iter().any(|pem| pem.label != "CERTIFICATE") {
            return Err(DeviceError::ChainMalformed);
        }
        let chain: Vec<Vec<u8>> = pems.into_iter().map(|pem| pem.contents).collect();
        let (_, leaf) = X509Certificate::from_der(&chain[0]).map_err(|_| DeviceError::ChainMalformed)?;
        if leaf.public_key().subject_public_key.data.as_ref() != keys.device_public() {
            return Err(DeviceError::OtherKey);
        }
        let uri = uri_of(identity);
        let names = leaf
            .subject_alternative_name()
            .map_err(|_| DeviceError::ChainMalformed)?;
        let names = names.map(|names| names.value.general_names.clone()).unwrap_or_default();
        match names.as_slice() {
            [GeneralName::URI(found)] if *found == uri => {}
            others => return Err(DeviceError::OtherName(format!("{others:?}, not {uri}"))),
        }
        let validity = leaf.validity();
        let at = |time: ASN1Time| Timestamp::from_millis(time.timestamp().saturating_mul(1000));
        let (not_before, not_after) = (at(validity.not_before), at(validity.not_after));
        Ok(Self {
            chain,
            uri,
            not_before,
            not_after,
        })
    }

    pub(crate) fn not_before(&self) -> Timestamp {
        self.not_before
    }

    pub(crate) fn not_after(&self) -> Timestamp {
        self.not_after
    }

    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// An X5C token that vouches for one certificate request. Every name in it comes from the device certificate.
    pub(crate) fn token(
        &self,
        keys: &Keys,
        csr_pem: &str,
        kind: CertificateKind,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<String, DeviceError> {
        let csr = csr_der(csr_pem)?;
        let x5c = self.chain.iter().map(|der| BASE64.encode(der)).collect();
        let header = Header {
            alg: "ES256",
            typ: "JWT",
            kid: thumbprint(keys.device_public()),
            x5c,
        };
        let issuer = audiences.iter().find_map(|aud| aud.split_once("#x5c/"));
        let now_s = now.millis().div_euclid(1000);
        let claims = Claims {
            iss: issuer.map_or(ISSUER, |(_, provisioner)| provisioner),
            sub: &self.uri,
            aud: audiences,
            iat: now_s,
            nbf: now_s,
            exp: now_s + TOKEN_S,
            jti: HEXLOWER.encode(&rand::random::<[u8; 32]>()),
            sans: [&self.uri],
            kind,
            cnf: Confirmation {
                csr_sha256: BASE64URL_NOPAD.encode(Sha256::of(&csr).as_bytes()),
            },
        };
        let part = |json: serde_json::Result<Vec<u8>>| {
            let json = json.map_err(|error| DeviceError::Sign(error.into()))?;
            Ok(BASE64URL_NOPAD.encode(&json))
        };
        let (header, claims) = (part(serde_json::to_vec(&header))?, part(serde_json::to_vec(&claims))?);
        let message = format!("{header}.{claims}");
        let signature = keys.device_sign(message.as_bytes()).map_err(DeviceError::Sign)?;
        Ok(format!("{message}.{}", BASE64URL_NOPAD.encode(&signature)))
    }
}

/// RFC 7638: the digest of the key's members in their one order.
fn thumbprint(point: &[u8]) -> String {
    let coordinate = |range| BASE64URL_NOPAD.encode(point.get::<std::ops::Range<usize>>(range).unwrap_or_default());
    let (x, y) = (coordinate(1..33), coordinate(33..65));
    let jwk = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
    BASE64URL_NOPAD.encode(Sha256::of(jwk.as_bytes()).as_bytes())
}

fn csr_der(pem: &str) -> Result<Vec<u8>, DeviceError> {
    let (rest, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).map_err(|_| DeviceError::CsrMalformed)?;
    let blank = rest.iter().all(u8::is_ascii_whitespace);
    let labelled = pem.label == "CERTIFICATE REQUEST";
    if blank && labelled {
        Ok(pem.contents)
    } else {
        Err(DeviceError::CsrMalformed)
    }
}

#[derive(Serialize)]
struct Header {
    alg: &'static str,
    typ: &'static str,
    kid: String,
    x5c: Vec<String>,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a [String],
    iat: i64,
    nbf: i64,
    exp: i64,
    jti: String,
    sans: [&'a str; 1],
    /// What for: the agent cannot turn a token for its own key into a device credential.
    kind: CertificateKind,
    cnf: Confirmation,
}

#[derive(Serialize)]
struct Confirmation {
    #[serde(rename = "x5rt#S256")]
    csr_sha256: String,
}
