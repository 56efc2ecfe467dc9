//! The life of one stream: tells what comes, proves every few seconds that its reader may still hear it, and ends with a
//! word. After an event that changes who is in a project nothing is told before that was looked at.

use std::net::IpAddr;
use std::time::Duration;

use base::auth::{self, Presence};
use base::http::{ApiError, Outlet, Unheard};
use base::outbox::{Event, Next, Reader};
use fleet::Fleet;
use http::HeaderMap;
use model::signal::Code;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::resume::Begin;
use super::sight::{Ask, Sight};

#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Between two signs of life.
    pub(super) comment: Duration,
    /// Between two looks at whether the reader may still hear.
    pub(super) standing: Duration,
    /// How long a reader may leave a full buffer unread.
    pub(super) patience: Duration,
    /// Less than a connection may last.
    pub(super) age: Duration,
}

pub(super) const TIMES: Times = Times {
    comment: Duration::from_secs(15),
    standing: Duration::from_secs(2),
    patience: Duration::from_secs(10),
    age: Duration::from_secs(50 * 60),
};

pub(super) struct Pour {
    pub(super) fleet: Fleet,
    /// Of the request: whoever it was is asked for again.
    pub(super) headers: HeaderMap,
    pub(super) address: Option<IpAddr>,
    pub(super) ask: Ask,
    pub(super) sight: Sight,
    pub(super) reader: Reader,
    pub(super) times: Times,
}

/// Why a stream ends.
enum End {
    /// Nobody is there to be told.
    Unheard,
    Told(Code),
}

impl From<Unheard> for End {
    fn from(unheard: Unheard) -> Self {
        match unheard {
            Unheard::Gone => Self::Unheard,
            Unheard::Slow => Self::Told(Code::StreamTooSlow),
        }
    }
}

impl Pour {
    pub(super) async fn run(mut self, outlet: Outlet, begin: Begin) {
        match self.pour(&outlet, begin).await {
            End::Unheard => {}
            End::Told(code) => outlet.end(code),
        }
    }

    async fn pour(&mut self, outlet: &Outlet, begin: Begin) -> End {
        if let Err(unheard) = self.greet(outlet, begin).await {
            return unheard.into();
        }
        let tick = |every| {
            let mut tick = interval_at(Instant::now() + every, every);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            tick
        };
        let (mut comment, mut standing) = (tick(self.times.comment), tick(self.times.standing));
        let old = Instant::now() + self.times.age;
        let stop = self.fleet.stop.clone();
        loop {
            // In this order: whoever may no longer hear is told nothing more.
            let step = tokio::select! {
                biased;
                () = stop.cancelled() => Err(End::Told(Code::Unavailable)),
                () = outlet.gone() => Err(End::Unheard),
                _ = standing.tick() => self.look_again().await,
                () = sleep_until(old) => Err(End::Told(Code::StreamTooOld)),
                _ = comment.tick() => outlet.comment(self.reader.at()).await.map_err(End::from),
                next = self.reader.next() => match next {
                    Ok(Next::Event(event)) => self.tell(outlet, &event).await,
                    Ok(Next::Behind(until)) => self.catch_up(until).await,
                    Err(error) => Err(failed(error.into())),
                },
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    async fn greet(&self, outlet: &Outlet, begin: Begin) -> Result<(), Unheard> {
        let at = self.reader.at();
        match begin {
            Begin::Now | Begin::After(_) => outlet.open(at).await,
            Begin::Reset(asked) => {
                outlet.open(at).await?;
                let data = json!({ "asked": asked, "message": "what came after it cannot all be told any more: look at everything again" });
                outlet.event(at, "reset", &data).await
            }
        }
    }

    async fn tell(&mut self, outlet: &Outlet, event: &Event) -> Result<(), End> {
        if ["project.created", "project.member"].contains(&event.kind.as_str()) {
            self.look_again().await?;
        }
        if let Some(view) = self.sight.shows(&self.ask, event) {
            outlet.event(event.seq, &view.kind, &view).await?;
        }
        // That a project has ended is the last that those hear who were in it.
        if event.kind == "project.deleted" {
            self.look_again().await?;
        }
        Ok(())
    }

    /// Projects that were joined by then are read, too: nobody looks there again.
    async fn catch_up(&mut self, until: i64) -> Result<(), End> {
        self.look_again().await?;
        let wanted = self.sight.wanted(&self.ask);
        let read = self.reader.look_back(until, &wanted).await;
        read.map_err(|error| failed(error.into()))
    }

    /// The same questions as at the beginning. More than before is taken up; less ends the stream.
    async fn look_again(&mut self) -> Result<(), End> {
        let (app, listens) = (&self.fleet.app, Presence::Listens);
        let principal = auth::authenticate_as(app, &self.headers, self.address, listens).await;
        let sight = match principal {
            Ok(principal) => Sight::of(&self.fleet, &principal, &self.ask).await,
            Err(error) => Err(error),
        };
        match sight {
            Ok(sight) if sight.covers(&self.sight) => {
                self.sight = sight;
                Ok(())
            }
            Ok(_) => Err(End::Told(Code::StreamAccessLost)),
            Err(error) => Err(failed(error)),
        }
    }
}

/// What a request would have been refused with ends a stream, too; a database that is away is no refusal.
fn failed(error: ApiError) -> End {
    match error.code {
        Code::DatabaseUnavailable => End::Told(Code::Unavailable),
        Code::Internal => {
            tracing::error!(%error, "a stream of events failed");
            End::Told(Code::Internal)
        }
        _ => End::Told(Code::StreamAccessLost),
    }
}
