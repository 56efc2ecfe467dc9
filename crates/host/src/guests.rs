//! The inside of a guest, seen over ssh: with the VM's own key, and only if it shows the host key that it was given.
//! Nothing is run there but two fixed lines.

use std::net::Ipv4Addr;
use std::time::Duration;

use model::task::vm_provision::{Performance, Readiness};
use model::value::Name;

use crate::{Result, Slice};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    pub slice: Slice,
    pub user: Name,
    pub ip: Ipv4Addr,
}

pub trait Guests: Send + Sync {
    /// Waits until the first boot has left its mark; `guest_not_ready` if it does not within that time.
    fn await_ready(&self, guest: &Guest, wait: Duration) -> Result<Readiness>;

    /// Counts what the guest sees.
    fn look(&self, guest: &Guest) -> Result<Performance>;
}
