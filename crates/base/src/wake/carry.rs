//! Carries wake-ups between processes: one task that sends, one that listens. Both reconnect for ever, with a pause
//! that grows to five seconds; after every reconnection everything is rung once, because something may have been missed.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener};
use sqlx::{Connection, Executor};
use tokio_util::sync::CancellationToken;

use super::{Topic, Unsent, Wake};
use crate::db::Db;

const CHANNEL: &str = "gpuaas_wake";
/// Commits within this time share one NOTIFY.
const COALESCE: Duration = Duration::from_millis(5);
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MOST: Duration = Duration::from_secs(5);

/// Sends until `stop` fires. One per process.
pub async fn send(db: Db, stop: CancellationToken) {
    let wake = db.wake().clone();
    let mut conn: Option<PgConnection> = None;
    let mut pause = RETRY_FIRST;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = wake.inner.unsent.notified() => {}
        }
        let unsent = wake.take_unsent();
        if unsent.is_empty() {
            continue;
        }
        match notify(&mut conn, db.connect_options(), &wake, &unsent).await {
            Ok(()) => {
                pause = RETRY_FIRST;
                // After, not before: the first of many is heard at once, the others share the next one.
                breathe(&wake).await;
            }
            Err(error) => {
                tracing::warn!(%error, "wake-up not sent; others will find the work by their sweep until it is");
                conn = None;
                wake.give_back(&unsent);
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(RETRY_MOST);
            }
        }
    }
}

/// The pause between two NOTIFYs. News of stamped events does not wait for it: it comes right behind the wake-up that
/// asked for the stamp, and the relay paces it already.
async fn breathe(wake: &Wake) {
    let mut over = std::pin::pin!(tokio::time::sleep(COALESCE));
    let stamped = || wake.inner.dirty[Topic::Events as usize].load(std::sync::atomic::Ordering::SeqCst);
    loop {
        tokio::select! {
            () = &mut over => break,
            () = wake.inner.unsent.notified() => if stamped() { break },
        }
    }
    // What was raised meanwhile still has to be sent; a ring too many finds nothing to send.
    wake.inner.unsent.notify_one();
}

async fn notify(
    conn: &mut Option<PgConnection>,
    options: &PgConnectOptions,
    wake: &Wake,
    unsent: &Unsent,
) -> sqlx::Result<()> {
    let conn = match conn {
        Some(conn) => conn,
        None => {
            let mut fresh = PgConnection::connect_with(options).await?;
            // A wake-up need not survive a crash, so it need not wait for the disk.
            fresh.execute("set synchronous_commit = off").await?;
            conn.insert(fresh)
        }
    };
    let payload = format!("{} {}", wake.inner.process, unsent.words().join(" "));
    sqlx::query("select pg_notify($1, $2)")
        .bind(CHANNEL)
        .bind(payload)
        .execute(conn)
        .await?;
    Ok(())
}

/// Listens until `stop` fires. One per process.
pub async fn listen(db: Db, stop: CancellationToken) {
    let wake = db.wake().clone();
    let mut pause = RETRY_FIRST;
    loop {
        let heard = tokio::select! {
            () = stop.cancelled() => return,
            heard = listen_once(&db, &wake, &mut pause) => heard,
        };
        if let Err(error) = heard {
            tracing::warn!(%error, "wake-up listener lost its connection");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(RETRY_MOST);
    }
}

/// Returns when the connection is lost.
async fn listen_once(db: &Db, wake: &Wake, pause: &mut Duration) -> sqlx::Result<()> {
    let mut listener = PgListener::connect_with(db.bookkeeping()).await?;
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    *pause = RETRY_FIRST;
    // Connected only now: what was raised before is found by looking.
    for topic in Topic::ALL {
        wake.ring(topic);
    }
    while let Some(heard) = listener.try_recv().await? {
        let mut words = heard.payload().split(' ');
        if words.next() == Some(wake.inner.process.to_string().as_str()) {
            continue; // rung here already, when it was raised
        }
        words.for_each(|word| wake.hear(word));
    }
    Ok(())
}
