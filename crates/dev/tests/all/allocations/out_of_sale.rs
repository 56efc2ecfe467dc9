//! What an operator takes out of sale is not there for whoever wants to rent; what is rented already goes on.

use base::auth::Scope;
use dev::api::Refused;
use http::{Method, StatusCode, header};
use model::api::{Page, SkuView};
use model::signal::Code;
use serde_json::Value;
use wire::http::Response;

use super::*;

async fn updates(api: &Api, sku: &SkuView, body: Value) -> Response {
    let path = format!("/v1/skus/{}", sku.id);
    api.call(Method::PATCH, &path, Some(&body)).await.expect("an answer")
}

async fn rents(market: &Market, key: &str) -> Result<AllocationView, Option<(Code, Value)>> {
    let made = market.api().post_as(key, "/v1/allocations", &Market::wish()).await;
    made.map_err(|error| {
        let body = error.downcast_ref::<Refused>()?.body.as_ref()?;
        Some((body.code, body.details["field"].clone()))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_out_of_sale_is_not_seen_and_not_rented_until_it_is_back() {
    let market = Market::open().await.unplug().await;
    let (_, tenant) = market.town.person("tenant", Scope::Project).await;
    let (_, operator) = market.town.person("operator", Scope::Operator).await;
    let seen = async |api: &Api| -> Vec<SkuView> {
        let page: Page<SkuView> = api.get("/v1/skus").await.expect("a list");
        page.items
    };
    let before = seen(&tenant).await.remove(0);
    let path = format!("/v1/skus/{}", before.id);
    let goes_on = rents(&market, "one").await.expect("accepted");

    let refused = updates(&tenant, &before, json!({ "visible": false })).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let hidden = updates(&operator, &before, json!({ "visible": false })).await;
    assert_eq!(
        (hidden.status, hidden.headers[header::ETAG].as_bytes()),
        (StatusCode::OK, &b"\"2\""[..])
    );
    let hidden: SkuView = hidden.json().expect("a SKU");
    assert_eq!(
        (hidden.visible, hidden.price_micro_per_hour, hidden.images),
        (false, before.price_micro_per_hour, before.images.clone())
    );
    assert_eq!((seen(&tenant).await.len(), seen(&operator).await.len()), (0, 1));
    let shown = tenant.call(Method::GET, &path, None::<&()>).await.expect("an answer");
    assert_eq!(shown.status, StatusCode::NOT_FOUND);
    let none = rents(&market, "two").await.expect_err("out of sale");
    assert_eq!(none, Some((Code::FieldInvalid, json!("sku"))));
    assert_eq!(market.shows(goes_on.id).await.sku, before.name);

    // Whoever has not seen that it is hidden is told so.
    let stale = operator.patch_if(&path, "\"1\"", &json!({ "visible": true })).await;
    let error = stale.expect("an answer").error().expect("an envelope");
    assert_eq!(
        (error.code, &error.details["version"]),
        (Code::VersionConflict, &json!(2))
    );
    assert_eq!(seen(&tenant).await.len(), 0, "nothing was done");

    let back = operator.patch_if(&path, "\"2\"", &json!({ "visible": true })).await;
    assert_eq!(back.expect("an answer").status, StatusCode::OK);
    assert_eq!(seen(&tenant).await.len(), 1);
    rents(&market, "three").await.expect("accepted");
    let pool = market.town.platform.apps[0].db.read();
    let told: Vec<Value> = sqlx::query_scalar("select data from outbox where kind = 'sku.changed' order by seq")
        .fetch_all(pool)
        .await
        .expect("events");
    let visible: Vec<_> = told.iter().map(|data| data["visible"].as_bool()).collect();
    assert_eq!(visible, [Some(false), Some(true)]);
    let done = "select count(*) from audit where action = 'sku.update' and outcome = 'ok' and target_id = $1";
    let done: i64 = sqlx::query_scalar(done)
        .bind(before.id.to_string())
        .fetch_one(pool)
        .await
        .expect("a count");
    assert_eq!(done, 2);
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_images_have_to_be_ones_that_can_be_booted() {
    let town = Town::start(EXE).await;
    town.lists_demo_image().await;
    let (_, sku) = dev::demo::ensure(&town.api()).await.expect("something to rent");
    for images in [json!([]), json!(["unlisted.raw"])] {
        let refused = updates(&town.api(), &sku, json!({ "images": images })).await;
        let error = refused.error().expect("an envelope");
        assert_eq!(
            (error.code, &error.details["field"]),
            (Code::FieldInvalid, &json!("images"))
        );
    }
    // What it has already is nothing new; a new price goes on from the last version, whatever that was about.
    for (body, version) in [
        (json!({ "images": sku.images }), 1),
        (json!({}), 1),
        (json!({ "visible": false, "images": sku.images }), 2),
    ] {
        let seen: SkuView = updates(&town.api(), &sku, body).await.json().expect("a SKU");
        assert_eq!(seen.version, version);
    }
    let path = format!("/v1/skus/{}/price", sku.id);
    let dearer = json!({ "price_micro_per_hour": 3_000_000 });
    let dearer: SkuView = town.api().post(&path, &dearer).await.expect("a price");
    assert_eq!((dearer.version, dearer.visible), (3, false));
    town.end().await;
}
