//! The renewal token: a JWT that the executor signs with its device key and that carries the device certificate
//! (X5C). Read strictly: one algorithm, every claim present, no claim unknown to us left unchecked.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use model::digest::Sha256;
use model::node_api::CertificateKind;
use model::signal::Code;
use model::time::Timestamp;
use rustls::pki_types::{CertificateDer, UnixTime};
use serde::Deserialize;
use wire::spiffe::Spiffe;
use wire::tls::PeerCertificate;

/// Longest life of a token, and how far its times may be off.
const MAX_LIFE_S: i64 = 300;
const LEEWAY_S: i64 = 60;

#[derive(Deserialize)]
struct Header {
    alg: String,
    x5c: Vec<String>,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    aud: Vec<String>,
    iat: i64,
    nbf: i64,
    exp: i64,
    jti: String,
    sans: Vec<String>,
    kind: CertificateKind,
    cnf: Confirmation,
}

#[derive(Deserialize)]
struct Confirmation {
    #[serde(rename = "x5rt#S256")]
    csr_sha256: String,
}

/// A token that says what it must, signed by a device certificate of ours. The row behind the certificate is still
/// to be asked.
#[derive(Debug)]
pub(super) struct DeviceToken {
    pub(super) device: PeerCertificate,
    pub(super) name: Spiffe,
    pub(super) jti: String,
    /// Whole seconds, rounded down.
    pub(super) issued_at: Timestamp,
    pub(super) expires_at: Timestamp,
}

/// Why a token does not count, and whose device signed it, if that much was proved.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) code: Code,
    pub(super) why: &'static str,
    pub(super) by: Option<Spiffe>,
}

pub(super) struct Expected<'a> {
    pub(super) device_root: &'a CertificateDer<'static>,
    pub(super) audience: &'a str,
    pub(super) csr_der: &'a [u8],
    pub(super) kind: CertificateKind,
    pub(super) now: Timestamp,
}

pub(super) fn open(token: &str, expected: &Expected<'_>) -> Result<DeviceToken, Refused> {
    let refuse = |why| Refused {
        code: Code::DeviceTokenInvalid,
        why,
        by: None,
    };
    if token.len() > 32 * 1024 {
        return Err(refuse("the token is too long"));
    }
    let mut parts = token.split('.');
    let (Some(header), Some(claims), Some(signature), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(refuse("not three parts"));
    };
    let head: Header = decode(header).ok_or_else(|| refuse("the header cannot be read"))?;
    if head.alg != "ES256" {
        return Err(refuse("alg must be ES256"));
    }
    let chain: Vec<CertificateDer<'static>> = head
        .x5c
        .iter()
        .take(4)
        .map(|text| BASE64.decode(text.as_bytes()).map(CertificateDer::from))
        .collect::<Result<_, _>>()
        .map_err(|_| refuse("x5c is not base64"))?;
    let (leaf, intermediates) = chain.split_first().ok_or_else(|| refuse("x5c is empty"))?;
    verify_chain(leaf, intermediates, expected).map_err(refuse)?;
    let device = PeerCertificate::parse(leaf).map_err(|_| refuse("the device certificate cannot be read"))?;
    let signed = &token[..header.len() + 1 + claims.len()];
    let raw = BASE64URL_NOPAD
        .decode(signature.as_bytes())
        .map_err(|_| refuse("the signature is not base64url"))?;
    let (_, parsed) =
        x509_parser::parse_x509_certificate(leaf).map_err(|_| refuse("the device certificate cannot be read"))?;
    UnparsedPublicKey::new(
        &ECDSA_P256_SHA256_FIXED,
        parsed.public_key().subject_public_key.data.as_ref(),
    )
    .verify(signed.as_bytes(), &raw)
    .map_err(|_| refuse("the signature does not verify"))?;
    let by = device.spiffe.clone();
    let claims: Option<Claims> = decode(claims);
    let unread = (Code::DeviceTokenInvalid, "the claims cannot be read");
    claims
        .ok_or(unread)
        .and_then(|claims| judge(claims, device, expected))
        .map_err(|(code, why)| Refused { code, why, by })
}

fn judge(
    claims: Claims,
    device: PeerCertificate,
    expected: &Expected<'_>,
) -> Result<DeviceToken, (Code, &'static str)> {
    let refuse = |why| (Code::DeviceTokenInvalid, why);
    let name = device
        .spiffe
        .clone()
        .ok_or(refuse("the device certificate has no name"))?;
    let own = name.to_string();
    if claims.sub != own || claims.sans != [own] {
        return Err((
            Code::CertNameMismatch,
            "the token asks for a name that is not the device's",
        ));
    }
    // Signed, not taken from the request: whoever may ask for a working certificate must not get a device credential.
    if claims.kind != expected.kind {
        return Err(refuse("the token vouches for another kind of certificate"));
    }
    if !claims.aud.iter().any(|aud| aud == expected.audience) {
        return Err(refuse("the token is for somebody else"));
    }
    let csr_sha256 = BASE64URL_NOPAD.encode(Sha256::of(expected.csr_der).as_bytes());
    if claims.cnf.csr_sha256 != csr_sha256 {
        return Err(refuse("the token vouches for another request"));
    }
    if !(16..=128).contains(&claims.jti.len()) {
        return Err(refuse("jti has no right length"));
    }
    let now_s = expected.now.millis() / 1000;
    // Saturating: a life longer than numbers go is still too long.
    if claims.exp.saturating_sub(claims.iat) > MAX_LIFE_S || claims.exp <= claims.iat {
        return Err(refuse("the token lives too long"));
    }
    if now_s + LEEWAY_S < claims.nbf.max(claims.iat) || now_s - LEEWAY_S > claims.exp {
        return Err((Code::ClockSkew, "the token's times do not include now"));
    }
    Ok(DeviceToken {
        device,
        name,
        jti: claims.jti,
        issued_at: Timestamp::from_millis(claims.iat.saturating_mul(1000)),
        expires_at: Timestamp::from_millis(claims.exp.saturating_mul(1000)),
    })
}

fn verify_chain(
    leaf: &CertificateDer<'static>,
    intermediates: &[CertificateDer<'static>],
    expected: &Expected<'_>,
) -> Result<(), &'static str> {
    let mut roots = rustls::RootCertStore::empty();
    let untrusted = "the device certificate is not one of ours or not valid now";
    roots.add(expected.device_root.clone()).map_err(|_| untrusted)?;
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(roots.into(), wire::tls::provider())
        .build()
        .map_err(|_| untrusted)?;
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_millis(expected.now.millis().max(0) as u64));
    verifier
        .verify_client_cert(leaf, intermediates, now)
        .map_err(|_| untrusted)?;
    Ok(())
}

fn decode<T: for<'de> Deserialize<'de>>(part: &str) -> Option<T> {
    let bytes = BASE64URL_NOPAD.decode(part.as_bytes()).ok()?;
    if !model::json::nesting_within(&bytes, 8) {
        return None;
    }
    serde_json::from_slice(&bytes).ok()
}
