//! How a connected socket gets to ssh, which closes every descriptor it inherits: it starts this program again, which
//! fetches the socket over a counter that exists for this one purpose, and hands it on.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use data_encoding::HEXLOWER;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::Result;
use crate::error::Doing;
use crate::real::command::NOBODY;

const DIR: &str = "/run/gpuaas/guests";

/// A directory that nobody can list, with the socket and the one known host; gone when it is closed.
pub(super) struct Counter {
    dir: PathBuf,
    clerk: Option<JoinHandle<()>>,
}

impl Counter {
    /// Gives `connection` to the first who comes and may have it.
    pub(super) fn open(known_hosts: &[u8], connection: OwnedFd) -> Result<Self> {
        let mut name = [0; 16];
        getrandom(&mut name[..], GetRandomFlags::empty()).doing(|| "name a socket".to_owned())?;
        let dir = Path::new(DIR).join(HEXLOWER.encode(&name));
        let doing = || format!("make {}", dir.display());
        fs::create_dir_all(&dir).doing(doing)?;
        for path in [Path::new(DIR), &dir] {
            fs::set_permissions(path, PermissionsExt::from_mode(0o711)).doing(doing)?;
        }
        let mut counter = Self {
            dir: dir.clone(),
            clerk: None,
        };
        let known = counter.known_hosts();
        fs::write(&known, known_hosts).doing(doing)?;
        fs::set_permissions(&known, PermissionsExt::from_mode(0o644)).doing(doing)?;
        let listener = UnixListener::bind(counter.socket()).doing(doing)?;
        fs::set_permissions(counter.socket(), PermissionsExt::from_mode(0o666)).doing(doing)?;
        let clerk = std::thread::Builder::new().name("guest-socket".to_owned());
        let clerk = clerk.spawn(move || {
            // Whoever closes the counter comes too, and gets nothing.
            let Ok((stream, _)) = listener.accept() else { return };
            let Ok(peer) = rustix::net::sockopt::socket_peercred(&stream) else {
                return;
            };
            let own = rustix::process::geteuid();
            if peer.uid == own || peer.uid.as_raw() == NOBODY {
                send(stream.as_fd(), connection.as_fd()).ok();
            }
        });
        counter.clerk = Some(clerk.doing(doing)?);
        Ok(counter)
    }

    pub(super) fn known_hosts(&self) -> PathBuf {
        self.dir.join("known_hosts")
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.dir.join("socket")
    }

    pub(super) fn close(self) {
        drop(self);
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // Wakes a clerk to whom nobody came; refused if it has gone home already.
        UnixStream::connect(self.socket()).ok();
        if let Some(clerk) = self.clerk.take() {
            clerk.join().ok();
        }
        fs::remove_dir_all(&self.dir).ok();
    }
}

/// Fetches the socket at this counter and hands it on by standard output, as ssh's `ProxyUseFdpass` wants it.
pub fn hand_over(counter: &Path) -> io::Result<()> {
    let stream = UnixStream::connect(counter)?;
    let connection = receive(stream.as_fd())?;
    send(io::stdout().as_fd(), connection.as_fd())
}

fn send(over: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(over, &[IoSlice::new(b"\0")], &mut control, SendFlags::empty())?;
    Ok(())
}

fn receive(over: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(
        over,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message
            && let Some(fd) = fds.next()
        {
            return Ok(fd);
        }
    }
    Err(io::Error::other("no socket came"))
}
