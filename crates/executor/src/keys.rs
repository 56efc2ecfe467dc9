//! The executor's two keys, made once on this machine and never leaving it: the device key (P-256) vouches for
//! certificate renewals, the result key (Ed25519) signs what this node says it did.

use std::io;
use std::path::Path;

use anyhow::Context as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use model::key::SigningKey;
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256, SanType};

use crate::durable;

pub(crate) struct Keys {
    device: KeyPair,
    pub(crate) result: SigningKey,
}

impl Keys {
    /// The keys of this state directory; made if it has none. Two processes that start at once end up with one pair.
    pub(crate) fn ensure(state_dir: &Path) -> anyhow::Result<Self> {
        let dir = state_dir.join("keys");
        durable::ensure_private_dir(&dir).with_context(|| format!("make {}", dir.display()))?;
        let device = ensure_text(&dir.join("device.pem"), || {
            Ok(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?.serialize_pem())
        })?;
        let device = KeyPair::from_pkcs8_pem_and_sign_algo(&device, &PKCS_ECDSA_P256_SHA256)
            .context("the device key file is not a P-256 key")?;
        let result = ensure_text(&dir.join("result.key"), || Ok(SigningKey::generate().to_text()))?;
        let result = SigningKey::from_text(&result).context("the result key file")?;
        Ok(Self { device, result })
    }

    /// A request for a device certificate, PEM and DER. It carries the name that the certificate has had so far; the
    /// first one carries none, for the control plane gives it.
    pub(crate) fn device_csr(&self, uri: Option<&str>) -> anyhow::Result<(String, Vec<u8>)> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        if let Some(uri) = uri {
            params.subject_alt_names.push(SanType::URI(uri.to_owned().try_into()?));
        }
        let csr = params.serialize_request(&self.device)?;
        Ok((csr.pem()?, csr.der().to_vec()))
    }

    /// The device key's public point, uncompressed.
    pub(crate) fn device_public(&self) -> &[u8] {
        self.device.public_key_raw()
    }

    /// ES256: r and s, 32 bytes each.
    pub(crate) fn device_sign(&self, message: &[u8]) -> anyhow::Result<Vec<u8>> {
        let pkcs8 = self.device.serialized_der();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8)
            .map_err(|error| anyhow::anyhow!("the device key: {error}"))?;
        let signature = key.sign(&SystemRandom::new(), message);
        Ok(signature.context("sign with the device key")?.as_ref().to_vec())
    }
}

fn ensure_text(path: &Path, make: impl Fn() -> anyhow::Result<String>) -> anyhow::Result<String> {
    if durable::read(path)?.is_none() {
        durable::write_new(path, make()?.as_bytes(), 0o600).with_context(|| format!("write {}", path.display()))?;
    }
    let bytes = durable::read(path)?.ok_or(io::Error::from(io::ErrorKind::NotFound));
    let bytes = bytes.with_context(|| format!("read {}", path.display()))?;
    String::from_utf8(bytes).with_context(|| format!("{} is not text", path.display()))
}
