//! Two guests on one bridge, played by two loopback addresses.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use model::digest::Sha256;
use model::id::AllocationId;
use model::signal::Code;
use model::telemetry::{MAX_BODY, PATH, Registered};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use wire::stop::Stop;

use super::{Book, Limits, serve};

const ADA: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const BOB: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const GOOD: &str = r#"{"uptime_s":1,"cpu_pct":2,"memory_total_mib":3,"memory_used_mib":2}"#;

struct Bridge {
    book: Arc<Book>,
    at: SocketAddr,
    stop: Stop,
}

fn guest(address: Ipv4Addr, token: &str) -> Registered {
    Registered {
        allocation_id: AllocationId::new(),
        vm_name: "a-vm".parse().expect("a name"),
        address,
        token_sha256: Sha256::of(token.as_bytes()),
    }
}

impl Bridge {
    async fn with(guests: Vec<Registered>) -> Self {
        let (book, stop) = (Arc::new(Book::default()), Stop::new());
        book.set(guests);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let at = listener.local_addr().expect("an address");
        let limits = Limits {
            deadline: Duration::from_secs(2),
            connections: 8,
        };
        tokio::spawn(serve(listener, book.clone(), limits, stop.clone()));
        Self { book, at, stop }
    }

    async fn connect(&self, from: Ipv4Addr) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((from, 0).into()).expect("an address of ours");
        socket.connect(self.at).await.expect("somebody listens")
    }

    /// All that is answered; nothing if it is hung up on.
    async fn says(&self, from: Ipv4Addr, request: &[u8]) -> String {
        let mut stream = self.connect(from).await;
        // Whoever is hung up on cannot write to the end.
        stream.write_all(request).await.ok();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok();
        String::from_utf8(answer).expect("text")
    }

    async fn pushes(&self, from: Ipv4Addr, token: &str, body: &str) -> String {
        let request = format!(
            "POST {PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.says(from, request.as_bytes()).await
    }
}

fn refused(answer: &str, code: Code) {
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {} ", code.status())),
        "{answer:?}"
    );
    assert!(answer.contains(&format!("\"code\":\"{code}\"")), "{answer:?}");
}

#[tokio::test]
async fn abuse_34_telemetry() {
    let (ada, bob) = (guest(ADA, "ada's"), guest(BOB, "bob's"));
    let bobs = bob.allocation_id;
    let bridge = Bridge::with(vec![ada, bob]).await;
    // In another guest's name, by its token or from its place; with none, and with a wrong one.
    for (from, token) in [(ADA, "bob's"), (BOB, "ada's"), (ADA, ""), (ADA, "wrong")] {
        refused(&bridge.pushes(from, token, GOOD).await, Code::TelemetryRefused);
        assert!(bridge.book.take().is_empty(), "{from} {token}");
    }
    // From where no guest is, nothing is even answered.
    assert_eq!(bridge.pushes(Ipv4Addr::LOCALHOST, "ada's", GOOD).await, "");
    // What is no number is not kept either, whosever it is.
    let body = r#"{"uptime_s":"<script>"}"#;
    refused(&bridge.pushes(BOB, "bob's", body).await, Code::TelemetryRefused);
    // And the honest twin.
    let answer = bridge.pushes(BOB, "bob's", GOOD).await;
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer:?}");
    let kept = bridge.book.take();
    assert_eq!((kept.len(), kept[0].allocation_id), (1, bobs));
    bridge.stop.trigger();
}

/// Resident pages of this process.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages = statm.split_whitespace().nth(1).expect("a second number");
    pages.parse().expect("a number")
}

#[tokio::test]
async fn abuse_35_flood() {
    let bridge = Bridge::with(vec![guest(ADA, "ada's"), guest(BOB, "bob's")]).await;
    assert!(bridge.pushes(ADA, "ada's", GOOD).await.starts_with("HTTP/1.1 204 "));
    let before = resident();
    // Too often.
    for _ in 0..200 {
        refused(&bridge.pushes(ADA, "ada's", GOOD).await, Code::TelemetryLimited);
    }
    // A million labels: refused by their length, before they are read.
    let head = |length: u64| {
        format!("POST {PATH} HTTP/1.1\r\nauthorization: Bearer bob's\r\ncontent-length: {length}\r\n\r\n").into_bytes()
    };
    let mut labels = head(64 << 20);
    for n in 0..1_000_000 {
        labels.extend_from_slice(format!("\"label_{n}\":{n},").as_bytes());
    }
    bridge.says(BOB, &labels).await;
    drop(labels);
    refused(
        &bridge.says(BOB, &head(MAX_BODY as u64 + 1)).await,
        Code::TelemetryLimited,
    );
    // As many as fit into one body are still no numbers of ours.
    let some: Vec<String> = (0..400).map(|n| format!("\"l{n}\":{n}")).collect();
    let body = format!("{{{}}}", some.join(","));
    refused(&bridge.pushes(BOB, "bob's", &body).await, Code::TelemetryRefused);
    // A head without end, a body without a length, one in pieces.
    let endless = [b"POST / HTTP/1.1\r\nx: ".to_vec(), vec![b'a'; 1 << 16]].concat();
    bridge.says(BOB, &endless).await;
    let unsaid = format!("POST {PATH} HTTP/1.1\r\nauthorization: Bearer bob's\r\n");
    refused(
        &bridge.says(BOB, format!("{unsaid}\r\n").as_bytes()).await,
        Code::TelemetryRefused,
    );
    let pieces = format!("{unsaid}transfer-encoding: chunked\r\n\r\n");
    refused(&bridge.says(BOB, pieces.as_bytes()).await, Code::TelemetryRefused);
    // Whoever holds connections open holds two of them; the neighbour is served.
    let mut held = Vec::new();
    for _ in 0..50 {
        held.push(bridge.connect(ADA).await);
    }
    assert!(bridge.pushes(BOB, "bob's", GOOD).await.starts_with("HTTP/1.1 204 "));
    drop(held);
    assert_eq!(
        bridge.book.take().len(),
        2,
        "one sample each, however often it was tried"
    );
    // The test's own million labels came and went; what is left is far less than they were.
    let grown = resident().saturating_sub(before) * 4096;
    assert!(grown < 48 << 20, "{grown} bytes more than before");
    bridge.stop.trigger();
}
