//! Dawdlers are dropped, connections grow only so old, and a stop lets requests finish.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wire::http::Client;
use wire::serve::Limits;
use wire::tls::{client_config, server_config};

use crate::pki::Ca;
use crate::site::Site;

const SOON: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_secs(10);

/// Everything the server sends until it closes.
async fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut seen = Vec::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut seen))
        .await
        .expect("closed in time");
    if let Err(error) = read {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    seen
}

#[tokio::test]
async fn half_a_header_and_half_a_handshake_are_dropped() {
    let limits = Limits {
        header_timeout: SOON,
        handshake_timeout: SOON,
        ..Limits::default()
    };
    let plain = Site::start(None, limits).await;
    let mut stream = TcpStream::connect(plain.addr).await.expect("tcp");
    stream.write_all(b"GET /hello HT").await.expect("write");
    assert!(!until_closed(&mut stream).await.starts_with(b"HTTP/1.1 200"));

    let (chain, key) = Ca::new("ca").leaf(None);
    let tls = Site::start(Some(server_config(chain, key, None).expect("server")), limits).await;
    let mut stream = TcpStream::connect(tls.addr).await.expect("tcp");
    stream.write_all(&[22, 3, 1]).await.expect("write");
    assert_eq!(until_closed(&mut stream).await, b"");
}

/// A body that the site does not want: the answer comes at once, and the rest of the body is still taken.
async fn refused_body(site: &Site) -> TcpStream {
    let mut stream = TcpStream::connect(site.addr).await.expect("tcp");
    let head = b"POST /hello HTTP/1.1\r\nhost: x\r\ncontent-length: 1073741824\r\n\r\n";
    stream.write_all(head).await.expect("write");
    stream.write_all(&[b' '; 64 * 1024]).await.expect("write");
    stream
}

#[tokio::test]
async fn who_still_sends_hears_why_it_is_refused() {
    let site = Site::start(None, Limits::default()).await;
    let mut stream = refused_body(&site).await;
    let mut seen = Vec::new();
    stream.read_to_end(&mut seen).await.expect("no reset");
    assert!(seen.starts_with(b"HTTP/1.1 405 "), "{}", String::from_utf8_lossy(&seen));
    // More than lies in buffers: somebody takes it.
    for _ in 0..128 {
        stream.write_all(&[b' '; 64 * 1024]).await.expect("no reset");
    }
}

#[tokio::test]
async fn who_never_stops_sending_is_cut() {
    let site = Site::start(None, Limits::default()).await;
    let mut stream = refused_body(&site).await;
    let sending = async { while stream.write_all(&[b' '; 64 * 1024]).await.is_ok() {} };
    tokio::time::timeout(DEADLINE, sending).await.expect("cut in time");
}

/// A site with one handshake at a time, and a client that has begun one and says nothing more.
async fn with_a_dawdler(handshake_turn: Duration) -> (Site, TcpStream, Client) {
    let ca = Ca::new("ca");
    let (chain, key) = ca.leaf(None);
    let limits = Limits {
        max_handshakes: 1,
        handshake_turn,
        ..Limits::default()
    };
    let site = Site::start(Some(server_config(chain, key, None).expect("server")), limits).await;
    let mut dawdler = TcpStream::connect(site.addr).await.expect("tcp");
    dawdler.write_all(&[22, 3, 1]).await.expect("write");
    let tls = client_config(None, std::slice::from_ref(&ca.der)).expect("client");
    let client = site.client().tls(tls).build();
    (site, dawdler, client)
}

#[tokio::test]
async fn handshakes_take_turns() {
    let (_site, dawdler, client) = with_a_dawdler(DEADLINE).await;
    let mut request = std::pin::pin!(client.get("/hello").send());
    tokio::time::timeout(3 * SOON, request.as_mut())
        .await
        .expect_err("it is the other one's turn");
    drop(dawdler);
    request.await.expect("its own turn now");
}

#[tokio::test]
async fn a_dawdler_loses_its_turn_and_not_its_connection() {
    let (_site, dawdler, client) = with_a_dawdler(SOON).await;
    client.get("/hello").send().await.expect("served beside the dawdler");
    let mut seen = [0];
    let waiting = dawdler.try_read(&mut seen).expect_err("still there");
    assert_eq!(waiting.kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_connection_grows_only_so_old() {
    let site = Site::start(
        None,
        Limits {
            max_connection_age: SOON,
            ..Limits::default()
        },
    )
    .await;
    let mut stream = TcpStream::connect(site.addr).await.expect("tcp");
    stream
        .write_all(b"GET /hello HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("write");
    // Kept alive by the client, idle well below the header timeout, and closed all the same.
    assert!(until_closed(&mut stream).await.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn a_request_that_is_held_outlives_the_age_of_its_connection() {
    let site = Site::start(
        None,
        Limits {
            max_connection_age: SOON,
            drain: Duration::ZERO,
            ..Limits::default()
        },
    )
    .await;
    let client = site.client().build();
    let mut request = tokio::spawn(async move { client.get("/held").send().await });
    site.held.arrived.notified().await;
    assert!(
        tokio::time::timeout(4 * SOON, &mut request).await.is_err(),
        "it is held"
    );
    site.held.release.notify_one();
    let answer = request.await.expect("no panic").expect("an answer");
    assert!(answer.status.is_success());
}

#[tokio::test]
async fn the_place_of_a_closed_connection_is_free_again() {
    let site = Site::start(
        None,
        Limits {
            max_connections: 1,
            header_timeout: SOON,
            ..Limits::default()
        },
    )
    .await;
    let _idle = TcpStream::connect(site.addr).await.expect("tcp");
    // Served once the idle one has been dropped.
    site.client().build().get("/hello").send().await.expect("served");
}

#[tokio::test]
async fn a_stop_lets_a_request_under_way_finish() {
    let site = Site::start(None, Limits::default()).await;
    let client = site.client().build();
    let request = tokio::spawn(async move { client.get("/held").send().await });
    site.held.arrived.notified().await;
    site.stop.trigger();
    let late = site.client().build();
    loop {
        // The listener closes as soon as the accept loop has seen the stop.
        if late.get("/hello").send().await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    site.held.release.notify_one();
    let answer = request.await.expect("task").expect("answered");
    assert_eq!(answer.json::<String>().expect("json"), "released");
    tokio::time::timeout(DEADLINE, site.ended()).await.expect("drained");
}

#[tokio::test]
async fn what_does_not_finish_is_cut() {
    let site = Site::start(
        None,
        Limits {
            drain: SOON,
            ..Limits::default()
        },
    )
    .await;
    let client = site.client().build();
    let request = tokio::spawn(async move { client.get("/held").send().await });
    site.held.arrived.notified().await;
    site.stop.trigger();
    tokio::time::timeout(DEADLINE, site.ended()).await.expect("drained");
    request.await.expect("task").expect_err("cut");
}
