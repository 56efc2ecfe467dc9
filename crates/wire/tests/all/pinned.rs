//! First contact by the hash of a CA.

use model::digest::Sha256;
use wire::http::ErrorKind;
use wire::serve::Limits;
use wire::tls::{common_name, pinned_ca_client, server_config};

use crate::pki::{Ca, Identity};
use crate::site::Site;

async fn site_with((chain, key): Identity) -> Site {
    Site::start(
        Some(server_config(chain, key, None).expect("server")),
        Limits::default(),
    )
    .await
}

#[tokio::test]
async fn the_right_hash_is_all_that_is_needed() {
    let ca = Ca::new("gpuaas DEV CA");
    let site = site_with(ca.leaf(None)).await;
    let (tls, pinned) = pinned_ca_client(Sha256::of(&ca.der)).expect("client");
    assert!(pinned.certificate().is_none());
    site.client()
        .tls(tls)
        .build()
        .get("/hello")
        .send()
        .await
        .expect("served");
    let seen = pinned.certificate().expect("remembered");
    assert_eq!(*seen, ca.der);
    assert_eq!(common_name(seen).as_deref(), Some("gpuaas DEV CA"));
}

#[tokio::test]
async fn a_wrong_hash_a_wrong_name_and_a_wrong_time_are_refused() {
    let ca = Ca::new("ca");
    let other = Ca::new("ca");
    let mut unsigned = other.leaf(None);
    // The pinned CA stands in the chain, but did not sign the leaf.
    unsigned.0.push(ca.der.clone());
    let (chain, key) = ca.leaf(None);
    let without_ca = (chain[..1].to_vec(), key);
    for (identity, kind) in [
        (other.leaf(None), ErrorKind::ServerCertUntrusted),
        (unsigned, ErrorKind::ServerCertUntrusted),
        (without_ca, ErrorKind::ServerCertUntrusted),
        (ca.elsewhere(), ErrorKind::ServerNameMismatch),
        (ca.lapsed(None), ErrorKind::ServerCertExpired),
    ] {
        let site = site_with(identity).await;
        let (tls, pinned) = pinned_ca_client(Sha256::of(&ca.der)).expect("client");
        let error = site
            .client()
            .tls(tls)
            .build()
            .get("/hello")
            .send()
            .await
            .expect_err("refused");
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(pinned.certificate().is_none());
    }
}
