//! A connection to a guest's SSH port, and to nothing else. Nothing is said on it here: the executor speaks.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::net::TcpStream;

/// The only port of a guest that is ever asked for.
pub(super) const SSH: u16 = 22;
const WITHIN: Duration = Duration::from_secs(10);

/// Blocking, as a program that is started expects it.
pub(super) async fn connect(address: Ipv4Addr, port: u16) -> io::Result<OwnedFd> {
    let dialled = TcpStream::connect(SocketAddr::from((address, port)));
    let stream = tokio::time::timeout(WITHIN, dialled).await??;
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream.into())
}
