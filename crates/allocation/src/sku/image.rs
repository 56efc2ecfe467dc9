//! The one place where an image's name becomes a file and its digest. Today a SKU lists its images itself.

use base::http::{Answer, ApiError};
use model::api::SkuImage;
use model::signal::Code;
use model::value::Name;

use super::store::SkuRow;

/// The image of this name, or the SKU's first.
pub fn look_up(sku: &SkuRow, name: Option<&Name>) -> Answer<SkuImage> {
    let images = sku.images()?;
    let found = match name {
        Some(name) => images.into_iter().find(|image| image.name == *name),
        None => images.into_iter().next(),
    };
    found.ok_or_else(|| ApiError::new(Code::ImageUnknown).detail("sku", sku.name.as_str()))
}
