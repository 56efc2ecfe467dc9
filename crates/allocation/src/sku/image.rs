//! Where an image's name becomes a file and its digest: in the catalogue that the operators have signed. What it does not
//! list is rented by nobody, and nodes would refuse it, too.

use base::http::{Answer, ApiError};
use fleet::Fleet;
use fleet::image::newest;
use model::catalogue::CatalogueImage;
use model::signal::Code;
use model::value::FileName;
use sqlx::PgConnection;

use super::store::SkuRow;

/// The image of this name, or the SKU's first.
pub async fn look_up(
    fleet: &Fleet,
    conn: &mut PgConnection,
    sku: &SkuRow,
    name: Option<&FileName>,
) -> Answer<CatalogueImage> {
    let unknown = || ApiError::new(Code::ImageUnknown).detail("sku", sku.name.as_str());
    let offered = sku.images()?;
    let name = match name {
        Some(name) => offered.iter().find(|one| *one == name),
        None => offered.first(),
    };
    let name = name.ok_or_else(unknown)?;
    let listed = listed(fleet, conn, name).await?;
    listed.ok_or_else(|| ApiError::new(Code::ImageNotListed).detail("image", name.as_str()))
}

/// As the catalogue in force has it. Asked of the database: another process may have published a moment ago.
pub async fn listed(fleet: &Fleet, conn: &mut PgConnection, name: &FileName) -> sqlx::Result<Option<CatalogueImage>> {
    let published = newest(fleet, conn).await?;
    let images = published.catalogue().map(|catalogue| catalogue.images.as_slice());
    let found = images.unwrap_or_default().iter().find(|image| image.name == *name);
    Ok(found.cloned())
}
