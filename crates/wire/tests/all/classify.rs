//! Every way not to get an answer has its own word.

use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use wire::http::{Client, ErrorKind};
use wire::serve::Limits;
use wire::tls::{client_config, server_config};

use crate::pki::Ca;
use crate::site::Site;

async fn kind_of(client: Client, path: &str) -> ErrorKind {
    client.get(path).send().await.expect_err("no answer of ours").kind
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let url = format!("http://{}", listener.local_addr().expect("address"));
    drop(listener);
    assert_eq!(
        kind_of(Client::builder(&url).expect("url").build(), "/").await,
        ErrorKind::TcpRefused
    );
}

#[tokio::test]
async fn certificates_are_not_switched_off_by_a_url() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let url = format!("http://{}", listener.local_addr().expect("address"));
    let tls = client_config(None, &[Ca::new("ca").der]).expect("configuration");
    let client = Client::builder(&url).expect("url").tls(tls).build();
    assert_eq!(kind_of(client, "/").await, ErrorKind::UrlInvalid);
}

#[tokio::test]
async fn nobody_answers_the_dial() {
    // A listener whose queue is full drops further SYNs, which is what a firewall does.
    let socket = TcpSocket::new_v4().expect("socket");
    socket.bind("127.0.0.1:0".parse().expect("address")).expect("bind");
    let listener = socket.listen(1).expect("listen");
    let addr = listener.local_addr().expect("address");
    let mut queue = Vec::new();
    while let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(addr)).await {
        queue.push(stream);
        assert!(queue.len() < 64, "the queue never fills");
    }
    let client = Client::builder(&format!("http://{addr}"))
        .expect("url")
        .connect_timeout(Duration::from_millis(200));
    assert_eq!(kind_of(client.build(), "/").await, ErrorKind::TcpTimeout);
}

#[tokio::test]
async fn the_name_does_not_exist() {
    let client = Client::builder("http://no-such-host.invalid").expect("url");
    assert_eq!(kind_of(client.build(), "/").await, ErrorKind::DnsFailed);
}

#[tokio::test]
async fn connected_but_silent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let addr = listener.local_addr().expect("address");
    let short = Duration::from_millis(200);
    let plain = Client::builder(&format!("http://{addr}"))
        .expect("url")
        .timeout(short)
        .build();
    assert_eq!(kind_of(plain, "/").await, ErrorKind::Timeout);
    let tls = client_config(None, &[Ca::new("ca").der]).expect("client");
    let tls = Client::builder(&format!("https://{addr}"))
        .expect("url")
        .tls(tls)
        .connect_timeout(short)
        .build();
    assert_eq!(kind_of(tls, "/").await, ErrorKind::Timeout);
}

#[tokio::test]
async fn somebody_else_answers() {
    let site = Site::start(None, Limits::default()).await;
    assert_eq!(kind_of(site.client().build(), "/stranger").await, ErrorKind::NotGpuaas);
    assert_eq!(kind_of(site.client().build(), "/large").await, ErrorKind::BodyTooLarge);
    let slowed = site
        .client()
        .build()
        .get("/slow-down")
        .send()
        .await
        .expect_err("an edge");
    assert_eq!(
        (slowed.kind, slowed.retry_after_s),
        (ErrorKind::EdgeRateLimited, Some(77))
    );

    // TLS towards a server that speaks none.
    let tls = client_config(None, &[Ca::new("ca").der]).expect("client");
    let url = format!("https://{}", site.addr);
    assert_eq!(
        kind_of(Client::builder(&url).expect("url").tls(tls).build(), "/").await,
        ErrorKind::NotGpuaas
    );
}

#[tokio::test]
async fn the_server_is_not_the_one_we_trust() {
    let (ours, theirs) = (Ca::new("ca"), Ca::new("ca"));
    for (identity, kind) in [
        (theirs.leaf(None), ErrorKind::ServerCertUntrusted),
        (ours.elsewhere(), ErrorKind::ServerNameMismatch),
        (ours.lapsed(None), ErrorKind::ServerCertExpired),
    ] {
        let tls = server_config(identity.0, identity.1, None).expect("server");
        let site = Site::start(Some(tls), Limits::default()).await;
        let tls = client_config(None, std::slice::from_ref(&ours.der)).expect("client");
        assert_eq!(kind_of(site.client().tls(tls).build(), "/hello").await, kind);
    }
}

#[test]
fn a_base_that_is_no_url_is_refused() {
    for bad in ["", "localhost", "ftp://x", "http://", "http://x/?q"] {
        assert_eq!(Client::builder(bad).expect_err(bad).kind, ErrorKind::UrlInvalid);
    }
}
