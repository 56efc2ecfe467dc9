//! A certificate that is over, and a node that does not want to believe it: on a new connection, on one that would
//! like to be resumed, on one that was open before, and in a request that is being held.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::config::Config;
use base::testing::eventually;
use dev::town::Town;
use model::api::NodeView;
use model::signal::Code;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use wire::http::ErrorKind;

use super::{audited, connect, refused};
use crate::EXE;
use crate::played::code;
use crate::puppet::Puppet;

/// What is promised: from the end of a certificate to the end of everything that stands on it.
const PROMISED: Duration = Duration::from_secs(5);

fn long_held(config: &mut Config) {
    config.wait_hold_s = 20;
    config.probe_every_s = 1_000_000;
    config.heartbeat_stale_s = 1_000_000;
}

fn four_seconds(config: &mut Config) {
    long_held(config);
    config.working_cert_life_s = 4;
}

/// A client that would resume, if the server let it.
fn resuming(node: &Puppet) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for ca in wire::pem::certificates(&node.answer.working.ca_bundle).expect("CA certificates") {
        roots.add(ca).expect("a root");
    }
    let chain = wire::pem::certificates(&node.answer.working.chain).expect("a chain");
    let key = wire::pem::private_key(&node.keys.working.serialize_pem()).expect("a key");
    let mut config = ClientConfig::builder_with_provider(wire::tls::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .expect("a client");
    config.resumption = Resumption::in_memory_sessions(16);
    Arc::new(config)
}

/// One connection, seen from below: how it was made, what comes on it, and when it ends.
struct Line {
    stream: TlsStream<TcpStream>,
    host: String,
}

impl Line {
    async fn open(node: &Puppet, config: &Arc<ClientConfig>) -> std::io::Result<Self> {
        let host = node.answer.endpoints.node_api_url.replace("https://", "");
        let tcp = TcpStream::connect(&host).await?;
        let name = host.rsplit_once(':').expect("a port").0.to_owned();
        let name = ServerName::try_from(name).expect("a name");
        let stream = TlsConnector::from(config.clone()).connect(name, tcp).await?;
        Ok(Self { stream, host })
    }

    fn kind(&self) -> Option<HandshakeKind> {
        self.stream.get_ref().1.handshake_kind()
    }

    async fn asks(&mut self, node: &Puppet, rest: &str) -> std::io::Result<()> {
        let request = format!(
            "GET {} HTTP/1.1\r\nhost: {}\r\ngpuaas-session: {}\r\n\r\n",
            node.path(rest),
            self.host,
            node.session
        );
        self.stream.write_all(request.as_bytes()).await
    }

    /// The status of the next answer; none if the connection ended instead.
    async fn hears(&mut self) -> Option<u16> {
        let mut heard = vec![0; 8192];
        match self.stream.read(&mut heard).await {
            Ok(0) | Err(_) => None,
            Ok(some) => String::from_utf8_lossy(&heard[..some]).split(' ').nth(1)?.parse().ok(),
        }
    }

