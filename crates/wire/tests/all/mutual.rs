//! Client certificates: seen by the handler, refused once expired, and looked at again on every connection.

use std::sync::Arc;
use std::time::Duration;

use model::id::{InstallationId, NodeId};
use model::time::Timestamp;
use rustls::HandshakeKind;
use rustls::pki_types::ServerName;
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use wire::http::{Client, ErrorKind};
use wire::serve::Limits;
use wire::spiffe::Spiffe;
use wire::tls::{PeerCertificate, ServerIdentity, client_config, server_config, server_config_with};

use crate::pki::{Ca, Identity};
use crate::site::Site;

async fn mutual_site(ca: &Ca) -> Site {
    let (chain, key) = ca.leaf(None);
    let tls = server_config(chain, key, Some(std::slice::from_ref(&ca.der))).expect("server");
    Site::start(Some(tls), Limits::default()).await
}

fn as_client(site: &Site, ca: &Ca, identity: Option<Identity>) -> Client {
    let tls = client_config(identity, std::slice::from_ref(&ca.der)).expect("client");
    site.client().tls(tls).build()
}

#[tokio::test]
async fn the_handler_sees_who_calls() {
    let ca = Ca::new("ca");
    let site = mutual_site(&ca).await;
    let name = Spiffe::Node {
        installation: InstallationId::new(),
        node_id: NodeId::new(),
        epoch: 3,
    }
    .to_string();
    let client = as_client(&site, &ca, Some(ca.leaf(Some(&name))));
    let answer = client.get("/who").send().await.expect("served");
    assert_eq!(answer.json::<String>().expect("json"), name);
    assert_eq!(answer.service(), Some("test"));
}

#[tokio::test]
async fn expired_foreign_and_missing_certificates_are_refused() {
    let ca = Ca::new("ca");
    let site = mutual_site(&ca).await;
    for (identity, kind) in [
        (Some(ca.lapsed(None)), ErrorKind::CertExpired),
        (Some(Ca::new("other").leaf(None)), ErrorKind::CertUntrusted),
        (None, ErrorKind::CertUntrusted),
    ] {
        let error = as_client(&site, &ca, identity)
            .get("/who")
            .send()
            .await
            .expect_err("refused");
        assert_eq!(error.kind, kind, "{error:?}");
    }
    // The refusals were about those certificates, not about the site.
    as_client(&site, &ca, Some(ca.leaf(None)))
        .get("/who")
        .send()
        .await
        .expect("served");
}

#[tokio::test]
async fn a_session_is_never_resumed() {
    let ca = Ca::new("ca");
    let site = mutual_site(&ca).await;
    // A client that would resume if it were let: it keeps tickets, as rustls does by default.
    let (chain, key) = ca.leaf(None);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca.der.clone()).expect("root");
    let eager = Arc::new(
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .expect("identity"),
    );
    for _ in 0..3 {
        let tcp = TcpStream::connect(site.addr).await.expect("tcp");
        let name = ServerName::try_from("localhost").expect("name");
        let mut stream = TlsConnector::from(eager.clone()).connect(name, tcp).await.expect("tls");
        stream
            .write_all(b"GET /hello HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await
            .expect("write");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("read");
        assert!(answer.starts_with(b"HTTP/1.1 200"));
        let connection = stream.get_ref().1;
        assert_eq!(connection.handshake_kind(), Some(HandshakeKind::Full));
        assert_eq!(connection.tls13_tickets_received(), 0);
        assert_eq!(connection.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    }
}

#[tokio::test]
async fn a_listener_renews_its_certificate_without_a_restart() {
    let ca = Ca::new("ca");
    let (chain, key) = ca.leaf(None);
    let identity = ServerIdentity::new(chain, key).expect("identity");
    let tls = server_config_with(identity.clone(), None).expect("server");
    let site = Site::start(Some(tls), Limits::default()).await;
    let before = presented(&site, &ca).await;

    let (chain, key) = ca.leaf(None);
    let expected = PeerCertificate::parse(&chain[0]).expect("certificate").serial;
    let (stale_chain, _) = ca.leaf(None);
    let (_, foreign_key) = ca.leaf(None);
    identity
        .replace(stale_chain, foreign_key)
        .expect_err("key and chain do not fit");
    assert_eq!(presented(&site, &ca).await, before);
    identity.replace(chain, key).expect("replaced");
    let after = presented(&site, &ca).await;
    assert_ne!(after, before);
    assert_eq!(after, expected);
}

async fn presented(site: &Site, ca: &Ca) -> Arc<str> {
    let tls = client_config(None, std::slice::from_ref(&ca.der)).expect("client");
    let tcp = TcpStream::connect(site.addr).await.expect("tcp");
    let name = ServerName::try_from("localhost").expect("name");
    let stream = TlsConnector::from(tls).connect(name, tcp).await.expect("tls");
    let chain = stream.get_ref().1.peer_certificates().expect("chain");
    PeerCertificate::parse(&chain[0]).expect("certificate").serial
}

#[tokio::test]
async fn a_connection_ends_with_its_certificate() {
    let ca = Ca::new("ca");
    let site = mutual_site(&ca).await;
    let now = DefaultTimeProvider.current_time().expect("time").as_secs();
    let not_after = Timestamp::from_millis(now as i64 * 1000).plus_s(2);
    let tls = client_config(Some(ca.until(not_after)), std::slice::from_ref(&ca.der)).expect("client");
    let tcp = TcpStream::connect(site.addr).await.expect("tcp");
    let name = ServerName::try_from("localhost").expect("name");
    let mut stream = TlsConnector::from(tls).connect(name, tcp).await.expect("tls");
    stream
        .write_all(b"GET /hello HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("write");
    // Kept alive and far from any other limit: only the certificate can end it.
    let mut answer = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(8), stream.read_to_end(&mut answer)).await;
    closed.expect("closed in time").expect("closed in order");
    assert!(answer.starts_with(b"HTTP/1.1 200"));
}
