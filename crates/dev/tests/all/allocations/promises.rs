//! A tenant gets what the SKU says and nothing else: its GPU, its memory and disk, an image that operators have signed.

use model::api::{CataloguePublish, FreeCount, SkuCreate, SkuView};
use model::signal::Code;

use super::*;

async fn offers(market: &Market, sku: &SkuCreate) -> Result<SkuView, Code> {
    let made = market.api().post("/v1/skus", sku).await;
    made.map_err(|error| code(&error))
}

fn code(error: &anyhow::Error) -> Code {
    let refused = error.downcast_ref::<dev::api::Refused>().expect("an answer");
    refused.code().expect("a code")
}

async fn rents(market: &Market, sku: &str) -> Code {
    let wish = AllocationCreate {
        sku: sku.to_owned(),
        ..Market::wish()
    };
    let made = market
        .api()
        .post_as::<AllocationView>(&sku.replace('.', "-"), "/v1/allocations", &wish)
        .await;
    code(&made.expect_err("refused"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_is_less_than_promised_is_not_handed_out() {
    let market = Market::open().await;
    let honest = dev::demo::sku("slice.h100.2", 2).expect("a SKU");
    assert_eq!(offers(&market, &honest).await.expect("made").free, FreeCount::Few);
    let change = |name: &str, change: fn(&mut SkuCreate)| {
        let mut sku = dev::demo::sku(name, 1).expect("a SKU");
        change(&mut sku);
        sku
    };
    let more = [
        change("slice.l40s.1", |sku| sku.gpu_model = "L40S".to_owned()),
        change("slice.more-disk", |sku| sku.nvme_gib *= 2),
        change("slice.more-memory", |sku| sku.memory_mib *= 2),
        change("slice.more-vcpu", |sku| sku.vcpu *= 2),
    ];
    for sku in more {
        assert_eq!(
            offers(&market, &sku).await.expect("made").free,
            FreeCount::None,
            "{}",
            sku.name
        );
        assert_eq!(rents(&market, &sku.name).await, Code::NoCapacity, "{}", sku.name);
    }
    assert_eq!(market.free().await, 8);
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_nobody_has_signed_is_not_rented() {
    let market = Market::open().await;
    let mut sku = dev::demo::sku("slice.unlisted", 1).expect("a SKU");
    sku.images = vec!["unlisted.raw".parse().expect("a name")];
    assert_eq!(offers(&market, &sku).await.expect_err("not listed"), Code::FieldInvalid);
    // Listed when the SKU was made, and taken off the list since.
    let keys = market.town.dir().join("keys");
    let operators = dev::images::Operators {
        keys_dir: &keys,
        now: market.town.db.clock().now(),
    };
    let document = operators
        .sign(&market.api(), |next| next.images.clear())
        .await
        .expect("signed");
    let _: model::api::CatalogueView = market
        .api()
        .post("/v1/images/catalogue", &CataloguePublish { document })
        .await
        .expect("published");
    assert_eq!(rents(&market, dev::demo::SKU).await, Code::ImageNotListed);
    assert_eq!(market.free().await, 8, "nothing was reserved for it");
    market.close().await;
}