    /// Reads on until nothing can come any more.
    async fn ended(&mut self) -> Instant {
        while self.hears().await.is_some() {}
        Instant::now()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_38_expired_on_every_kind_of_connection() {
    let town = Town::tuned(EXE, four_seconds).await;
    let node = Puppet::awake(&town, "lapsing").await;
    let config = resuming(&node);
    // Nothing is resumed, ever: the second handshake of a client that wants to is a full one.
    for _ in 0..2 {
        let mut line = Line::open(&node, &config).await.expect("it is let in");
        line.asks(&node, "ping").await.expect("sent");
        assert_eq!(line.hears().await, Some(200));
        assert_eq!(line.kind(), Some(HandshakeKind::Full));
    }
    let left_ms = node.answer.working.not_after.since_ms(town.db.clock().now());
    let over = Instant::now() + Duration::from_millis(u64::try_from(left_ms).expect("it lives"));

    // One connection is kept busy until it is cut, one is idle, one waits for tasks for twenty seconds.
    let busy = async {
        let mut line = Line::open(&node, &config).await.expect("it is let in");
        let (mut served, mut last) = (0, Instant::now());
        while line.asks(&node, "ping").await.is_ok() && line.hears().await == Some(200) {
            (served, last) = (served + 1, Instant::now());
            tokio::task::yield_now().await;
        }
        (served, last)
    };
    let idle = async { Line::open(&node, &config).await.expect("it is let in").ended().await };
    let held = async {
        let mut line = Line::open(&node, &config).await.expect("it is let in");
        line.asks(&node, "tasks/wait").await.expect("sent");
        (line.hears().await, line.ended().await)
    };
    let all = async { tokio::join!(busy, idle, held) };
    let ((served, last), idle, (answer, held)) = timeout(PROMISED * 4, all).await.expect("they end");
    assert!(served > 10, "it was a long-lived connection: {served}");
    assert!(last < over + Duration::from_millis(200), "served after its time");
    for (what, ended) in [("idle", idle), ("held", held)] {
        let late = ended.saturating_duration_since(over);
        println!("{what}: {late:?} after the end");
        assert!(late < PROMISED, "{what}: {late:?}");
    }
    assert!(
        matches!(answer, Some(200 | 204)),
        "a held wait ends as any wait does: {answer:?}"
    );

    // New ones, resumed or not, do not come to be.
    eventually("a new connection is refused", async || {
        let ping = node.inside.get(&node.path("ping")).send().await;
        match ping.map_err(|error| error.kind) {
            Err(ErrorKind::CertExpired) => Ok(()),
            other => Err(other),
        }
    })
    .await;
    if let Ok(mut line) = Line::open(&node, &config).await {
        // In TLS 1.3 the client is through first; what it sends is answered by nobody.
        line.asks(&node, "ping").await.ok();
        assert_eq!(line.hears().await, None);
    }
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_38_revoked_on_every_kind_of_connection() {
    let town = Town::tuned(EXE, long_held).await;
    // The last one is told to nobody: another process has written it, and its call was lost.
    for how in ["revoke", "remove", "enroll", "unheard"] {
        let node = Puppet::ready(&town, how).await;
        let config = resuming(&node);
        let mut idle = Line::open(&node, &config).await.expect("it is let in");
        idle.asks(&node, "ping").await.expect("sent");
        assert_eq!(idle.hears().await, Some(200));
        let mut held = Line::open(&node, &config).await.expect("it is let in");
        held.asks(&node, "tasks/wait").await.expect("sent");
        let serial = town
            .show_node(node.id())
            .await
            .certificate
            .expect("a certificate")
            .serial;
        let path = match how {
            "revoke" => format!("/v1/nodes/{}/certificates/{serial}/revoke", node.id()),
            verb => format!("/v1/nodes/{}/{verb}", node.id()),
        };
        let body = if how == "enroll" {
            json!({})
        } else {
            json!({ "reason": "stolen" })
        };
        let done: serde_json::Value = match how {
            "unheard" => {
                let mut conn = connect(&town).await;
                let revoke =
                    sqlx::query("update certificate set revoked_at = now(), revoked_why = 'stolen' where serial = $1");
                revoke.bind(&serial).execute(&mut conn).await.expect("written");
                json!(null)
            }
            _ => town.api().post(&path, &body).await.expect("done"),
        };
        if how == "enroll" {
            // Asking for a token ends nothing; using it does.
            assert_eq!(code(&node.get("ping").await), None);
            Puppet::with_token(done["token"].as_str().expect("a token")).await;
        }
        let since = Instant::now();
        let cut = async { tokio::join!(idle.ended(), async { (held.hears().await, held.ended().await) }) };
        let (idle, (answer, held)) = timeout(PROMISED * 4, cut).await.expect("they end");
        println!("{how}: idle {:?}, held {:?}", idle - since, held - since);
        assert!(idle - since < PROMISED && held - since < PROMISED, "{how}");
        // Told, if it was being held already; cut before it was read, if not.
        assert!(matches!(answer, None | Some(401)), "{how}: {answer:?}");
        // The handshake still works, the certificate is within its time; but it opens nothing.
        let error = refused(&node.get("ping").await, Code::CertRevoked);
        let row = audited_or_noted(&town, &node, &error).await;
        assert_eq!(row.action, "certificate.use");
    }
    town.end().await;
}

/// One row a minute is enough for the same refusal: it may be an earlier one.
async fn audited_or_noted(town: &Town, node: &Puppet, error: &model::node_api::ErrorBody) -> model::api::AuditRow {
    let path = format!("/v1/audit?outcome=refused&action=certificate.use&actor={}", node.uri());
    let page: model::api::Page<model::api::AuditRow> = town.api().get(&path).await.expect("the audit is read");
    match page.items.into_iter().next() {
        Some(row) => row,
        None => audited(town, error).await,
    }
}

/// Quarantine leaves the certificate alone: the node reports on, but a request for tasks that is held ends at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_quarantine_ends_the_wait_and_not_the_connection() {
    let town = Town::tuned(EXE, long_held).await;
    let node = Puppet::ready(&town, "odd").await;
    let path = format!("/v1/nodes/{}/quarantine", node.id());
    let body = json!({ "reason": "it hums" });
    let (waited, since) = tokio::join!(async { (node.waits().await, Instant::now()) }, async {
        town.api().post::<NodeView>(&path, &body).await.expect("done");
        Instant::now()
    });
    let (answer, ended) = waited;
    assert_eq!(code(&answer), Some(Code::NodeQuarantined));
    assert!(ended.saturating_duration_since(since) < PROMISED);
    assert_eq!(code(&node.get("ping").await), None);
    town.end().await;
}
