//! An HTTP/1.1 listener over TLS or plain TCP that tells every request who is calling. Whoever dawdles in the
//! handshake or in a header is dropped; no connection outlives its age limit or its client certificate; on stop
//! the listener closes, requests under way get their answers, and after the drain time the rest is cut. Handshakes
//! take turns: when everybody comes back at once, those who are connected are still answered.

use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use model::time::Timestamp;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::task::TaskTracker;
use tower::Service;

use crate::alive;
use crate::connections::{Connections, Place};
use crate::linger::Linger;
use crate::stop::Stop;
use crate::tls::PeerCertificate;

/// What a request under way may still take once the certificate behind it is over.
const OVER_DRAIN: Duration = Duration::from_secs(2);
/// Before that, who is just asking hears why nothing is answered any more.
const OVER_TOLD: Duration = Duration::from_millis(500);

/// In every request's extensions: who is at the other end.
#[derive(Clone, Debug)]
pub struct Peer {
    pub addr: SocketAddr,
    /// Verified against the listener's client CA; none where the listener asks for none.
    pub certificate: Option<Arc<PeerCertificate>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub handshake_timeout: Duration,
    /// Handshakes that are worked on at once; the others wait for their turn, first come first served.
    pub max_handshakes: usize,
    /// How long a handshake keeps its turn. An honest one needs milliseconds; whoever dawdles longer goes on without
    /// one, so that a few dawdlers cannot shut the door.
    pub handshake_turn: Duration,
    /// From the end of one request to the end of the next one's header.
    pub header_timeout: Duration,
    pub max_connection_age: Duration,
    /// More than this many wait in the kernel's backlog.
    pub max_connections: usize,
    /// What a request under way may still take once its connection has to end.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(10),
            max_handshakes: 64,
            handshake_turn: Duration::from_millis(500),
            header_timeout: Duration::from_secs(10),
            max_connection_age: Duration::from_secs(3600),
            max_connections: 20_000,
            drain: Duration::from_secs(30),
        }
    }
}

/// Serves until stopped and drained.
pub async fn serve<S, B>(listener: TcpListener, tls: Option<Arc<ServerConfig>>, service: S, limits: Limits, stop: Stop)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Ended>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Ended>,
{
    serve_listed(listener, tls, service, limits, stop, Arc::default()).await;
}

/// What all connections of a listener share: turns for handshakes, and the list of who is there.
#[derive(Clone)]
struct Door {
    turns: Arc<Semaphore>,
    listed: Arc<Connections>,
}

/// The same, with the list of who is connected: whoever holds it can end a connection with its certificate.
pub async fn serve_listed<S, B>(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    service: S,
    limits: Limits,
    stop: Stop,
    listed: Arc<Connections>,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Ended>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Ended>,
{
    let places = Arc::new(Semaphore::new(limits.max_connections));
    let door = Door {
        turns: Arc::new(Semaphore::new(limits.max_handshakes)),
        listed,
    };
    let connections = TaskTracker::new();
    while let Some((stream, addr, place)) = stop.or(accept(&listener, &places)).await {
        let (tls, service, stop, door) = (tls.clone(), service.clone(), stop.clone(), door.clone());
        connections.spawn(async move {
            let _place = place;
            if let Err(reason) = connection(stream, addr, tls, service, limits, stop, door).await {
                tracing::debug!(%addr, %reason, "connection ended");
            }
        });
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// The next connection, once there is a place for it. Errors here are about one connection or about file
/// descriptors; neither is a reason to stop listening.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    if places.available_permits() == 0 {
        tracing::warn!("every connection is taken; new ones wait");
    }
    let place = places
        .clone()
        .acquire_owned()
        .await
        .expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, addr)) => return (stream, addr, place),
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

type Ended = Box<dyn Error + Send + Sync>;

