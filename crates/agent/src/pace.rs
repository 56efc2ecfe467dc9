//! Every wait of the agent, as numbers that a test can shrink, and the rule that says which wait follows which
//! answer. Pure: it decides, others sleep.

use std::time::Duration;

use model::signal::Code;
use wire::http::ErrorKind;
use wire::retry::{Backoff, jittered};

use crate::api::CallError;

#[derive(Clone, Debug)]
pub struct Pace {
    /// First and longest wait after a failed call.
    pub retry: (Duration, Duration),
    /// Whoever was connected and suddenly is not comes back anywhere within this time: the others lost the same server.
    pub spread: Duration,
    /// The same towards the executor, which is on this machine and soon back.
    pub executor_retry: (Duration, Duration),
    /// How long the executor may take to answer.
    pub executor_answer: Duration,
    /// How often the handoff file is looked for.
    pub handoff: Duration,
    /// First and longest wait when an edge slows us down.
    pub edge: (Duration, Duration),
    /// Most that an edge's `Retry-After` is believed.
    pub retry_after_most: Duration,
    /// While quarantined, or refused in a way that only a person can change.
    pub slow: Duration,
    /// Between hearing that another session took over and asking once more, before leaving. Longer than the control
    /// plane gives a late request: whoever still asks then lives beside the other.
    pub superseded: Duration,
    /// Longer than the control plane holds a wait.
    pub wait: Duration,
    /// Clocks jump and machines sleep: the clock is looked at again at least this often.
    pub recheck: Duration,
    /// Least time between two renewals that succeed.
    pub renewal_spacing: Duration,
    /// Least time between two self-probes that failures ask for.
    pub probe_spacing: Duration,
    /// An image of which nothing more has come for this long is given up.
    pub fetch_patience: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        let s = Duration::from_secs;
        Self {
            // Well below the time after which a silent node is stale: a short outage must not make the fleet look dead.
            retry: (s(1), s(15)),
            spread: s(15),
            executor_retry: (Duration::from_millis(100), s(5)),
            executor_answer: s(20),
            handoff: s(1),
            edge: (s(60), s(300)),
            retry_after_most: s(900),
            slow: s(60),
            superseded: s(90),
            wait: s(65),
            recheck: s(30),
            renewal_spacing: s(5),
            probe_spacing: s(10),
            fetch_patience: s(300),
        }
    }
}

impl Pace {
    pub fn backoff(&self) -> Backoff {
        Backoff::new(self.retry.0, self.retry.1)
    }

    pub fn executor_backoff(&self) -> Backoff {
        Backoff::new(self.executor_retry.0, self.executor_retry.1)
    }
}

/// What to do about a call that did not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Try again, 1–30 s jittered.
    Retry,
    /// Something before the platform turned us away.
    Edge { retry_after_s: Option<u64> },
    /// Ours, but it has to be asked less often.
    Wait { seconds: u32 },
    /// Only a person changes this; look again now and then.
    Slow,
    /// Open the session again.
    Session,
    /// Another run of this agent has taken over. Never fight for it.
    Superseded,
    /// Our certificate is the problem.
    Renew,
}

pub fn next(error: &CallError) -> Next {
    match error {
        CallError::Transport(error) => match error.kind {
            ErrorKind::EdgeRateLimited => Next::Edge {
                retry_after_s: error.retry_after_s,
            },
            ErrorKind::CertExpired | ErrorKind::CertRevoked | ErrorKind::CertUntrusted => Next::Renew,
            ErrorKind::UrlInvalid
            | ErrorKind::DnsFailed
            | ErrorKind::TcpTimeout
            | ErrorKind::TcpRefused
            | ErrorKind::ServerCertUntrusted
            | ErrorKind::ServerCertExpired
            | ErrorKind::ServerNameMismatch
            | ErrorKind::Timeout
            | ErrorKind::Closed
            | ErrorKind::NotGpuaas
            | ErrorKind::BodyTooLarge
            | ErrorKind::BodyMalformed => Next::Retry,
        },
        CallError::Refused {
            status,
            code,
            retry_after_s,
            ..
        } => match code {
            Some(Code::SessionSuperseded) => Next::Superseded,
            Some(Code::SessionRequired) => Next::Session,
            // The device credential may still stand: then a new certificate is one call away.
            Some(Code::CertExpired | Code::CertUnknown | Code::CertRevoked) => Next::Renew,
            Some(
                Code::NodeQuarantined
                | Code::AgentIncompatible
                | Code::NodeCloned
                | Code::NodeRemoved
                | Code::SimulatedNodeRefused,
            ) => Next::Slow,
            _ => match (*status, *retry_after_s) {
                (409 | 428, _) => Next::Session,
                (426, _) => Next::Slow,
                (429 | 503, Some(seconds)) => Next::Wait { seconds },
                _ => Next::Retry,
            },
        },
    }
}

