//! What a newcomer finds: a project, something to rent in it, and a key that nobody has the other half of. There
//! are no funds yet, and nothing is charged.

use anyhow::Context;
use model::api::{KeyCreate, KeyView, Page, ProjectCreate, ProjectView, SkuCreate, SkuKind, SkuView};

use crate::api::Api;
use crate::images::DEMO;

pub const PROJECT: &str = "demo";
pub const SKU: &str = "slice.h100.1";
const PRICE_MICRO: u64 = 2_000_000;
/// A well-formed public key of nobody.
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

/// A SKU of so many slots.
pub fn sku(name: &str, slots: u32) -> anyhow::Result<SkuCreate> {
    Ok(SkuCreate {
        name: name.to_owned(),
        kind: SkuKind::Slice,
        gpu_model: "H100".to_owned(),
        gpu_count: slots,
        slots,
        vcpu: 12 * slots,
        memory_mib: 65_536 * u64::from(slots),
        nvme_gib: 3_576 * u64::from(slots),
        fabric: true,
        images: vec![DEMO.parse()?],
        price_micro_per_hour: PRICE_MICRO * u64::from(slots),
        currency: "USD".to_owned(),
    })
}

/// Makes what is missing; what is there stays as somebody has left it.
pub async fn ensure(api: &Api) -> anyhow::Result<(ProjectView, SkuView)> {
    let projects: Page<ProjectView> = api.get("/v1/projects?limit=200").await?;
    let project = match projects.items.into_iter().find(|project| project.name == PROJECT) {
        Some(project) => project,
        None => {
            let body = ProjectCreate {
                name: PROJECT.to_owned(),
                owner: None,
            };
            api.post("/v1/projects", &body).await.context("the demo project")?
        }
    };
    let skus: Page<SkuView> = api.get("/v1/skus?limit=200").await?;
    let sku = match skus.items.into_iter().find(|one| one.name == SKU) {
        Some(sku) => sku,
        None => api.post("/v1/skus", &sku(SKU, 1)?).await.context("the demo SKU")?,
    };
    let keys: Page<KeyView> = api.get("/v1/keys").await?;
    if keys.items.is_empty() {
        let body = KeyCreate {
            name: "demo".to_owned(),
            public_key: KEY.parse()?,
        };
        let _: KeyView = api.post("/v1/keys", &body).await.context("the demo key")?;
    }
    Ok((project, sku))
}
