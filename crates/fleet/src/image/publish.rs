//! Taking a catalogue that operators have signed. It must be the very next one: whoever signed on top of an older one
//! is told so, and nobody's image is lost by two people at once.

use std::collections::BTreeMap;

use base::http::{Answer, ApiError};
use base::tx::Actor;
use base::wake::Topic;
use model::catalogue::{Catalogue, CatalogueImage};
use model::dsse::Envelope;
use model::signal::Code;
use model::value::FileName;
use serde_json::{Value, json};

use super::follow::{follow, newest};
use super::store;
use crate::Fleet;

pub(super) async fn publish(fleet: &Fleet, actor: &Actor, document: Envelope) -> Answer<()> {
    let aud = fleet.app.installation;
    let mut change = fleet.app.db.change(actor, "image.publish", aud).await?;
    store::lock(&mut change).await?;
    let last = newest(fleet, change.conn()).await?;
    let next = Catalogue::open(&document, last.key, aud)?;
    if next.version != last.version() + 1 {
        let why = format!(
            "the catalogue in force is {}, this one is {}",
            last.version(),
            next.version
        );
        return Err(ApiError::new(Code::VersionConflict).message(why));
    }
    store::put(&mut change, next.version, &document).await?;
    let detail = changes(last.catalogue(), &next);
    change.event("image.published", aud, detail.clone());
    change.detail(detail);
    change.wake(Topic::Trust);
    change.commit().await?;
    // The loop would do it, too; but whoever asked wants to see it done.
    follow(fleet).await.map_err(ApiError::internal)
}

/// What this one says that the last one did not.
fn changes(last: Option<&Catalogue>, next: &Catalogue) -> Value {
    let by_name = |catalogue: &Catalogue| -> BTreeMap<FileName, CatalogueImage> {
        let images = catalogue.images.iter();
        images.map(|image| (image.name.clone(), image.clone())).collect()
    };
    let (before, after) = (last.map(by_name).unwrap_or_default(), by_name(next));
    let put: Vec<Value> = after
        .iter()
        .filter(|(name, image)| before.get(name) != Some(image))
        .map(|(name, image)| json!({ "name": name, "sha256": image.sha256 }))
        .collect();
    let removed: Vec<&FileName> = before.keys().filter(|name| !after.contains_key(name)).collect();
    json!({ "version": next.version, "put": put, "removed": removed })
}
