//! What only the agent can do for a task, because only it has a network: fetch an image, connect to a guest. A task
//! asks and waits; the wish is said again until it was answered, to whichever agent is there. What comes back is a
//! descriptor, and is believed in nothing: an image is hashed while it is copied, a guest has to show its host key.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use host::real::Dial;
use model::digest::Sha256;
use model::node_api::Progress;
use model::signal::Code;
use model::socket::{FromExecutor, WantedImage};
use model::value::Name;

use crate::outlet::Outlet;

/// A wish that was not answered is said again.
const AGAIN: Duration = Duration::from_secs(5);
/// Whoever waits looks this often whether it still may.
const LOOK: Duration = Duration::from_millis(500);
/// A connection that takes longer is none.
const CONNECT: Duration = Duration::from_secs(20);

#[derive(Default)]
pub struct Errands {
    pub(crate) outlet: Arc<Outlet>,
    open: Mutex<Open>,
    news: Condvar,
}

#[derive(Default)]
struct Open {
    closed: bool,
    next: u64,
    images: BTreeMap<Sha256, ImageErrand>,
    guests: BTreeMap<u64, GuestErrand>,
}

struct ImageErrand {
    wanted: WantedImage,
    done_bytes: u64,
    came: Option<Result<File, Failed>>,
}

struct GuestErrand {
    vm: Name,
    address: Ipv4Addr,
    came: Option<Result<OwnedFd, Failed>>,
}

/// Why an errand came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) code: Code,
    pub(crate) detail: String,
}

/// What became of a wish for an image.
pub(crate) enum Fetched {
    /// Its bytes, perhaps; nobody else fetches it until this is dropped.
    Bytes(File, Settles),
    /// Another task has had it fetched, or has given up.
    ByAnother,
}

/// Ends the wish.
pub(crate) struct Settles {
    errands: Arc<Errands>,
    sha256: Sha256,
}

impl Errands {
    /// Has an image fetched. `over` says why nobody should wait any longer, `moved` hears how much of it there is.
    pub(crate) fn fetch(
        self: &Arc<Self>,
        wanted: &WantedImage,
        over: &dyn Fn() -> Option<Failed>,
        moved: &dyn Fn(Progress),
    ) -> Result<Fetched, Failed> {
        let sha256 = wanted.sha256;
        let mut told = Told { moved, done_bytes: 0 };
        let mut open = self.open();
        if open.images.contains_key(&sha256) {
            while let Some(errand) = open.images.get(&sha256) {
                told.hears(errand);
                open = self.wait(open, over)?;
            }
            return Ok(Fetched::ByAnother);
        }
        let errand = ImageErrand {
            wanted: wanted.clone(),
            done_bytes: 0,
            came: None,
        };
        open.images.insert(sha256, errand);
        // From here on the wish ends with this, however that comes.
        let errands = Arc::clone(self);
        let settles = Settles { errands, sha256 };
        let mut said: Option<Instant> = None;
        loop {
            let Some(errand) = open.images.get_mut(&sha256) else {
                // Never while we wait; but the lock must be free when the wish ends.
                drop(open);
                return Err(interrupted());
            };
            if let Some(came) = errand.came.take() {
                drop(open);
                return came.map(|bytes| Fetched::Bytes(bytes, settles));
            }
            told.hears(errand);
            if said.is_none_or(|at| at.elapsed() >= AGAIN) {
                said = Some(Instant::now());
                let image = errand.wanted.clone();
                self.outlet.send(FromExecutor::ImageWanted { image });
            }
            open = match self.wait(open, over) {
                Ok(open) => open,
                Err(why) => {
                    drop(settles);
                    return Err(why);
                }
            };
        }
    }

