//! Name, TCP, TLS: each step with its own kind of failure, all three within one time limit.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::error::{Error, ErrorKind};
use super::stream::Stream;
use crate::alive;

/// Where to dial instead of asking a name service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resolve {
    ip: IpAddr,
    port: Option<u16>,
}

impl Resolve {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Some(Self {
                ip: address.ip(),
                port: Some(address.port()),
            });
        }
        text.parse().ok().map(|ip| Self { ip, port: None })
    }
}

#[derive(Clone, Debug)]
pub(super) struct Connector {
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) resolve: Option<Resolve>,
    pub(super) timeout: Duration,
}

impl Connector {
    async fn connect(self, uri: Uri) -> Result<Stream, Error> {
        let https = uri.scheme_str() == Some("https");
        // Whoever brought certificates meant to use them: no slip of a URL turns them off.
        if !https && self.tls.is_some() {
            return Err(Error::url(&uri.to_string()));
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        let deadline = Instant::now() + self.timeout;
        let tcp = self.dial(&host, port, deadline).await?;
        alive::tend(&tcp).map_err(|error| Error::new(ErrorKind::TcpRefused, error))?;
        if !https {
            return Ok(Stream::plain(tcp));
        }
        let config = self
            .tls
            .ok_or_else(|| Error::new(ErrorKind::ServerCertUntrusted, "no CA to trust"))?;
        let name = ServerName::try_from(host).map_err(|error| Error::new(ErrorKind::UrlInvalid, error))?;
        match timeout_at(deadline, TlsConnector::from(config).connect(name, tcp)).await {
            Err(late) => Err(Error::new(ErrorKind::Timeout, late)),
            Ok(Err(error)) => Err(Error::from_tls(error)),
            Ok(Ok(stream)) => Ok(Stream::tls(stream)),
        }
    }

    /// The addresses one after the other; the error is the last one's.
    async fn dial(&self, host: &str, port: u16, deadline: Instant) -> Result<TcpStream, Error> {
        let addresses: Vec<SocketAddr> = match self.resolve {
            Some(Resolve { ip, port: other }) => vec![SocketAddr::new(ip, other.unwrap_or(port))],
            None => match timeout_at(deadline, lookup_host((host, port))).await {
                Err(late) => return Err(Error::new(ErrorKind::DnsFailed, late)),
                Ok(Err(error)) => return Err(Error::new(ErrorKind::DnsFailed, error)),
                Ok(Ok(addresses)) => addresses.collect(),
            },
        };
        let mut last = Error::new(ErrorKind::DnsFailed, "the name has no address");
        for address in addresses {
            last = match timeout_at(deadline, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => Error::new(refusal(&error), error),
                Err(late) => return Err(Error::new(ErrorKind::TcpTimeout, late)),
            };
        }
        Err(last)
    }
}

/// Somebody said no, or nobody said anything (an unreachable network counts as that).
fn refusal(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => ErrorKind::TcpRefused,
        _ => ErrorKind::TcpTimeout,
    }
}

impl tower::Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Stream>, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect(uri).await.map(TokioIo::new) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_dial_is_an_ip_with_or_without_a_port() {
        assert_eq!(Resolve::parse("10.0.0.1").map(|r| r.port), Some(None));
        assert_eq!(Resolve::parse("10.0.0.1:9443").map(|r| r.port), Some(Some(9443)));
        assert_eq!(Resolve::parse("[::1]:1").map(|r| r.port), Some(Some(1)));
        assert_eq!(Resolve::parse("::1").map(|r| r.port), Some(None));
        assert_eq!(Resolve::parse("host:1"), None);
    }
}
