//! A network that misbehaves on order: a TCP proxy before one or several servers that passes, delays, cuts, refuses,
//! goes silent, resets after so many bytes, or loses a share of requests and answers. What it does is changed while it
//! runs and holds at once, for connections that are there too. It never looks inside TLS; it counts what it did.

mod carry;
mod counts;
mod turns;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use wire::stop::Stop;

use crate::dice::Dice;
pub use counts::Counts;
use counts::Tally;

/// What happens to bytes and connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Pass,
    /// New connections are reset at once; those that are there go on.
    Refuse,
    /// Bytes are taken and go nowhere, and nothing is closed: a peer behind a dead router.
    BlackHole,
    /// Every piece comes this late, in order.
    Delay(Duration),
    /// Both ends are reset when one side has sent so many bytes; the rest of them is not delivered.
    ResetAfter {
        from: Side,
        bytes: u64,
    },
    /// Of a hundred requests, so many never arrive; of a hundred that arrive, so many answers do not.
    Lose {
        requests_pct: u64,
        answers_pct: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

/// What is spoken through it: where a request begins cannot be seen otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    Plain,
    /// The handshake is no request.
    Tls,
}

/// Where connections go, asked anew for each one: servers that are started again may listen elsewhere.
pub type Targets = Arc<dyn Fn() -> Vec<SocketAddr> + Send + Sync>;

pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    speech: Speech,
    targets: Targets,
    policy: watch::Sender<Policy>,
    /// Raised to cut everything that is there.
    cuts: watch::Sender<u64>,
    tally: Tally,
    dice: Mutex<Dice>,
    stop: Stop,
}

impl Proxy {
    /// Listens on loopback until stopped.
    pub async fn start(
        speech: Speech,
        targets: Targets,
        dice: Dice,
        tracker: &TaskTracker,
        stop: &Stop,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            speech,
            targets,
            policy: watch::Sender::new(Policy::Pass),
            cuts: watch::Sender::new(0),
            tally: Tally::default(),
            dice: Mutex::new(dice),
            stop: stop.clone(),
        });
        tracker.spawn(accept(listener, shared.clone(), tracker.clone()));
        Ok(Self { address, shared })
    }

    /// From now on, for every connection.
    pub fn set(&self, policy: Policy) {
        self.shared.policy.send_replace(policy);
    }

    /// Resets every connection that is there. New ones are taken as the policy says.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    pub fn counts(&self) -> Counts {
        self.shared.tally.counts()
    }
}

impl Shared {
    fn policy(&self) -> Policy {
        *self.policy.borrow()
    }

    fn chance(&self, percent: u64) -> bool {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner).chance(percent)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, tracker: TaskTracker) {
    let mut first = 0;
    while let Some(accepted) = shared.stop.or(listener.accept()).await {
        let Ok((client, _)) = accepted else { continue };
        if shared.policy() == Policy::Refuse {
            shared.tally.refused();
            reset(&client);
            continue;
        }
        shared.tally.connected();
        tracker.spawn(connection(client, shared.clone(), first));
        first += 1;
    }
}

async fn connection(client: TcpStream, shared: Arc<Shared>, first: usize) {
    let targets = (shared.targets)();
    for turn in 0..targets.len() {
        let target = targets[(first + turn) % targets.len()];
        if let Some(Ok(server)) = shared.stop.or(TcpStream::connect(target)).await {
            // A request is one write; waiting for more would only slow everybody down.
            if client.set_nodelay(true).is_ok() && server.set_nodelay(true).is_ok() {
                shared.stop.or(carry::carry(client, server, &shared)).await;
            }
            return;
        }
    }
    // Nobody listens: the client hears what it would have heard without us.
    reset(&client);
}

/// The connection ends with RST when it is dropped.
fn reset(stream: &TcpStream) {
    if let Err(error) = set_socket_linger(stream, Some(Duration::ZERO)) {
        tracing::debug!(%error, "a connection could not be made to end with a reset");
    }
}
