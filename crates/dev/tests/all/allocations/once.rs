//! An answer that is lost on its way: whoever rents from the command line has one machine, and not two.

use std::sync::Arc;

use cli::Env;
use dev::dice::Dice;
use dev::proxy::{Policy, Proxy, Speech};
use model::api::Page;
use tokio_util::task::TaskTracker;
use wire::stop::Stop;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_makes_no_second_allocation() {
    let market = Market::open().await.unplug().await;
    let (stop, tracker) = (Stop::new(), TaskTracker::new());
    let door = market
        .api()
        .url()
        .trim_start_matches("http://")
        .parse()
        .expect("an address");
    let proxy = Proxy::start(
        Speech::Plain,
        Arc::new(move || vec![door]),
        Dice::new(7),
        &tracker,
        &stop,
    )
    .await;
    let proxy = proxy.expect("a port");
    proxy.set(Policy::Lose {
        requests_pct: 0,
        answers_pct: 100,
    });
    let url = format!("http://{}", proxy.address);
    let (token, home) = (market.api().token().to_owned(), market.town.dir().display().to_string());
    let renting = async {
        let vars = [("GPUAAS_URL", url.as_str()), ("GPUAAS_TOKEN", &token), ("HOME", &home)];
        let (env, captured) = Env::captured(vars);
        let exit = cli::run(["gpuaas", "allocation", "create", "--sku", dev::demo::SKU], env).await;
        (exit, captured.stdout(), captured.stderr())
    };
    let mending = async {
        eventually("an answer is lost", async || match proxy.counts().lost_answers {
            0 => Err("not yet"),
            _ => Ok(()),
        })
        .await;
        proxy.set(Policy::Pass);
    };
    let ((exit, out, err), ()) = tokio::join!(renting, mending);
    assert_eq!(exit, 0, "{out} {err}");
    let page: Page<AllocationView> = market.api().get("/v1/allocations").await.expect("a list");
    let [only] = page.items.as_slice() else {
        panic!("{:?}", page.items)
    };
    assert!(out.contains(&only.id.to_string()), "{out} {err}");
    stop.trigger();
    tracker.close();
    tracker.wait().await;
    market.close().await;
}
