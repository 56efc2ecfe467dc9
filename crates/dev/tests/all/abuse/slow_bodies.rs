//! Bodies that are huge, deep, compressed, or arrive one byte at a time, and headers and handshakes that never end: on
//! every listener, many at once, while honest callers are served.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::config::Config;
use dev::town::Town;
use http::Method;
use model::dsse::{Envelope, Signature};
use model::envelope::TASK_TYPE;
use model::key::SigningKey;
use model::node_api::ResultRequest;
use model::signal::Code;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;

use super::{audited, refused, snapshot};
use crate::EXE;
use crate::puppet::Puppet;

const DEADLINE_S: u64 = 3;
/// A loaded machine may be late to look at its clock.
const SLACK: Duration = Duration::from_secs(20);
const TABLES: [&str; 4] = ["node", "task", "enrolment", "api_token"];
/// Slow callers at once on each listener.
const CROWD: usize = 40;
const GIB: usize = 1 << 30;

fn short(config: &mut Config) {
    config.wait_hold_s = 1;
    config.heartbeat_stale_s = 1_000_000;
    config.read_deadline_s = DEADLINE_S;
}

trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// One of the three listeners, and a route with a body behind it.
#[derive(Clone)]
struct Door {
    name: &'static str,
    address: String,
    tls: Option<Arc<ClientConfig>>,
    /// Method, path and the headers that the route asks for.
    head: String,
}

impl Door {
    async fn open(&self) -> Box<dyn Wire> {
        let stream = TcpStream::connect(&self.address).await.expect("a connection");
        match &self.tls {
            None => Box::new(stream),
            Some(config) => {
                let name = "127.0.0.1".try_into().expect("an address");
                let connector = TlsConnector::from(config.clone());
                Box::new(connector.connect(name, stream).await.expect("a handshake"))
            }
        }
    }

    fn head(&self, more: &str) -> Vec<u8> {
        let json = "content-type: application/json\r\n";
        format!("{}{json}{more}\r\n", self.head).into_bytes()
    }

    /// Sends all of it, or as much as the other end takes; gives what came back and how much went out.
    async fn send(&self, more: &str, body: impl Iterator<Item = Vec<u8>>) -> (String, usize) {
        let (mut read, mut write) = tokio::io::split(self.open().await);
        let head = self.head(more);
        let sending = async {
            let mut sent = 0;
            if write.write_all(&head).await.is_err() {
                return sent;
            }
            for part in body {
                match write.write_all(&part).await {
                    Ok(()) => sent += part.len(),
                    Err(_) => break,
                }
            }
            sent
        };
        let (sent, answer) = tokio::join!(sending, read_all(&mut read));
        (answer, sent)
    }

    #[track_caller]
    fn says(&self, answer: &str, code: Code) {
        let status = format!("HTTP/1.1 {} ", code.status());
        assert!(
            answer.starts_with(&status) && answer.contains(code.as_str()),
            "{}, {code}: {answer}",
            self.name
        );
    }
}

