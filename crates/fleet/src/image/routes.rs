//! What operators can do with images. Signing happens where their key is; here they read and publish.

use axum::Json;
use axum::extract::State;
use base::auth::Scope;
use base::http::{Access, Answer, ApiError, Body, PageQuery, Route, Routes, Search};
use base::tx::{Actor, Target};
use model::api::{CataloguePublish, CatalogueView, ImageView, Page};
use model::catalogue::CatalogueImage;
use model::digest::Sha256;
use model::signal::Code;
use model::time::Timestamp;
use uuid::Uuid;

use super::bytes::is_served;
use super::follow::follow;
use super::publish::publish;
use crate::Fleet;

const WRITE: Access = Access::Scopes(&[Scope::Operator]);
const READ: Access = Access::Scopes(&[Scope::Operator, Scope::Support, Scope::Auditor]);

pub fn routes() -> Routes<Fleet> {
    Routes::new([
        Route::get("/v1/images", READ, list)
            .summary("List the images that slices may be made of")
            .searches::<PageQuery>()
            .answers::<Page<ImageView>>(),
        Route::get("/v1/images/catalogue", READ, show)
            .summary("The signed catalogue, as the next one is made from it")
            .answers::<CatalogueView>(),
        Route::post("/v1/images/catalogue", WRITE, post)
            .summary("Publish the next catalogue, signed by the operators' key")
            .takes::<CataloguePublish>()
            .answers::<CatalogueView>()
            .fails(&[
                Code::CatalogueRejected,
                Code::CatalogueKeyMissing,
                Code::VersionConflict,
            ]),
    ])
}

/// Where an image stands in the list. It has no id; its name is one.
fn place(image: &CatalogueImage) -> (Timestamp, Uuid) {
    let mut id = [0; 16];
    id.copy_from_slice(&Sha256::of(image.name.as_str().as_bytes()).as_bytes()[..16]);
    (image.added_at, Uuid::from_bytes(id))
}

async fn list(State(fleet): State<Fleet>, Search(query): Search<PageQuery>) -> Answer<Json<Page<ImageView>>> {
    let page = query.page("images", &fleet.app.cursors)?;
    follow(&fleet).await.map_err(ApiError::internal)?;
    let published = fleet.images();
    let images = published.catalogue().map(|catalogue| catalogue.images.clone());
    let mut images = images.unwrap_or_default();
    images.sort_by_key(|image| std::cmp::Reverse(place(image)));
    images.retain(|image| page.after.is_none_or(|after| place(image) < after));
    images.truncate(usize::try_from(page.fetch()).unwrap_or(usize::MAX));
    let dir = &fleet.app.config.images_dir;
    Ok(Json(page.answer(
        images,
        "images",
        &fleet.app.cursors,
        place,
        |image| ImageView {
            served: is_served(dir, &image),
            image,
            catalogue_version: published.version(),
        },
    )))
}

/// The newest there is, whichever replica took it: the next one is signed on top of it.
async fn show(State(fleet): State<Fleet>) -> Answer<Json<CatalogueView>> {
    follow(&fleet).await.map_err(ApiError::internal)?;
    Ok(Json(view(&fleet)))
}

fn view(fleet: &Fleet) -> CatalogueView {
    let published = fleet.images();
    CatalogueView {
        installation: fleet.app.installation,
        version: published.version(),
        key: fleet.keyring().delegation().catalogue_key.map(|key| key.keyid()),
        document: published.document.clone(),
    }
}

async fn post(
    State(fleet): State<Fleet>,
    actor: Actor,
    Body(body): Body<CataloguePublish>,
) -> Answer<Json<CatalogueView>> {
    match publish(&fleet, &actor, body.document).await {
        Ok(()) => Ok(Json(view(&fleet))),
        Err(error) => {
            if error.code == Code::CatalogueRejected {
                // Somebody with an operator's token and without the operators' key.
                let target = Target::from(fleet.app.installation);
                let db = &fleet.app.db;
                db.refusal(&actor, "image.publish", target, error.code).await?;
            }
            Err(error)
        }
    }
}
