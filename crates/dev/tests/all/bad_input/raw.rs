//! A client without manners: it sends the bytes it is given.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wire::http::Response;

/// One POST to a plain listener, with these bytes as its body.
pub(super) async fn post(url: &str, path: &str, token: &str, content_type: Option<&str>, body: &[u8]) -> Response {
    let content_type = content_type.map_or_else(String::new, |value| format!("content-type: {value}\r\n"));
    send(url, &format!("POST {path}"), token, &content_type, body).await
}

/// One request: its method and path, and lines of further headers as they go out.
pub(super) async fn send(url: &str, what: &str, token: &str, headers: &str, body: &[u8]) -> Response {
    let address = url.strip_prefix("http://").expect("a plain listener");
    let (mut read, mut write) = TcpStream::connect(address).await.expect("a connection").into_split();
    let head = format!(
        "{what} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         {headers}content-length: {}\r\n\r\n",
        body.len()
    );
    let mut answer = Vec::new();
    let send = async {
        // A server that has seen enough may close before it has read all; then the rest does not go out.
        let sent = write.write_all(head.as_bytes()).await;
        sent.and(write.write_all(body).await)
    };
    let (_, received) = tokio::join!(send, read.read_to_end(&mut answer));
    parse(&answer).unwrap_or_else(|| panic!("no answer: {received:?} {:?}", String::from_utf8_lossy(&answer)))
}

fn parse(bytes: &[u8]) -> Option<Response> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?;
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ")?;
        headers.insert(HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?);
    }
    Some(Response {
        status: StatusCode::try_from(status).ok()?,
        headers,
        body: bytes[end + 4..].to_vec().into(),
    })
}
