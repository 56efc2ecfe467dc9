//! The image catalogue: which images a slice may be made of, signed by the operators' own key, which the delegation
//! names. No process of the control plane holds it: whoever takes one over can publish what operators have signed, and
//! nothing else. Versions only grow, and each names every image there is.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Sha256;
use crate::dsse::{self, Envelope};
use crate::id::InstallationId;
use crate::key::PublicKey;
use crate::signal::Code;
use crate::task::vm_provision::{self, DriverStrategy, ImageFormat, Params};
use crate::time::Timestamp;
use crate::value::{FileName, Name};

pub const CATALOGUE_TYPE: &str = "application/vnd.gpuaas.image-catalogue.v1+json";
pub const MAX_IMAGES: usize = 256;
/// Of the signed text: what nodes keep room for.
pub const MAX_TEXT: usize = 224 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    pub aud: InstallationId,
    pub version: u64,
    pub issued_at: Timestamp,
    /// By name.
    pub images: Vec<CatalogueImage>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CatalogueImage {
    pub name: FileName,
    pub sha256: Sha256,
    pub size_bytes: u64,
    pub format: ImageFormat,
    /// Of the disk inside: a slot's disk has to be at least as large.
    pub virtual_size_bytes: u64,
    /// Where else than from the control plane it can be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The account that the image's first boot gives the tenant's keys to.
    pub default_username: Name,
    pub driver_strategy: DriverStrategy,
    pub added_at: Timestamp,
}

impl Catalogue {
    /// The first one of an installation has number 1.
    pub fn empty(aud: InstallationId, now: Timestamp) -> Self {
        Self {
            aud,
            version: 0,
            issued_at: now,
            images: Vec::new(),
        }
    }

    /// What these bytes say, if the operators' key of this installation has signed them and they make sense.
    pub fn open(envelope: &Envelope, key: Option<PublicKey>, aud: InstallationId) -> Result<Self, Code> {
        let key = key.ok_or(Code::CatalogueKeyMissing)?;
        let rejected = |_| Code::CatalogueRejected;
        let find = |keyid: &_| {
            if *keyid == key.keyid() {
                Ok(key)
            } else {
                Err(Code::KeyUnknown)
            }
        };
        if envelope.payload.len() > MAX_TEXT {
            return Err(Code::CatalogueRejected);
        }
        let payload = envelope.open(CATALOGUE_TYPE, find).map_err(rejected)?;
        let catalogue: Self = dsse::parse_payload(&payload).map_err(|_| Code::CatalogueRejected)?;
        if catalogue.aud != aud || catalogue.version == 0 || catalogue.check().is_err() {
            return Err(Code::CatalogueRejected);
        }
        Ok(catalogue)
    }

    /// Why it makes no sense, for a person.
    pub fn check(&self) -> Result<(), String> {
        if self.images.len() > MAX_IMAGES {
            return Err(format!("more than {MAX_IMAGES} images"));
        }
        let mut names = BTreeSet::new();
        for image in &self.images {
            let wrong = |why: &str| Err(format!("{}: {why}", image.name));
            if !names.insert(&image.name) {
                return wrong("listed twice");
            }
            for (size, what) in [(image.size_bytes, "size"), (image.virtual_size_bytes, "virtual size")] {
                if size == 0 || size >= 1 << 53 {
                    return wrong(&format!("its {what} is from 1, below 2^53"));
                }
            }
            if image.url.as_deref().is_some_and(|url| !vm_provision::plain_https(url)) {
                return wrong("its address is a plain https one without credentials");
            }
        }
        Ok(())
    }

    pub fn image(&self, name: &FileName) -> Option<&CatalogueImage> {
        self.images.iter().find(|image| image.name == *name)
    }

    pub fn by_digest(&self, sha256: &Sha256) -> Option<&CatalogueImage> {
        self.images.iter().find(|image| image.sha256 == *sha256)
    }

    /// The entry that a task names, if it says the same of the image.
    pub fn lists(&self, params: &Params) -> Option<&CatalogueImage> {
        self.image(&params.image_path).filter(|image| {
            image.sha256 == params.image_sha256
                && image.size_bytes == params.image_size_bytes
                && image.format == params.image_format
                && (params.image_url.is_none() || params.image_url == image.url)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::SigningKey;

    fn image(name: &str) -> CatalogueImage {
        CatalogueImage {
            name: name.parse().expect("a name"),
            sha256: Sha256::of(name.as_bytes()),
            size_bytes: 1,
            format: ImageFormat::Raw,
            virtual_size_bytes: 1,
            url: None,
            default_username: "ubuntu".parse().expect("a name"),
            driver_strategy: DriverStrategy::None,
            added_at: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn only_what_the_operators_key_has_signed_for_this_installation_opens() {
        let (key, aud) = (SigningKey::generate(), InstallationId::new());
        let mut catalogue = Catalogue::empty(aud, Timestamp::from_millis(0));
        catalogue.version = 1;
        catalogue.images.push(image("one"));
        let sign = |catalogue: &Catalogue, key: &SigningKey| dsse::sign_json(CATALOGUE_TYPE, catalogue, &[key]);
        let envelope = sign(&catalogue, &key);
        let open = |envelope: &Envelope| Catalogue::open(envelope, Some(key.public()), aud);
        assert_eq!(open(&envelope), Ok(catalogue.clone()));
        assert_eq!(Catalogue::open(&envelope, None, aud), Err(Code::CatalogueKeyMissing));
        let other = Catalogue::open(&envelope, Some(key.public()), InstallationId::new());
        assert_eq!(other, Err(Code::CatalogueRejected));
        assert_eq!(
            open(&sign(&catalogue, &SigningKey::generate())),
            Err(Code::CatalogueRejected)
        );
        let retyped = dsse::sign_json(crate::trust::MANIFEST_TYPE, &catalogue, &[&key]);
        assert_eq!(open(&retyped), Err(Code::CatalogueRejected));
        catalogue.images.push(image("one"));
        assert_eq!(open(&sign(&catalogue, &key)), Err(Code::CatalogueRejected));
    }

    #[test]
    fn a_full_catalogue_fits_into_its_envelope() {
        let (key, aud) = (SigningKey::generate(), InstallationId::new());
        let mut catalogue = Catalogue::empty(aud, Timestamp::from_millis(0));
        for index in 0..MAX_IMAGES {
            let mut one = image(&format!("{index:03}{}", "x".repeat(60)));
            one.url = Some(format!("https://images.example/{}", "y".repeat(60)));
            catalogue.images.push(one);
        }
        let envelope = dsse::sign_json(CATALOGUE_TYPE, &catalogue, &[&key]);
        assert!(envelope.payload.len() <= MAX_TEXT, "{}", envelope.payload.len());
    }
}
