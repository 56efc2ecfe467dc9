//! A server of canned answers on a port of its own: it remembers what was asked, and ends with the test.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// With its query.
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
    pub(crate) if_match: Option<String>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) body: Value,
}

pub(crate) enum Answer {
    Json(u16, Value),
    /// As a proxy would: no `gpuaas-service`.
    Stranger(u16),
    /// Cut the connection without a word.
    Cut,
    /// Never answer.
    Silence,
}

type Handler = dyn Fn(&Asked, usize) -> Answer + Send + Sync;

pub(crate) struct Server {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    accepting: JoinHandle<()>,
}

impl Server {
    /// The handler gets the request and how many came before it.
    pub(crate) async fn start(handler: impl Fn(&Asked, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let handler: Arc<Handler> = Arc::new(handler);
        let log = Arc::clone(&asked);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (handler, log) = (Arc::clone(&handler), Arc::clone(&log));
                // A client that goes away in the middle is what some tests are about.
                tokio::spawn(async move { serve(stream, &*handler, &log).await.unwrap_or_default() });
            }
        });
        Self { url, asked, accepting }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic while asking").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(stream: TcpStream, handler: &Handler, log: &Mutex<Vec<Asked>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut first = String::new();
    stream.read_line(&mut first).await?;
    let mut words = first.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (mut length, mut authorization, mut if_match, mut idempotency_key) = (0, None, None, None);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap_or_default(),
            "authorization" => authorization = Some(value.to_owned()),
            "if-match" => if_match = Some(value.to_owned()),
            "idempotency-key" => idempotency_key = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let asked = Asked {
        method,
        path,
        authorization,
        if_match,
        idempotency_key,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let before = {
        let mut log = log.lock().expect("no panic while asking");
        log.push(asked.clone());
        log.len() - 1
    };
    let (status, service, body) = match handler(&asked, before) {
        Answer::Json(status, body) => (status, "gpuaas-service: api\r\n", body.to_string()),
        Answer::Stranger(status) => (status, "", "<html>".to_owned()),
        Answer::Cut => return Ok(()),
        Answer::Silence => return std::future::pending().await,
    };
    let head = format!(
        "HTTP/1.1 {status} x\r\n{service}content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.flush().await
}
