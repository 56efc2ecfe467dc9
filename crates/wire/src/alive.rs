//! Somebody whose machine lost power or whose network forgot the connection says nothing, and a request that is held
//! hears nothing for a long time even when all is well. So the kernel asks, on both sides: a peer that is gone is
//! noticed within half a minute, and nobody's program wakes up for it.

use std::io;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// Silence before the first question.
const AFTER: Duration = Duration::from_secs(15);
/// Between two questions.
const EVERY: Duration = Duration::from_secs(5);
/// Unanswered ones before the connection is given up.
const QUESTIONS: u32 = 3;
/// What was sent and not acknowledged for this long ends it, too.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Small writes leave at once, and a silent peer is asked whether it is still there.
pub(crate) fn tend(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, AFTER)?;
    sockopt::set_tcp_keepintvl(stream, EVERY)?;
    sockopt::set_tcp_keepcnt(stream, QUESTIONS)?;
    sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED.as_millis() as u32)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_silent_peer_is_given_up_within_half_a_minute() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound"))
            .await
            .expect("connects");
        tend(&stream).expect("tended");
        assert!(sockopt::socket_keepalive(&stream).expect("read back"));
        let idle = sockopt::tcp_keepidle(&stream).expect("read back");
        let every = sockopt::tcp_keepintvl(&stream).expect("read back");
        let questions = sockopt::tcp_keepcnt(&stream).expect("read back");
        assert!(idle + every * questions <= Duration::from_secs(30));
        assert_eq!(sockopt::tcp_user_timeout(&stream).expect("read back"), 30_000);
    }
}
