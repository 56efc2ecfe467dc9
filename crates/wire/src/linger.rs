//! A stream that is closed politely. A socket that is closed while bytes lie unread in it is reset, and a reset can
//! take the answer with it that was sent just before: whoever sends too much would not hear why he is refused. So
//! after our last byte we go on reading and throw away what comes, until the other end has closed too, or has had
//! its time, or has sent more than anybody who listens would.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

const LINGER: Duration = Duration::from_secs(1);
/// What is in flight when we close: both ends' buffers, and some.
const MOST: usize = 16 << 20;
const AT_ONCE: usize = 16 * 1024;

pub(crate) struct Linger<I> {
    io: I,
    closing: Option<Closing>,
}

struct Closing {
    until: Pin<Box<Sleep>>,
    thrown_away: usize,
}

impl<I> Linger<I> {
    pub(crate) fn new(io: I) -> Self {
        Self { io, closing: None }
    }
}

impl<I: AsyncRead + Unpin> Linger<I> {
    fn poll_thrown_away(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let closing = self.closing.get_or_insert_with(|| Closing {
            until: Box::pin(sleep(LINGER)),
            thrown_away: 0,
        });
        while closing.thrown_away < MOST {
            if closing.until.as_mut().poll(context).is_ready() {
                break;
            }
            let mut space = [MaybeUninit::uninit(); AT_ONCE];
            let mut buffer = ReadBuf::uninit(&mut space);
            match ready!(Pin::new(&mut self.io).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => closing.thrown_away += buffer.filled().len(),
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(())
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Linger<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Linger<I> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closing.is_none() {
            ready!(Pin::new(&mut self.io).poll_shutdown(context))?;
        }
        self.poll_thrown_away(context).map(Ok)
    }
}