/// The waits of one poller: what follows a failure depends on what came before it.
#[derive(Clone, Debug)]
pub struct Pauses {
    backoff: Backoff,
    edge: Edge,
    /// The last call was answered.
    connected: bool,
}

impl Pauses {
    pub fn new(pace: &Pace) -> Self {
        Self {
            backoff: pace.backoff(),
            edge: Edge::default(),
            connected: false,
        }
    }

    /// A call was answered as it should be.
    pub fn answered(&mut self) {
        self.edge.reset();
        self.connected = true;
    }

    /// And nothing is left to be tried again.
    pub fn settled(&mut self) {
        self.backoff.reset();
    }

    /// Tried again later, and later still the next time.
    pub fn again(&mut self) -> Duration {
        self.backoff.draw()
    }

    /// The pause before the next call, or none if there must not be one. A connection that breaks after it has worked
    /// is rarely ours alone: the server is gone for everybody, so the first try is anywhere within the spread. Later
    /// ones are spread already.
    pub fn after(&mut self, next: Next, pace: &Pace) -> Option<Duration> {
        let was_connected = std::mem::take(&mut self.connected);
        Some(match next {
            Next::Superseded => return None,
            Next::Retry if was_connected => pace.spread.mul_f64(rand::random()).max(self.backoff.least()),
            Next::Retry | Next::Session | Next::Renew => self.backoff.draw(),
            Next::Edge { retry_after_s } => self.edge.draw(pace, retry_after_s),
            Next::Wait { seconds } => jittered(Duration::from_secs(seconds.into()), 0.2).min(pace.retry_after_most),
            Next::Slow => jittered(pace.slow, 0.2),
        })
    }
}

/// How an edge that turns us away is met: 60 s, doubling to 300 s, give or take a fifth, or what it asks for.
#[derive(Clone, Debug, Default)]
pub struct Edge {
    times: u32,
}

impl Edge {
    pub fn draw(&mut self, pace: &Pace, retry_after_s: Option<u64>) -> Duration {
        let (first, most) = pace.edge;
        let wait = first.saturating_mul(1 << self.times.min(16)).min(most);
        self.times += 1;
        let asked = Duration::from_secs(retry_after_s.unwrap_or(0)).min(pace.retry_after_most);
        jittered(wait, 0.2).max(asked)
    }

    pub fn reset(&mut self) {
        self.times = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: Option<Code>) -> Next {
        next(&CallError::Refused {
            status,
            code,
            server_time: None,
            retry_after_s: None,
        })
    }

    #[test]
    fn every_refusal_has_its_answer() {
        assert_eq!(refused(409, Some(Code::SessionSuperseded)), Next::Superseded);
        assert_eq!(refused(428, Some(Code::SessionRequired)), Next::Session);
        assert_eq!(refused(428, None), Next::Session);
        assert_eq!(refused(403, Some(Code::NodeQuarantined)), Next::Slow);
        assert_eq!(refused(426, Some(Code::AgentIncompatible)), Next::Slow);
        assert_eq!(refused(401, Some(Code::CertExpired)), Next::Renew);
        for status in [400, 404, 500, 502, 503, 504] {
            assert_eq!(refused(status, None), Next::Retry, "{status}");
        }
        let limited = CallError::Refused {
            status: 429,
            code: Some(Code::RateLimited),
            server_time: None,
            retry_after_s: Some(7),
        };
        assert_eq!(next(&limited), Next::Wait { seconds: 7 });
    }

    #[test]
    fn a_fleet_that_lost_its_server_comes_back_spread() {
        let pace = Pace::default();
        let mut slots = [0; 15];
        for _ in 0..1500 {
            let mut pauses = Pauses::new(&pace);
            pauses.answered();
            let pause = pauses.after(Next::Retry, &pace).expect("it tries again");
            slots[usize::try_from(pause.as_secs()).expect("small")] += 1;
            // Still not there: now by itself, and soon.
            assert!(pauses.after(Next::Retry, &pace).expect("again") <= pace.retry.0);
        }
        assert!(slots.iter().all(|count| (50..160).contains(count)), "{slots:?}");
        // Whoever starts is alone, and tries soon.
        assert!(Pauses::new(&pace).after(Next::Retry, &pace).expect("it tries again") <= pace.retry.0);
        assert_eq!(Pauses::new(&pace).after(Next::Superseded, &pace), None);
    }

    #[test]
    fn an_edge_is_asked_less_and_less() {
        let pace = Pace::default();
        let mut edge = Edge::default();
        for (least_s, most_s) in [(48, 72), (96, 144), (192, 288), (240, 360), (240, 360)] {
            let wait = edge.draw(&pace, None).as_secs();
            assert!((least_s..=most_s).contains(&wait), "{wait}");
        }
        assert_eq!(edge.draw(&pace, Some(600)).as_secs(), 600);
        assert_eq!(edge.draw(&pace, Some(1_000_000)).as_secs(), 900);
        edge.reset();
        assert!(edge.draw(&pace, None).as_secs() <= 72);
    }
}
