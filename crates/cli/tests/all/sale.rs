//! What is for sale, and how it is taken out of it.

use serde_json::json;

use crate::prices::catalogue;
use crate::town::{Home, gpuaas};

#[tokio::test]
async fn what_is_for_sale_is_changed_in_the_version_that_was_looked_at() {
    let (home, server) = (Home::new(), catalogue().await);
    let says = async |flags: &[&str]| {
        let words = [&["sku", "update", "slice.h100.1"], flags].concat();
        gpuaas(&words).at(&server.url).on_a_terminal().run(&home).await
    };
    for (flags, told, body) in [
        (
            &["--hide"][..],
            "slice.h100.1: nobody can rent it any more; what is rented goes on\n",
            json!({ "visible": false, "images": null }),
        ),
        (
            &["--show", "--images", "a.raw,b.raw"],
            "slice.h100.1: it can be rented again; it boots a.raw, b.raw from now on\n",
            json!({ "visible": true, "images": ["a.raw", "b.raw"] }),
        ),
    ] {
        let said = says(flags).await;
        assert_eq!((said.exit, said.out.as_str()), (0, told), "{}", said.err);
        let last = server.asked().pop().expect("asked");
        assert_eq!((last.method.as_str(), &last.body), ("PATCH", &body));
        assert_eq!(last.if_match.as_deref(), Some("\"1\""));
    }
    for flags in [&[][..], &["--hide", "--show"]] {
        assert_eq!(says(flags).await.exit, 2, "{flags:?}");
    }
}
