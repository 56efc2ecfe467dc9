//! Images of a simulated platform: files of its image directory, listed in the catalogue with the operators' key, as
//! `gpuaas image add` would. Nothing boots them; simulated nodes fetch and hash them like any other.

use std::path::Path;

use anyhow::Context;
use model::api::{CataloguePublish, CatalogueView};
use model::catalogue::{CATALOGUE_TYPE, Catalogue, CatalogueImage};
use model::digest::Sha256;
use model::dsse::{self, Envelope};
use model::key::SigningKey;
use model::task::vm_provision::{DriverStrategy, ImageFormat};
use model::time::Timestamp;

use crate::api::Api;
use crate::platform::images_dir;

/// What `make dev` lists.
pub const DEMO: &str = "demo.raw";
const DEMO_BYTES: usize = 4 << 20;

/// Where the keys of a platform lie, the operators' among them.
#[derive(Clone, Copy, Debug)]
pub struct Operators<'a> {
    pub keys_dir: &'a Path,
    pub now: Timestamp,
}

impl Operators<'_> {
    pub fn key(&self) -> anyhow::Result<SigningKey> {
        let path = self.keys_dir.join("catalogue.key");
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        SigningKey::from_text(&text).map_err(|_| anyhow::anyhow!("{}: no key", path.display()))
    }

    /// Puts a file into the image directory and says what the catalogue has to say of it.
    pub fn file(&self, name: &str, bytes: &[u8]) -> anyhow::Result<CatalogueImage> {
        let dir = images_dir(self.keys_dir);
        std::fs::create_dir_all(&dir)?;
        std::fs::write(dir.join(name), bytes)?;
        Ok(CatalogueImage {
            name: name.parse()?,
            sha256: Sha256::of(bytes),
            size_bytes: bytes.len() as u64,
            format: ImageFormat::Raw,
            virtual_size_bytes: bytes.len() as u64,
            url: None,
            default_username: "ada".parse()?,
            driver_strategy: DriverStrategy::None,
            added_at: self.now,
        })
    }

    /// The next catalogue, signed, with whatever `change` makes of the images.
    pub async fn sign(&self, api: &Api, change: impl FnOnce(&mut Catalogue)) -> anyhow::Result<Envelope> {
        let (key, view): (_, CatalogueView) = (self.key()?, api.get("/v1/images/catalogue").await?);
        let mut next = match &view.document {
            Some(document) => Catalogue::open(document, Some(key.public()), view.installation)
                .map_err(|code| anyhow::anyhow!("the catalogue in force: {code}"))?,
            None => Catalogue::empty(view.installation, self.now),
        };
        next.version += 1;
        next.issued_at = self.now;
        change(&mut next);
        Ok(dsse::sign_json(CATALOGUE_TYPE, &next, &[&key]))
    }

    pub async fn list(&self, api: &Api, image: &CatalogueImage) -> anyhow::Result<CatalogueView> {
        let change = |next: &mut Catalogue| {
            next.images.retain(|listed| listed.name != image.name);
            next.images.push(image.clone());
        };
        let document = self.sign(api, change).await?;
        api.post("/v1/images/catalogue", &CataloguePublish { document }).await
    }

    /// Lists the demonstration image, unless it is listed already.
    pub async fn demo(&self, api: &Api) -> anyhow::Result<CatalogueImage> {
        let mut bytes = b"gpuaas demonstration image: simulated nodes fetch it, and nothing boots it\n".to_vec();
        bytes.resize(DEMO_BYTES, 0);
        let image = self.file(DEMO, &bytes)?;
        let view: CatalogueView = api.get("/v1/images/catalogue").await?;
        let key = self.key()?.public();
        let listed = view
            .document
            .and_then(|document| Catalogue::open(&document, Some(key), view.installation).ok())
            .is_some_and(|catalogue| catalogue.by_digest(&image.sha256).is_some());
        if !listed {
            self.list(api, &image).await?;
        }
        Ok(image)
    }
}
