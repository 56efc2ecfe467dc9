//! One connection through the proxy: both directions in one loop, so that it is always clear whose turn it is.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::turns::Turns;
use super::{Policy, Shared, Side, reset};

/// A lost answer is over when its server has said nothing for this long: TLS tickets come before the answer itself.
const QUIET: Duration = Duration::from_millis(50);
const PIECE: usize = 16 * 1024;

/// Whether the connection goes on.
enum Then {
    GoOn,
    /// Both ends hear of it at once.
    Reset,
    /// Only the client does; the server sees an ordinary end.
    Lost,
}

struct Carried<'a> {
    shared: &'a Shared,
    client: TcpStream,
    server: TcpStream,
    turns: Turns,
    /// A request is under way, and whether its answer is to be lost.
    asked: Option<bool>,
    sent: [u64; 2],
    ended: [bool; 2],
}

pub(super) async fn carry(client: TcpStream, server: TcpStream, shared: &Shared) {
    let mut cuts = shared.cuts.subscribe();
    let mut carried = Carried {
        shared,
        client,
        server,
        turns: Turns::new(shared.speech),
        asked: None,
        sent: [0; 2],
        ended: [false; 2],
    };
    let then = tokio::select! {
        biased;
        _ = cuts.changed() => {
            shared.tally.reset();
            Then::Reset
        }
        then = carried.run() => then,
    };
    match then {
        Then::GoOn => {}
        Then::Reset => {
            reset(&carried.client);
            reset(&carried.server);
        }
        Then::Lost => reset(&carried.client),
    }
}

impl Carried<'_> {
    async fn run(&mut self) -> Then {
        let (mut asked, mut answered) = ([0; PIECE], [0; PIECE]);
        // How a connection ends otherwise is its two ends' business.
        while self.ended != [true; 2] {
            let (side, read) = tokio::select! {
                read = self.client.read(&mut asked), if !self.ended[0] => (Side::Client, read),
                read = self.server.read(&mut answered), if !self.ended[1] => (Side::Server, read),
            };
            let (at, piece) = match side {
                Side::Client => (0, &asked),
                Side::Server => (1, &answered),
            };
            let then = match read {
                Err(_) => return Then::Reset,
                Ok(0) => {
                    self.ended[at] = true;
                    match self.other(side).shutdown().await {
                        Ok(()) => Then::GoOn,
                        Err(_) => return Then::Reset,
                    }
                }
                Ok(n) => self.piece(side, at, &piece[..n]).await,
            };
            if !matches!(then, Then::GoOn) {
                return then;
            }
        }
        Then::GoOn
    }

    async fn piece(&mut self, side: Side, at: usize, piece: &[u8]) -> Then {
        let before = self.sent[at];
        self.sent[at] += piece.len() as u64;
        let begins = match side {
            Side::Client => self.turns.client(piece),
            Side::Server => {
                self.turns.server();
                false
            }
        };
        match self.shared.policy() {
            Policy::Pass | Policy::Refuse => {}
            Policy::BlackHole => return Then::GoOn,
            Policy::Delay(late) => tokio::time::sleep(late).await,
            Policy::ResetAfter { from, bytes } if from == side && self.sent[at] >= bytes => {
                let rest = usize::try_from(bytes.saturating_sub(before)).unwrap_or(usize::MAX);
                let wanted = &piece[..rest.min(piece.len())];
                // It is reset either way.
                self.other(side).write_all(wanted).await.ok();
                self.shared.tally.reset();
                return Then::Reset;
            }
            Policy::ResetAfter { .. } => {}
            Policy::Lose {
                requests_pct,
                answers_pct,
            } => {
                if begins {
                    self.shared.tally.requested();
                    if self.shared.chance(requests_pct) {
                        self.shared.tally.lost_request();
                        return Then::Lost;
                    }
                    self.asked = Some(self.shared.chance(answers_pct));
                }
            }
        }
        if side == Side::Server
            && let Some(lose) = self.asked.take()
        {
            self.shared.tally.answered();
            if lose {
                self.shared.tally.lost_answer();
                self.drain().await;
                return Then::Lost;
            }
        }
        match self.other(side).write_all(piece).await {
            Ok(()) => Then::GoOn,
            Err(_) => Then::Reset,
        }
    }

    /// Takes the rest of an answer that nobody will get, so that its server has really given it.
    async fn drain(&mut self) {
        let mut rest = [0; PIECE];
        while let Ok(Ok(1..)) = timeout(QUIET, self.server.read(&mut rest)).await {}
    }

    fn other(&mut self, side: Side) -> &mut TcpStream {
        match side {
            Side::Client => &mut self.server,
            Side::Server => &mut self.client,
        }
    }
}