/// Until the other end closes.
async fn read_all(read: &mut (impl AsyncRead + Unpin)) -> String {
    let mut answer = Vec::new();
    // A connection that is cut while we still send may end in a reset; what came before it counts.
    drop(
        timeout(Duration::from_secs(60), read.read_to_end(&mut answer))
            .await
            .expect("it ends"),
    );
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_09_oversize() {
    let town = Town::tuned(EXE, short).await;
    let node = Puppet::ready(&town, "patient").await;
    let before = snapshot(&town, &TABLES).await;
    for door in doors(&town, &node) {
        huge(&door).await;
        deep(&door).await;
        compressed(&door).await;
    }
    assert_eq!(snapshot(&town, &TABLES).await, before, "nothing of it did anything");
    too_large_an_envelope(&town, &node).await;
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_09_slow() {
    let town = Town::tuned(EXE, short).await;
    let node = Puppet::ready(&town, "patient").await;
    let before = snapshot(&town, &TABLES).await;
    let doors = doors(&town, &node);
    let mut crowd = JoinSet::new();
    for _ in 0..CROWD {
        for door in doors.clone() {
            crowd.spawn(async move {
                slow_body(&door).await;
                slow_header(&door).await;
            });
        }
    }
    for door in doors.into_iter().filter(|door| door.tls.is_some()) {
        crowd.spawn(async move { slow_handshake(&door).await });
    }
    // Meanwhile everybody else is served.
    let mut served = 0;
    while !crowd.is_empty() {
        town.show_node(node.id()).await;
        assert!(node.get("ping").await.status.is_success());
        served += 1;
        while let Ok(Some(ended)) = timeout(Duration::from_millis(50), crowd.join_next()).await {
            ended.expect("no panic");
        }
    }
    assert!(served >= 3, "the attack lasted {served} rounds");
    assert_eq!(snapshot(&town, &TABLES).await, before, "nothing of it did anything");
    town.end().await;
}

fn doors(town: &Town, node: &Puppet) -> [Door; 3] {
    let plain = |url: &str| url.split_once("://").expect("a URL").1.to_owned();
    let roots = wire::pem::certificates(&node.answer.working.ca_bundle).expect("CA certificates");
    let chain = wire::pem::certificates(&node.answer.working.chain).expect("a chain");
    let key = wire::pem::private_key(&node.keys.working.serialize_pem()).expect("a key");
    let known = wire::tls::client_config(Some((chain, key)), &roots).expect("TLS");
    let stranger = wire::tls::client_config(None, &roots).expect("TLS");
    let door = |name, url: &str, tls, path: &str, more: &str| {
        let address = plain(url);
        let head = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\n{more}");
        Door {
            name,
            address,
            tls,
            head,
        }
    };
    let api = town.api();
    let bearer = format!("authorization: Bearer {}\r\n", api.token());
    let session = format!("{}: {}\r\n", model::node_api::header::SESSION, node.session);
    [
        door("public", api.url(), None, "/v1/nodes", &bearer),
        door(
            "node",
            &town.platform.node_url,
            Some(known),
            &node.path("heartbeat"),
            &session,
        ),
        door(
            "enrolment",
            &town.platform.enrol_url,
            Some(stranger),
            "/internal/v1/enroll",
            "",
        ),
    ]
}

/// A gigabyte, announced or in chunks: cut off early. Whoever stops to listen is told why.
async fn huge(door: &Door) {
    let announced = format!("content-length: {GIB}\r\n");
    let chunked = "transfer-encoding: chunked\r\n";
    let part = || vec![b' '; 64 * 1024];
    let chunk = || [b"10000\r\n".to_vec(), part(), b"\r\n".to_vec()].concat();
    let parts = GIB / (64 * 1024);
    let endless = [
        door.send(&announced, std::iter::repeat_with(part).take(parts)).await,
        door.send(chunked, std::iter::repeat_with(chunk).take(parts)).await,
    ];
    for (answer, sent) in endless {
        assert!(sent < 32 << 20, "{}: {sent} bytes were taken", door.name);
        // One who talks on while the line is cut may lose the answer.
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }
    let (answer, _) = door.send(&announced, std::iter::repeat_with(part).take(21)).await;
    door.says(&answer, Code::BodyTooLarge);
    let (answer, _) = door.send(chunked, std::iter::repeat_with(chunk).take(21)).await;
    door.says(&answer, Code::BodyTooLarge);
}

async fn deep(door: &Door) {
    let body = b"[".repeat(200_000);
    let head = format!("connection: close\r\ncontent-length: {}\r\n", body.len());
    let (answer, _) = door.send(&head, [body].into_iter()).await;
    door.says(&answer, Code::BodyMalformed);
}

/// Whatever is inside: what arrives is what is parsed.
async fn compressed(door: &Door) {
    for coding in [
        "content-encoding: gzip",
        "content-encoding: br",
        "Content-Encoding: identity, gzip",
    ] {
        let head = format!("connection: close\r\n{coding}\r\ncontent-length: 2\r\n");
        let (answer, _) = door.send(&head, [b"{}".to_vec()].into_iter()).await;
        door.says(&answer, Code::BodyMalformed);
        assert!(answer.contains("content-encoding"), "{answer}");
    }
}

/// Sends a byte whenever nothing has come back for a moment, until the other end has had enough.
async fn trickle(stream: &mut Box<dyn Wire>, bytes: &[u8]) -> (String, Duration) {
    let since = Instant::now();
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    for byte in bytes.iter().cycle() {
        match timeout(Duration::from_millis(100), stream.read(&mut buffer)).await {
            Err(_) => {}
            Ok(Ok(0) | Err(_)) => break,
            Ok(Ok(count)) => answer.extend_from_slice(&buffer[..count]),
        }
        assert!(
            since.elapsed() < Duration::from_secs(DEADLINE_S) + SLACK,
            "it is still listened to"
        );
        if stream.write_all(&[*byte]).await.is_err() {
            break;
        }
        stream.flush().await.ok();
    }
    (String::from_utf8_lossy(&answer).into_owned(), since.elapsed())
}

async fn slow_body(door: &Door) {
    let mut stream = door.open().await;
    stream
        .write_all(&door.head("content-length: 100000\r\n"))
        .await
        .expect("a header");
    let (answer, took) = trickle(&mut stream, b" ").await;
    door.says(&answer, Code::BodyTooSlow);
    assert!(
        took >= Duration::from_secs(DEADLINE_S - 1),
        "{}: cut after {took:?}",
        door.name
    );
}

async fn slow_header(door: &Door) {
    let mut stream = door.open().await;
    let start = door.head.as_bytes();
    stream
        .write_all(&start[..start.len() - 2])
        .await
        .expect("half a header");
    let (answer, took) = trickle(&mut stream, b"x").await;
    assert!(!answer.contains(" 200 "), "{answer}");
    assert!(
        took >= Duration::from_secs(DEADLINE_S - 1),
        "{}: cut after {took:?}",
        door.name
    );
}

async fn slow_handshake(door: &Door) {
    let mut stream: Box<dyn Wire> = Box::new(TcpStream::connect(&door.address).await.expect("a connection"));
    // The beginning of a record of 16 KiB.
    let (answer, took) = trickle(&mut stream, &[0x16, 3, 1, 0x3f, 0xff, 1, 0, 0, 0]).await;
    assert!(answer.len() < 64, "{answer}");
    assert!(
        took < Duration::from_secs(DEADLINE_S) + SLACK,
        "{}: {took:?}",
        door.name
    );
}

/// Below the limit of a body and above that of an envelope.
async fn too_large_an_envelope(town: &Town, node: &Puppet) {
    let task = super::flood::one_task(town, node).await;
    let key = SigningKey::generate();
    let envelope = Envelope {
        payload_type: TASK_TYPE.to_owned(),
        payload: "A".repeat(300 * 1024),
        signatures: vec![Signature {
            keyid: key.keyid(),
            sig: String::new(),
        }],
    };
    let path = node.path(&format!("tasks/{}/result", task.task_id));
    let body = ResultRequest {
        fence: task.fence,
        envelope,
    };
    let answer = node
        .inside
        .request(Method::POST, &path)
        .json(&body)
        .expect("JSON")
        .send()
        .await;
    let answer = answer.expect("an answer");
    audited(town, &refused(&answer, Code::ResultMalformed)).await;
    assert!(
        node.succeeds(town, &task).await.status.is_success(),
        "the honest one lands"
    );
}
