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
const OVER_DRAIN: Duration = Duration::from_secs(1);
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
    /// The same where the connection is merely old: as long as any request may be held.
    pub drain_of_age: Duration,
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
            drain_of_age: Duration::from_secs(60),
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
        let open = connections.clone();
        connections.spawn(async move {
            match connection(stream, addr, tls, service, limits, &stop, door).await {
                Ok(None) => {}
                Ok(Some((requests, end))) => drop(open.spawn(until_over(requests, end, stop, addr, place))),
                Err(reason) => tell(addr, reason),
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

fn tell(addr: SocketAddr, reason: Ended) {
    tracing::debug!(%addr, %reason, "connection ended");
}

/// Tens of thousands of these are there at any time, most of them waiting: whatever the handshake needs is given back
/// with its task, and what serves the requests is a task of its own, as small as it can be. None: told to stop before.
async fn connection<S, B>(
    stream: TcpStream,
    addr: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    service: S,
    limits: Limits,
    stop: &Stop,
    door: Door,
) -> Result<Option<(Pin<Box<dyn Requests>>, End)>, Ended>
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
        return Ok(Some((requests, End::of_age(born, limits))));
    };
    let accepting = Box::pin(timeout(
        limits.handshake_timeout,
        handshake(stream, config.clone(), door.turns, limits),
    ));
    let stream = match stop.or(accepting).await {
        None => return Ok(None),
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
    Ok(Some((requests, end)))
}

/// When a connection has to end at the latest, and what then remains for a request under way; or when it stops before.
struct End {
    at: Instant,
    drain: Duration,
    stop_drain: Duration,
    /// In the list, where it may be cut before.
    place: Option<Place>,
}

impl End {
    fn of_age(born: Instant, limits: Limits) -> Self {
        Self {
            at: born + limits.max_connection_age,
            drain: limits.drain_of_age,
            stop_drain: limits.drain,
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

/// All requests of a connection, one after the other.
trait Requests: Future<Output = hyper::Result<()>> + Send {
    /// The one that is under way is the last.
    fn wind_up(self: Pin<&mut Self>);
}

impl<I, S, B> Requests for http1::Connection<TokioIo<Linger<I>>, S>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: HttpService<Incoming, ResBody = B, Error: Into<Ended>, Future: Send> + Send,
    B: Body<Data: Send, Error: Into<Ended>> + Send + 'static,
{
    fn wind_up(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

fn requests<I, S, B>(io: I, peer: Peer, service: S, limits: Limits) -> Pin<Box<dyn Requests>>
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

/// Not an `async fn`: that would keep room for everything twice, once as it came and once as it is used.
fn until_over(
    mut requests: Pin<Box<dyn Requests>>,
    end: End,
    stop: Stop,
    addr: SocketAddr,
    place: OwnedSemaphorePermit,
) -> impl Future<Output = ()> {
    let told = move |done: hyper::Result<()>| {
        if let Err(reason) = done {
            tell(addr, reason.into());
        }
    };
    async move {
        let drain = tokio::select! {
            done = requests.as_mut() => return told(done),
            () = stop.stopped() => end.stop_drain,
            () = end.cut() => {
                if let Ok(done) = timeout(OVER_TOLD, requests.as_mut()).await {
                    return told(done);
                }
                OVER_DRAIN
            }
            () = sleep_until(end.at) => end.drain,
        };
        requests.as_mut().wind_up();
        match timeout(drain, requests).await {
            Ok(done) => told(done),
            Err(_) => tell(addr, "cut after the drain time".into()),
        }
        drop(place);
    }
}
