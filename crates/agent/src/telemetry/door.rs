//! One request per connection, one path, one method, plain text with a length: the whole of HTTP that a guest gets. A
//! stranger is hung up on before a byte is read; head, body and time are bounded; nothing that was sent is said back.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::signal::Code;
use model::telemetry::{MAX_BODY, PATH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use wire::stop::Stop;

use super::Book;

/// Enough for a token and what programs say about themselves.
const MAX_HEAD: usize = 4096;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For a whole request.
    pub deadline: Duration,
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(5),
            connections: 64,
        }
    }
}

/// Until stopped.
pub async fn serve(listener: TcpListener, book: Arc<Book>, limits: Limits, stop: Stop) {
    let places = Arc::new(Semaphore::new(limits.connections));
    while let Some(accepted) = stop.or(listener.accept()).await {
        let (stream, from) = match accepted {
            Ok((stream, from)) => (stream, from.ip()),
            Err(error) => {
                tracing::debug!(%error, "a guest's connection");
                // Out of descriptors, most likely: others need some time to close theirs.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (IpAddr::V4(from), Ok(place)) = (from, places.clone().try_acquire_owned()) else {
            continue;
        };
        let book = book.clone();
        tokio::spawn(async move {
            let _place = place;
            let Some(_visit) = book.enter(from) else { return };
            let answered = tokio::time::timeout(limits.deadline, answer(stream, from, &book)).await;
            if !matches!(answered, Ok(Ok(()))) {
                tracing::debug!(%from, "a guest's request broke off");
            }
        });
    }
}

async fn answer(mut stream: TcpStream, from: Ipv4Addr, book: &Book) -> std::io::Result<()> {
    let outcome = match request(&mut stream).await? {
        Ok((token, body)) => book.push(from, &token, &body, Instant::now()),
        Err(code) => Err(code),
    };
    let text = match outcome {
        Ok(()) => "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".to_owned(),
        Err(code) => {
            tracing::debug!(%from, %code, "a guest's numbers are not taken");
            let body = format!(
                "{{\"error\":{{\"code\":\"{code}\",\"message\":\"{}\"}}}}\n",
                code.meaning()
            );
            let (status, length) = (code.status(), body.len());
            format!(
                "HTTP/1.1 {status} Refused\r\nconnection: close\r\ncontent-type: application/json\r\n\
                 content-length: {length}\r\n\r\n{body}"
            )
        }
    };
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

/// Token and body, or why not. What is too long is not read to its end.
async fn request(stream: &mut TcpStream) -> std::io::Result<Result<(String, Vec<u8>), Code>> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 1024]);
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        if bytes.len() > MAX_HEAD {
            return Ok(Err(Code::TelemetryLimited));
        }
        match stream.read(&mut chunk).await? {
            0 => return Ok(Err(Code::TelemetryRefused)),
            count => bytes.extend_from_slice(&chunk[..count]),
        }
    };
    let (token, length) = match head(&bytes[..head_end]) {
        Ok(head) => head,
        Err(code) => return Ok(Err(code)),
    };
    let mut body = bytes.split_off(head_end + 4);
    while body.len() < length {
        match stream.read(&mut chunk).await? {
            0 => return Ok(Err(Code::TelemetryRefused)),
            count => body.extend_from_slice(&chunk[..count]),
        }
    }
    body.truncate(length);
    Ok(Ok((token, body)))
}

/// The token, and how long the body is.
fn head(bytes: &[u8]) -> Result<(String, usize), Code> {
    let text = std::str::from_utf8(bytes).map_err(|_| Code::TelemetryRefused)?;
    let mut lines = text.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    if (first.next(), first.next()) != (Some("POST"), Some(PATH)) {
        return Err(Code::TelemetryRefused);
    }
    let (mut token, mut length) = (None, None);
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(Code::TelemetryRefused)?;
        match name.to_ascii_lowercase().as_str() {
            "authorization" => token = value.trim().strip_prefix("Bearer ").map(str::to_owned),
            "content-length" if length.is_none() => {
                length = Some(value.trim().parse::<u64>().map_err(|_| Code::TelemetryRefused)?);
            }
            // A body whose length is not said beforehand, or said twice, is nobody's honest one.
            "content-length" | "transfer-encoding" | "content-encoding" => return Err(Code::TelemetryRefused),
            _ => {}
        }
    }
    let length = length.ok_or(Code::TelemetryRefused)?;
    if length > MAX_BODY as u64 {
        return Err(Code::TelemetryLimited);
    }
    let token = token.ok_or(Code::TelemetryRefused)?;
    Ok((token, usize::try_from(length).map_err(|_| Code::TelemetryLimited)?))
}
