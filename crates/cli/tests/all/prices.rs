//! Prices: decimals for people, millionths for programs, and no change of one by accident.

use serde_json::{Value, json};

use crate::server::{Answer, Asked, Server};
use crate::town::{Home, gpuaas, page};

fn sku(micro: &Value) -> Value {
    json!({
        "id": "sku_0000000000000000000000000g", "name": "slice.h100.1", "kind": "slice", "price_micro_per_hour": micro,
        "currency": "USD", "version": 1,
    })
}

pub(crate) async fn catalogue() -> Server {
    let old = sku(&json!(2_000_000));
    Server::start(move |asked: &Asked, _| match asked.method.as_str() {
        "GET" if asked.path.contains('?') => Answer::Json(200, page(std::slice::from_ref(&old), None)),
        "GET" => Answer::Json(200, old.clone()),
        _ => Answer::Json(200, sku(&asked.body["price_micro_per_hour"])),
    })
    .await
}

fn posts(server: &Server) -> Vec<Value> {
    let posts = server.asked().into_iter().filter(|asked| asked.method == "POST");
    posts.map(|asked| asked.body).collect()
}

#[tokio::test]
async fn a_price_is_typed_in_its_currency_and_asked_about() {
    let (home, server) = (Home::new(), catalogue().await);
    let line = || gpuaas(&["sku", "price", "slice.h100.1", "3"]).at(&server.url);
    let said = line().run(&home).await;
    assert!(said.exit == 2 && said.err.contains("--yes"), "{}", said.err);
    let said = line().on_a_terminal().stdin("n\n").run(&home).await;
    assert_eq!(said.exit, 2, "{}", said.err);
    assert!(said.err.contains("2.00 → 3.00 USD/h. Go on? [y/N] "), "{}", said.err);
    assert!(posts(&server).is_empty());
    let said = line().on_a_terminal().stdin("y\n").run(&home).await;
    assert_eq!(said.exit, 0, "{}", said.err);
    assert_eq!(
        said.out,
        "slice.h100.1: 2.00 → 3.00 USD/h, for whoever comes from now on\n"
    );
    let exact = ["sku", "price", "slice.h100.1", "0.125", "--yes"];
    assert_eq!(gpuaas(&exact).at(&server.url).run(&home).await.exit, 0);
    let body = |micro: u64| json!({ "price_micro_per_hour": micro });
    assert_eq!(posts(&server), [body(3_000_000), body(125_000)]);
}

#[tokio::test]
async fn what_is_no_amount_is_wrong_usage() {
    let (home, server) = (Home::new(), catalogue().await);
    for typed in ["0.0000001", "3USD", "1,50"] {
        let said = gpuaas(&["sku", "price", "slice.h100.1", typed, "--yes"])
            .at(&server.url)
            .run(&home)
            .await;
        assert!(
            said.exit == 2 && said.err.contains("at most 6 decimals"),
            "{}",
            said.err
        );
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn people_see_an_amount_where_scripts_read_millionths() {
    let (home, server) = (Home::new(), catalogue().await);
    let said = gpuaas(&["sku", "list"])
        .at(&server.url)
        .on_a_terminal()
        .run(&home)
        .await;
    assert!(
        said.out.contains("2.00 USD/h") && !said.out.contains("2000000"),
        "{}",
        said.out
    );
    let said = gpuaas(&["sku", "show", "slice.h100.1"])
        .at(&server.url)
        .run(&home)
        .await;
    let told = "price_micro_per_hour\t2000000\ncurrency\tUSD\n";
    assert!(said.out.contains(told), "{}", said.out);
    let columns = ["sku", "list", "--columns", "name,price_micro_per_hour,currency"];
    let said = gpuaas(&columns).at(&server.url).run(&home).await;
    assert_eq!(said.out, "slice.h100.1\t2000000\tUSD\n");
}
