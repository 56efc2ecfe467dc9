//! The Unix socket: who may connect, how long anybody is waited for, and what happens to nonsense. A frame that is not
//! a message closes its connection and nothing else.

use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use model::socket::{self, FromAgent};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::node::Node;
use crate::outlet::Queue;
use crate::serve;

/// A message that has begun must have ended by then; a message that is written must have been read. However many
/// pieces it comes in.
const FRAME_TIMEOUT: Duration = Duration::from_secs(10);

/// After a connection that could not be had.
const PAUSE: Duration = Duration::from_millis(50);

/// Replaces what a killed predecessor left; the state directory's lock says that it is gone.
pub(crate) fn bind(path: &Path, agent_group: Option<u32>) -> anyhow::Result<UnixListener> {
    let context = || format!("listen on {}", path.display());
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(context)?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).with_context(context)?,
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(path).with_context(context)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o660)).with_context(context)?;
    if agent_group.is_some() {
        std::os::unix::fs::chown(path, None, agent_group).with_context(context)?;
    }
    // The one who knocked may be gone before we open.
    listener.set_nonblocking(true).with_context(context)?;
    Ok(listener)
}

/// Accepts until told to stop.
pub(crate) fn accept(node: &Arc<Node>, listener: &UnixListener) -> io::Result<()> {
    while node.stop.wait_readable(listener.as_fd())? {
        let admitted = listener.accept().and_then(|(stream, _)| admit(node, stream));
        match admitted {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                tracing::warn!(%error, "connection refused");
                // Out of descriptors, say: whoever knocks without end shall not keep us busy.
                node.stop.wait(PAUSE);
            }
        }
    }
    Ok(())
}

fn admit(node: &Arc<Node>, stream: UnixStream) -> io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    let (uid, gid) = (peer.uid.as_raw(), peer.gid.as_raw());
    if !may_connect(uid, gid, rustix::process::geteuid().as_raw(), node.options.agent_group) {
        let why = format!(
            "{}: uid {uid} gid {gid} is not the agent",
            model::signal::Code::PeerRefused
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let (number, queue) = node.outlet.connect(stream.try_clone()?);
    let to_agent = stream.try_clone()?;
    let reader = Arc::clone(node);
    let writer = Arc::clone(node);
    node.spawn("socket-write", move || {
        if let Err(error) = write_all(to_agent, &queue) {
            tracing::warn!(%error, "writing to the agent");
        }
        writer.outlet.disconnect(number);
    })?;
    node.spawn("socket-read", move || {
        if let Err(error) = read_all(&reader, stream) {
            tracing::warn!(code = %model::signal::Code::FrameMalformed, %error, "reading from the agent");
        }
        reader.outlet.disconnect(number);
    })
}

/// Root, ourselves, and the agent's group: the file's mode says the same, but modes can be changed by accident.
fn may_connect(uid: u32, gid: u32, own_uid: u32, agent_group: Option<u32>) -> bool {
    uid == 0 || uid == own_uid || agent_group == Some(gid)
}

fn write_all(mut stream: UnixStream, queue: &Queue) -> io::Result<()> {
    while let Some(frame) = queue.next() {
        let deadline = Instant::now() + FRAME_TIMEOUT;
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            stream.set_write_timeout(Some(left(deadline)?))?;
            match stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn read_all(node: &Arc<Node>, mut stream: UnixStream) -> io::Result<()> {
    while let Some((message, fd)) = read_one(&mut stream)? {
        if node.stop.asked() {
            break;
        }
        serve::answer(node, message, fd);
    }
    Ok(())
}

/// None: the agent hung up between two messages, as it may.
fn read_one(stream: &mut UnixStream) -> io::Result<Option<(FromAgent, Option<OwnedFd>)>> {
    let mut header = [0; 4];
    stream.set_read_timeout(None)?;
    let (read, fd) = first_byte(stream, &mut header[..1])?;
    if read == 0 {
        return Ok(None);
    }
    let deadline = Instant::now() + FRAME_TIMEOUT;
    read_by(stream, &mut header[1..], deadline)?;
    let length = socket::body_length(header).map_err(io::Error::other)?;
    let mut body = vec![0; length];
    read_by(stream, &mut body, deadline)?;
    let message = socket::decode(&body).map_err(io::Error::other)?;
    Ok(Some((message, fd)))
}

/// A descriptor comes with the first byte of its message; one that comes elsewhere, or a second one, is closed unseen.
fn first_byte(stream: &UnixStream, byte: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(byte)];
    let read = rustix::io::retry_on_intr(|| recvmsg(stream, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok((read.bytes, fds.flatten().next()))
}

fn read_by(stream: &mut UnixStream, buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
    let mut have = 0;
    while have < buffer.len() {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut buffer[have..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => have += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Time until the deadline; none left is an error.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(io::ErrorKind::TimedOut.into())
    } else {
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Write};
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use super::{may_connect, read_by};

    #[test]
    fn a_message_that_comes_in_drops_has_to_end_all_the_same() {
        let (mut ours, mut theirs) = UnixStream::pair().expect("two ends");
        let drops = std::thread::spawn(move || {
            // A drop each time there is room for one, until we hang up.
            while theirs.write_all(b"x").is_ok() {
                std::thread::yield_now();
            }
        });
        let mut body = vec![0; 1 << 30];
        let deadline = Instant::now() + Duration::from_millis(50);
        let error = read_by(&mut ours, &mut body, deadline).expect_err("it never ends");
        assert!(
            matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock),
            "{error}"
        );
        drop(ours);
        drops.join().expect("no panic");
    }

    #[test]
    fn only_root_ourselves_and_the_agents_group_may_connect() {
        assert!(may_connect(0, 0, 0, None));
        assert!(may_connect(1000, 1000, 1000, None));
        assert!(may_connect(991, 990, 0, Some(990)));
        assert!(!may_connect(991, 990, 0, None));
        assert!(!may_connect(20_001, 20_001, 0, Some(990)));
    }
}
