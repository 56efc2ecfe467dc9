//! Which connections are open, and in whose name. A certificate can end while its connection lives; whoever knows
//! that it did cuts the connection here, instead of waiting until the next request on it is refused.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use crate::tls::PeerCertificate;

/// The connections of one listener that were opened with a certificate.
#[derive(Debug, Default)]
pub struct Connections {
    open: Mutex<Board>,
}

#[derive(Debug, Default)]
struct Board {
    next: u64,
    places: HashMap<u64, Arc<Open>>,
}

#[derive(Debug)]
struct Open {
    certificate: Arc<PeerCertificate>,
    since: Instant,
    cut: Notify,
}

/// One open connection. Dropping it leaves.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    number: u64,
    open: Arc<Open>,
}

impl Connections {
    pub(crate) fn enter(self: &Arc<Self>, certificate: &Arc<PeerCertificate>) -> Place {
        let open = Arc::new(Open {
            certificate: certificate.clone(),
            since: Instant::now(),
            cut: Notify::new(),
        });
        let mut board = self.lock();
        let number = board.next;
        board.next += 1;
        board.places.insert(number, open.clone());
        Place {
            connections: self.clone(),
            number,
            open,
        }
    }

    /// Ends every connection whose serial is over, asked with the moment at which it was opened. Says how many.
    pub fn cut(&self, over: impl Fn(&str, Instant) -> bool) -> usize {
        let board = self.lock();
        let ended = board
            .places
            .values()
            .filter(|open| over(&open.certificate.serial, open.since));
        ended.map(|open| open.cut.notify_one()).count()
    }

    pub fn count(&self) -> usize {
        self.lock().places.len()
    }

    fn lock(&self) -> MutexGuard<'_, Board> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Completes once this connection has to end, also if that was said before.
    pub(crate) fn cut(&self) -> impl Future<Output = ()> {
        self.open.cut.notified()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().places.remove(&self.number);
    }
}