    /// Has a guest connected to.
    fn connect(&self, vm: &Name, address: Ipv4Addr) -> Result<OwnedFd, Failed> {
        let (began, mut open) = (Instant::now(), self.open());
        open.next += 1;
        let want = open.next;
        let (vm, came) = (vm.clone(), None);
        let wish = FromExecutor::GuestWanted {
            want,
            vm: vm.clone(),
            address,
        };
        open.guests.insert(want, GuestErrand { vm, address, came });
        self.outlet.send(wish);
        let late = || {
            let detail = "nobody connected to it in time".to_owned();
            let code = Code::GuestNotReady;
            (began.elapsed() >= CONNECT).then_some(Failed { code, detail })
        };
        loop {
            let came = open.guests.get_mut(&want).and_then(|errand| errand.came.take());
            if let Some(came) = came {
                open.guests.remove(&want);
                return came;
            }
            open = match self.wait(open, &late) {
                Ok(open) => open,
                Err(why) => {
                    self.open().guests.remove(&want);
                    return Err(why);
                }
            };
        }
    }

    /// A new agent is there: it has heard none of this.
    pub(crate) fn say_again(&self) {
        let open = self.open();
        for errand in open.images.values().filter(|errand| errand.came.is_none()) {
            let image = errand.wanted.clone();
            self.outlet.send(FromExecutor::ImageWanted { image });
        }
        for (want, errand) in open.guests.iter().filter(|(_, errand)| errand.came.is_none()) {
            let (want, vm, address) = (*want, errand.vm.clone(), errand.address);
            self.outlet.send(FromExecutor::GuestWanted { want, vm, address });
        }
    }

    /// Never more than all of it, whatever the agent says.
    pub(crate) fn image_moved(&self, sha256: &Sha256, done_bytes: u64) {
        if let Some(errand) = self.open().images.get_mut(sha256) {
            errand.done_bytes = done_bytes.min(errand.wanted.size_bytes);
        }
        self.news.notify_all();
    }

    /// What nobody asked for is closed and forgotten.
    pub(crate) fn image_came(&self, sha256: &Sha256, came: Result<File, Failed>) {
        if let Some(errand) = self.open().images.get_mut(sha256) {
            errand.came.get_or_insert(came);
        }
        self.news.notify_all();
    }

    pub(crate) fn guest_came(&self, want: u64, came: Result<OwnedFd, Failed>) {
        if let Some(errand) = self.open().guests.get_mut(&want) {
            errand.came.get_or_insert(came);
        }
        self.news.notify_all();
    }

    /// Another executor begins with it.
    pub(crate) fn reopen(&self) {
        self.open().closed = false;
    }

    /// Everybody who waits hears that nothing will come.
    pub(crate) fn close(&self) {
        self.open().closed = true;
        self.news.notify_all();
    }

    fn wait<'a>(
        &self,
        open: MutexGuard<'a, Open>,
        over: &dyn Fn() -> Option<Failed>,
    ) -> Result<MutexGuard<'a, Open>, Failed> {
        if open.closed {
            return Err(interrupted());
        }
        if let Some(why) = over() {
            return Err(why);
        }
        let waited = self.news.wait_timeout(open, LOOK);
        Ok(waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells of what is new only.
struct Told<'a> {
    moved: &'a dyn Fn(Progress),
    done_bytes: u64,
}

impl Told<'_> {
    fn hears(&mut self, errand: &ImageErrand) {
        if errand.done_bytes != self.done_bytes {
            self.done_bytes = errand.done_bytes;
            (self.moved)(Progress {
                done_bytes: errand.done_bytes,
                of_bytes: errand.wanted.size_bytes,
            });
        }
    }
}

impl Drop for Settles {
    fn drop(&mut self) {
        let sha256 = self.sha256;
        self.errands.open().images.remove(&sha256);
        self.errands.news.notify_all();
        self.errands.outlet.send(FromExecutor::ImageSettled { sha256 });
    }
}

impl Dial for Errands {
    fn dial(&self, vm: &Name, address: Ipv4Addr) -> host::Result<OwnedFd> {
        self.connect(vm, address).map_err(|failed| host::Error::Slice {
            code: Code::GuestNotReady,
            subject: vm.to_string(),
            why: failed.detail,
        })
    }
}

fn interrupted() -> Failed {
    let detail = "the executor stops".to_owned();
    let code = Code::Interrupted;
    Failed { code, detail }
}
