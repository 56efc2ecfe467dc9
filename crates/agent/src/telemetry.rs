//! Numbers that guests send about themselves: taken on the bridges of slices and nowhere else, from the guest that was
//! given the token and no other, kept in memory one sample per guest, and passed on now and then. Guests are hostile:
//! everything they can make us keep or do is bounded before it is read.

mod book;
mod door;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use model::telemetry::{PORT, TelemetryRequest};
use tokio::net::TcpListener;
use tokio::time::Instant;
use wire::stop::Stop;

use crate::node::Node;

pub use book::Book;
pub use door::{Limits, serve};

/// Between two looks at who may send.
const LOOK: Duration = Duration::from_secs(10);
const RELAY: Duration = Duration::from_secs(30);

pub(crate) async fn run(node: &Node, stop: &Stop) {
    let book = Arc::new(Book::default());
    let mut doors: BTreeMap<Ipv4Addr, Stop> = BTreeMap::new();
    let mut relayed = Instant::now();
    loop {
        // Without the executor nobody new is let in; who was, still may.
        if let Ok((guests, listen)) = node.executor.guests().await {
            book.set(guests);
            open_and_shut(&mut doors, &listen, &book, stop).await;
        }
        if relayed.elapsed() >= RELAY {
            relayed = Instant::now();
            relay(node, &book).await;
        }
        if stop.or(tokio::time::sleep(LOOK)).await.is_none() {
            return;
        }
    }
}

/// One listener for each bridge that there is now.
async fn open_and_shut(doors: &mut BTreeMap<Ipv4Addr, Stop>, listen: &[Ipv4Addr], book: &Arc<Book>, stop: &Stop) {
    doors.retain(|address, door| {
        let stays = listen.contains(address);
        if !stays {
            door.trigger();
        }
        stays
    });
    for address in listen {
        if doors.contains_key(address) {
            continue;
        }
        match TcpListener::bind((*address, PORT)).await {
            Ok(listener) => {
                tracing::info!(%address, port = PORT, "guests may send numbers here");
                let door = stop.child();
                tokio::spawn(serve(listener, book.clone(), Limits::default(), door.clone()));
                doors.insert(*address, door);
            }
            Err(error) => tracing::warn!(%address, port = PORT, %error, "guests cannot send numbers"),
        }
    }
}

/// What does not arrive is lost: the next sample is as good.
async fn relay(node: &Node, book: &Book) {
    let samples = book.take();
    if samples.is_empty() {
        return;
    }
    if let Err(error) = node.api.telemetry(&TelemetryRequest { samples }).await {
        tracing::debug!(reason = error.word(), "guests' numbers not passed on");
    }
}

#[cfg(test)]
mod tests;
