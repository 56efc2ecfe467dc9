//! Who may send, and what they sent last: one sample for each guest, and nothing for anybody else. A guest is known by
//! the address that the switch pins to its port, and by its token; both have to be the same guest's.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::digest::Sha256;
use model::id::AllocationId;
use model::signal::Code;
use model::telemetry::{GuestNumbers, GuestSample, MAX_SAMPLES, Registered};

/// Least time between two samples of one guest.
const SPACING: Duration = Duration::from_secs(5);
/// Connections of one guest at once.
const AT_ONCE: u32 = 2;

#[derive(Default)]
pub struct Book {
    guests: Mutex<HashMap<Ipv4Addr, Guest>>,
}

struct Guest {
    allocation: AllocationId,
    token_sha256: Sha256,
    taken_at: Option<Instant>,
    fresh: Option<GuestNumbers>,
    connections: u32,
}

/// One connection of a guest.
pub(super) struct Visit<'a> {
    book: &'a Book,
    from: Ipv4Addr,
}

impl Book {
    /// From now on these may send. Those who stay keep what they sent.
    pub fn set(&self, registered: Vec<Registered>) {
        let mut guests = self.lock();
        let mut before = std::mem::take(&mut *guests);
        for one in registered.into_iter().take(MAX_SAMPLES) {
            let known = before.remove(&one.address);
            let same = known.filter(|known| known.allocation == one.allocation_id);
            let guest = same.unwrap_or(Guest {
                allocation: one.allocation_id,
                token_sha256: one.token_sha256,
                taken_at: None,
                fresh: None,
                connections: 0,
            });
            let token_sha256 = one.token_sha256;
            guests.insert(one.address, Guest { token_sha256, ..guest });
        }
    }

    /// None for a stranger, and for a guest that is here too often already.
    pub(super) fn enter(&self, from: Ipv4Addr) -> Option<Visit<'_>> {
        let mut guests = self.lock();
        let guest = guests.get_mut(&from)?;
        if guest.connections >= AT_ONCE {
            return None;
        }
        guest.connections += 1;
        Some(Visit { book: self, from })
    }

    /// The guest at this address, by its own token.
    pub fn push(&self, from: Ipv4Addr, token: &str, body: &[u8], now: Instant) -> Result<(), Code> {
        let digest = Sha256::of(token.as_bytes());
        let mut guests = self.lock();
        let guest = guests.get_mut(&from).filter(|guest| guest.token_sha256 == digest);
        let guest = guest.ok_or(Code::TelemetryRefused)?;
        let early = |at: Instant| now.saturating_duration_since(at) < SPACING;
        if guest.taken_at.is_some_and(early) {
            return Err(Code::TelemetryLimited);
        }
        let numbers = GuestNumbers::parse(body)?;
        (guest.taken_at, guest.fresh) = (Some(now), Some(numbers));
        Ok(())
    }

    /// What came since the last time.
    pub fn take(&self) -> Vec<GuestSample> {
        let mut guests = self.lock();
        let fresh = guests.values_mut().filter_map(|guest| {
            Some(GuestSample {
                allocation_id: guest.allocation,
                numbers: guest.fresh.take()?,
            })
        });
        fresh.collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Ipv4Addr, Guest>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if let Some(guest) = self.book.lock().get_mut(&self.from) {
            guest.connections = guest.connections.saturating_sub(1);
        }
    }
}
