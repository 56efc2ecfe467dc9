//! A front before several replicas: every new connection goes to the next one that takes it. It neither ends TLS nor
//! looks inside, so node certificates pass through it unchanged.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;
use wire::stop::Stop;

pub struct Front {
    pub address: SocketAddr,
    served: Arc<Vec<AtomicUsize>>,
}

impl Front {
    pub fn start(
        listener: TcpListener,
        backends: Vec<SocketAddr>,
        tracker: &TaskTracker,
        stop: &Stop,
    ) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let served: Arc<Vec<AtomicUsize>> = Arc::new(backends.iter().map(|_| AtomicUsize::new(0)).collect());
        tracker.spawn(accept(listener, backends, served.clone(), stop.clone()));
        Ok(Self { address, served })
    }

    /// Connections that each backend was given.
    pub fn served(&self) -> Vec<usize> {
        self.served.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    }
}

async fn accept(listener: TcpListener, backends: Vec<SocketAddr>, served: Arc<Vec<AtomicUsize>>, stop: Stop) {
    let backends = Arc::new(backends);
    let mut next = 0;
    while let Some(accepted) = stop.or(listener.accept()).await {
        let Ok((client, _)) = accepted else { continue };
        tokio::spawn(carry(client, backends.clone(), next, served.clone(), stop.clone()));
        next += 1;
    }
}

async fn carry(
    mut client: TcpStream,
    backends: Arc<Vec<SocketAddr>>,
    first: usize,
    served: Arc<Vec<AtomicUsize>>,
    stop: Stop,
) {
    let mut taken = None;
    for turn in (0..backends.len()).map(|n| (first + n) % backends.len()) {
        if let Ok(server) = TcpStream::connect(backends[turn]).await {
            taken = Some((turn, server));
            break;
        }
    }
    let Some((turn, mut server)) = taken else { return };
    served[turn].fetch_add(1, Ordering::SeqCst);
    // How a connection ends is its two ends' business.
    stop.or(copy_bidirectional(&mut client, &mut server)).await;
}