/// Tens of thousands of these are there at any time, most of them waiting: what only the handshake needs is given back
/// once it is over, and the rest is as small as it can be.
async fn connection<S, B>(
    stream: TcpStream,
    addr: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    service: S,
    limits: Limits,
    stop: Stop,
    door: Door,
) -> Result<(), Ended>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Ended>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Ended>,
{
    alive::tend(&stream)?;
    let born = Instant::now();
    let Some(config) = tls else {
        let peer = Peer {
            addr,
            certificate: None,
        };
        let requests = requests(stream, peer, service, limits);
        return until_over(requests, End::of_age(born, limits), limits, stop).await;
    };
    let accepting = Box::pin(timeout(
        limits.handshake_timeout,
        handshake(stream, config.clone(), door.turns, limits),
    ));
    let stream = match stop.or(accepting).await {
        None => return Ok(()),
        Some(accepted) => accepted??,
    };
    let certificate = match stream.get_ref().1.peer_certificates().and_then(<[_]>::first) {
        None => None,
        Some(der) => Some(Arc::new(PeerCertificate::parse(der)?)),
    };
    let mut end = End::of_age(born, limits);
    if let Some(certificate) = &certificate {
        end.with(
            door.listed.enter(certificate),
            born + left(&config, certificate.not_after),
        );
    }
    let requests = requests(stream, Peer { addr, certificate }, service, limits);
    until_over(requests, end, limits, stop).await
}

/// When a connection has to end at the latest, and what then remains for a request under way.
struct End {
    at: Instant,
    drain: Duration,
    /// In the list, where it may be cut before.
    place: Option<Place>,
}

impl End {
    fn of_age(born: Instant, limits: Limits) -> Self {
        Self {
            at: born + limits.max_connection_age,
            drain: limits.drain,
            place: None,
        }
    }

    fn with(&mut self, place: Place, not_after: Instant) {
        if not_after < self.at {
            (self.at, self.drain) = (not_after, OVER_DRAIN);
        }
        self.place = Some(place);
    }

    async fn cut(&self) {
        match &self.place {
            Some(place) => place.cut().await,
            None => std::future::pending().await,
        }
    }
}

/// The stream is boxed: it is moved about until somebody serves it, and every move would cost its size.
async fn handshake(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    turns: Arc<Semaphore>,
    limits: Limits,
) -> std::io::Result<Box<TlsStream<TcpStream>>> {
    let turn = turns.acquire().await.expect("the semaphore is never closed");
    let mut accepting = std::pin::pin!(TlsAcceptor::from(config).accept(stream));
    let accepted = match timeout(limits.handshake_turn, accepting.as_mut()).await {
        Ok(done) => done,
        Err(_) => {
            drop(turn);
            accepting.await
        }
    };
    accepted.map(Box::new)
}

/// By the clock that judged the certificate in the handshake.
fn left(config: &ServerConfig, not_after: Timestamp) -> Duration {
    let now_ms = config.time_provider.current_time().map_or(i64::MAX, |now| {
        i64::try_from(now.as_secs().saturating_mul(1000)).unwrap_or(i64::MAX)
    });
    Duration::from_millis(u64::try_from(not_after.millis().saturating_sub(now_ms)).unwrap_or(0))
}

type Requests<I, S> = Pin<Box<http1::Connection<TokioIo<Linger<I>>, S>>>;

/// All requests of a connection, one after the other.
fn requests<I, S, B>(
    io: I,
    peer: Peer,
    service: S,
    limits: Limits,
) -> Requests<I, impl HttpService<Incoming, ResBody = B, Error = S::Error, Future: Send> + Send>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Ended>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Ended>,
{
    let service = TowerToHyperService::new(service);
    let peered = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        hyper::service::Service::call(&service, request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout);
    Box::pin(http.serve_connection(TokioIo::new(Linger::new(io)), peered))
}

async fn until_over<I, S, B>(mut connection: Requests<I, S>, end: End, limits: Limits, stop: Stop) -> Result<(), Ended>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<Ended>,
    B: Body + 'static,
    B::Error: Into<Ended>,
{
    let drain = tokio::select! {
        done = connection.as_mut() => return done.map_err(Into::into),
        () = stop.stopped() => limits.drain,
        () = end.cut() => {
            if let Ok(done) = timeout(OVER_TOLD, connection.as_mut()).await {
                return done.map_err(Into::into);
            }
            OVER_DRAIN
        }
        () = sleep_until(end.at) => end.drain,
    };
    connection.as_mut().graceful_shutdown();
    timeout(drain, connection)
        .await
        .map_err(|_| "cut after the drain time")?
        .map_err(Into::into)
}
