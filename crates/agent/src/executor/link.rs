//! One connection to the executor, from connect to hang-up: frames in, frames out, each message to whom it concerns.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use model::socket::{self, FromAgent, FromExecutor};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::{Done, Errand, Outgoing, Shared, Verdict};

/// The first question of every connection.
const HELLO: u64 = 0;

/// Runs until the executor hangs up or talks nonsense.
pub(super) async fn connection(shared: &Arc<Shared>) -> io::Result<()> {
    let (mut incoming, out) = UnixStream::connect(&shared.path).await?.into_split();
    let (outgoing, queue) = mpsc::unbounded_channel();
    for first in [FromAgent::Hello { request_id: HELLO }, FromAgent::Results {}] {
        outgoing.send((first, None)).map_err(io::Error::other)?;
    }
    shared.inner().outgoing = Some(outgoing);
    let reading = async {
        while let Some(message) = read(&mut incoming).await? {
            receive(shared, message).await;
        }
        Ok(())
    };
    tokio::select! {
        ended = reading => ended,
        ended = write(out, queue) => ended,
    }
}

async fn write(mut out: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Outgoing>) -> io::Result<()> {
    while let Some((message, fd)) = queue.recv().await {
        let frame = socket::encode(&message).map_err(io::Error::other)?;
        let sent = match fd {
            Some(fd) => with_descriptor(out.as_ref(), &frame, fd).await?,
            None => 0,
        };
        out.write_all(&frame[sent..]).await?;
    }
    Ok(())
}

/// The descriptor goes with the first bytes; how many those were.
async fn with_descriptor(out: &UnixStream, frame: &[u8], fd: OwnedFd) -> io::Result<usize> {
    out.async_io(Interest::WRITABLE, || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [fd.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&fds));
        Ok(sendmsg(out, &[IoSlice::new(frame)], &mut control, SendFlags::empty())?)
    })
    .await
}

/// None: it hung up between two messages.
async fn read(incoming: &mut OwnedReadHalf) -> io::Result<Option<FromExecutor>> {
    let mut header = [0; 4];
    match incoming.read_exact(&mut header).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    };
    let mut body = vec![0; socket::body_length(header).map_err(io::Error::other)?];
    incoming.read_exact(&mut body).await?;
    socket::decode(&body).map(Some).map_err(io::Error::other)
}

async fn receive(shared: &Shared, message: FromExecutor) {
    match message {
        FromExecutor::Accepted { task_id, .. } => {
            verdict(shared, task_id, Verdict::Taken);
            shared.moved.notify_one();
        }
        FromExecutor::NotTaken { task_id, code } => verdict(shared, task_id, Verdict::NotTaken(code)),
        FromExecutor::Progress { .. } => shared.moved.notify_one(),
        FromExecutor::Done {
            task_id,
            fence,
            envelope,
        } => {
            verdict(shared, task_id, Verdict::Taken);
            // The receiver ends only with the agent, and then nobody misses this: it is said again next time.
            shared
                .results
                .send(Done {
                    task_id,
                    fence,
                    envelope,
                })
                .await
                .ok();
        }
        FromExecutor::State { request_id, ref state } => {
            shared.state.send_replace(Some(Arc::new((**state).clone())));
            answer(shared, request_id, message);
        }
        FromExecutor::ImageWanted { image } => errand(shared, Errand::Image(image)),
        FromExecutor::ImageSettled { sha256 } => errand(shared, Errand::Settled(sha256)),
        FromExecutor::GuestWanted { want, vm, address } => errand(shared, Errand::Guest { want, vm, address }),
        FromExecutor::Trusted { request_id, .. }
        | FromExecutor::Catalogued { request_id, .. }
        | FromExecutor::Keys { request_id, .. }
        | FromExecutor::Token { request_id, .. }
        | FromExecutor::Held { request_id, .. }
        | FromExecutor::Guests { request_id, .. }
        | FromExecutor::Ok { request_id }
        | FromExecutor::Failed { request_id, .. } => answer(shared, request_id, message),
    }
}

/// One that finds nobody, or too many before it, is asked for again.
fn errand(shared: &Shared, errand: Errand) {
    if shared.errands.try_send(errand).is_err() {
        tracing::warn!("too many errands at once, or nobody to run them");
    }
}

fn verdict(shared: &Shared, task_id: model::id::TaskId, verdict: Verdict) {
    if let Some(offer) = shared.inner().offers.remove(&task_id) {
        // Whoever offered may have stopped waiting.
        offer.send(verdict).ok();
    }
}

fn answer(shared: &Shared, request_id: u64, message: FromExecutor) {
    if let Some(question) = shared.inner().questions.remove(&request_id) {
        question.send(message).ok();
    }
}
