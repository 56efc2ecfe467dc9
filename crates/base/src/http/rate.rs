//! How often one subject may ask: two buckets per person, one for looking and one for changing, so that a script that
//! looks too often can still be stopped by its owner; one per node certificate, and one per address for those who have
//! shown neither or want to sign in. Kept in this process only and bounded in memory, so that asking it never costs more than
//! what it saves. It slows down one who asks too often; it decides nothing else and leaves no audit row.

mod presented;
mod standing;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::error::ApiError;
use crate::config::Config;
use crate::metrics::HTTP_RATE_LIMITED;
use ::metrics::counter;
use http::Method;
use model::digest::Sha256;
use model::id::UserId;

pub use standing::Standing;
pub(super) use standing::{LIMIT, REMAINING, RESET};

/// A bucket holds this many seconds of its rate: a burst after silence is no abuse.
const BURST_S: f64 = 10.0;
/// People have a minute's worth: they come with a script, or a page that loads.
const MINUTE_S: f64 = 60.0;
/// How often one address may begin to sign in within a minute.
const SIGN_INS: f64 = 10.0;
/// Subjects that are remembered; everybody beyond them shares one bucket.
const SUBJECTS_MOST: usize = 50_000;
/// So many are remembered in any case.
const SUBJECTS_FEW: usize = 1000;

/// What somebody wants: nobody who only looked too often is kept from acting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    Look,
    Change,
}

impl Ask {
    pub(super) fn of(method: &Method) -> Self {
        if method.is_safe() { Self::Look } else { Self::Change }
    }
}

/// Whom a request is counted against.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A person, by whatever has opened something in this process: many tokens are no more than one.
    User(UserId, Ask),
    /// The serial of a certificate of ours: each has a bucket, so that a stolen one starves nobody but itself.
    Certificate(Arc<str>),
    /// One who has shown nothing yet. An IPv6 customer has a whole /64.
    Address(IpAddr),
    /// The same address at one of the doors for those who want to sign in.
    SignIn(&'static str, Box<Subject>),
    /// Those whose address is not known, and those who are too many to be told apart.
    Others,
}

impl Subject {
    pub(super) fn address(address: Option<IpAddr>) -> Self {
        match address {
            None => Self::Others,
            Some(IpAddr::V4(address)) => Self::Address(address.into()),
            Some(IpAddr::V6(address)) => match address.to_ipv4_mapped() {
                Some(mapped) => Self::Address(mapped.into()),
                None => Self::Address(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into()),
            },
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::User(_, Ask::Look) => "user",
            Self::User(_, Ask::Change) => "user_change",
            Self::SignIn(..) => "sign_in",
            Self::Certificate(_) => "certificate",
            Self::Address(_) => "address",
            Self::Others => "others",
        }
    }
}

/// The buckets of a process.
#[derive(Clone, Debug)]
pub struct Rates(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    reads_per_s: f64,
    writes_per_s: f64,
    certificate_per_s: f64,
    address_per_s: f64,
    buckets: Mutex<Buckets>,
    /// Whose a credential is that has opened something.
    owners: Mutex<HashMap<Sha256, UserId>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

/// Those that are not full, and some that have become so since the last time that anybody looked.
#[derive(Debug)]
struct Buckets {
    of: HashMap<Subject, Bucket>,
    /// How many there may be before the full ones are thrown away: twice as many as were left the last time.
    most: usize,
}

impl Default for Buckets {
    fn default() -> Self {
        Self {
            of: HashMap::new(),
            most: SUBJECTS_FEW,
        }
    }
}

impl Rates {
    pub fn new(config: &Config) -> Self {
        Self(Arc::new(Inner {
            reads_per_s: config.rate_reads_per_min as f64 / MINUTE_S,
            writes_per_s: config.rate_writes_per_min as f64 / MINUTE_S,
            certificate_per_s: config.rate_node_per_s as f64,
            address_per_s: config.rate_address_per_s as f64,
            buckets: Mutex::default(),
            owners: Mutex::default(),
        }))
    }

    /// One request of this subject, or how long it should wait.
    pub fn take(&self, subject: Subject) -> Result<Standing, ApiError> {
        self.count(subject).passed()
    }

    /// The same for whoever wants to tell how things stand, refused or not.
    pub(super) fn count(&self, subject: Subject) -> Standing {
        self.count_at(subject, Instant::now())
    }

    fn buckets(&self) -> MutexGuard<'_, Buckets> {
        self.0.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<Sha256, UserId>> {
        self.0.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_at(&self, subject: Subject, now: Instant) -> Standing {
        let mut held = self.buckets();
        if held.of.len() >= held.most && !held.of.contains_key(&subject) {
            // A full bucket says no more than none.
            held.of
                .retain(|subject, bucket| self.filled(subject, *bucket, now) < self.room(subject));
            held.most = (held.of.len() * 2).clamp(SUBJECTS_FEW, SUBJECTS_MOST);
            let most = held.most;
            held.of.shrink_to(most);
        }
        let buckets = &mut held.of;
        let subject = match buckets.len() < SUBJECTS_MOST || buckets.contains_key(&subject) {
            true => subject,
            false => Subject::Others,
        };
        let (room, per_s) = (self.room(&subject), self.per_s(&subject));
        let kind = subject.kind();
        let full = Bucket { left: room, at: now };
        let bucket = buckets.entry(subject.clone()).or_insert(full);
        bucket.left = self.filled(&subject, *bucket, now);
        bucket.at = now;
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Standing::of(room, bucket.left, per_s, None);
        }
        let left = bucket.left;
        let wait_s = ((1.0 - left) / per_s).ceil().max(1.0);
        drop(held);
        counter!(HTTP_RATE_LIMITED, "subject" => kind).increment(1);
        Standing::of(room, left, per_s, Some(wait_s as u32))
    }

    fn filled(&self, subject: &Subject, bucket: Bucket, now: Instant) -> f64 {
        let per_s = self.per_s(subject);
        let gained = now.saturating_duration_since(bucket.at).as_secs_f64() * per_s;
        (bucket.left + gained).min(self.room(subject))
    }

    /// What a full bucket holds.
    fn room(&self, subject: &Subject) -> f64 {
        match subject {
            Subject::SignIn(..) => SIGN_INS,
            person @ Subject::User(..) => self.per_s(person) * MINUTE_S,
            other => self.per_s(other) * BURST_S,
        }
    }

    fn per_s(&self, subject: &Subject) -> f64 {
        match subject {
            Subject::User(_, Ask::Look) => self.0.reads_per_s,
            Subject::User(_, Ask::Change) => self.0.writes_per_s,
            Subject::SignIn(..) => SIGN_INS / MINUTE_S,
            Subject::Certificate(_) => self.0.certificate_per_s,
            Subject::Address(_) | Subject::Others => self.0.address_per_s,
        }
    }

    fn give_back(&self, subject: &Subject) {
        if let Some(bucket) = self.buckets().of.get_mut(subject) {
            bucket.left += 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::signal::Code;

    use super::*;

    fn rates(per_s: u64) -> Rates {
        let mut config = Config::defaults();
        (config.rate_reads_per_min, config.rate_writes_per_min) = (10, 4);
        config.rate_address_per_s = per_s;
        Rates::new(&config)
    }

    fn from(text: &str) -> Subject {
        Subject::address(text.parse().ok())
    }

    #[test]
    fn a_burst_passes_then_the_rate_and_nobody_else_pays() {
        let (rates, start) = (rates(5), Instant::now());
        let passed = |subject: &str, at: Instant| rates.count_at(from(subject), at).passed().is_ok();
        let burst = (0..100).filter(|_| passed("192.0.2.1", start)).count();
        assert_eq!(burst, 50);
        let refused = rates.count_at(from("192.0.2.1"), start).passed().expect_err("empty");
        assert_eq!((refused.code, refused.retry_after_s), (Code::RateLimited, Some(1)));
        assert!(passed("192.0.2.2", start), "another has a bucket of its own");
        let later = start + Duration::from_secs(2);
        assert_eq!((0..100).filter(|_| passed("192.0.2.1", later)).count(), 10);
    }

    #[test]
    fn a_customer_of_ipv6_is_one_and_a_mapped_address_is_the_plain_one() {
        assert_eq!(from("2001:db8::1"), from("2001:db8::ffff:2"));
        assert_ne!(from("2001:db8::1"), from("2001:db8:0:1::1"));
        assert_eq!(from("::ffff:192.0.2.1"), from("192.0.2.1"));
    }

    #[test]
    fn a_token_that_opens_is_not_starved_by_guesses_from_its_address() {
        let (rates, person) = (rates(1), UserId::new());
        let (mine, sender) = (Some(Sha256::of(b"mine")), from("192.0.2.1"));
        let show = |shown| rates.presented(shown, sender.clone(), Ask::Look);
        let (standing, presented) = show(mine);
        standing.passed().expect("the first request");
        let first = presented.opened(person).expect("not known before");
        assert_eq!((first.limit, first.remaining, first.reset_s), (10, 9, 6));
        let guess = |n: u32| show(Some(Sha256::of(&n.to_be_bytes()))).0;
        assert_eq!((0..100).filter(|n| guess(*n).passed().is_ok()).count(), 10);
        let (standing, presented) = show(mine);
        standing.passed().expect("still served");
        assert!(presented.opened(person).is_none(), "known by now");
    }

    #[test]
    fn what_opens_nothing_any_more_is_its_senders_and_so_is_what_is_not_waited_for() {
        let (rates, person) = (rates(1), UserId::new());
        let (ended, sender) = (Some(Sha256::of(b"ended")), from("192.0.2.1"));
        let left = |subject| rates.count(subject).remaining;
        let show = || {
            let (standing, presented) = rates.presented(ended, sender.clone(), Ask::Look);
            assert!(standing.passed().is_ok());
            presented
        };
        show().opened(person);
        show().unjudged();
        assert_eq!(
            left(Subject::User(person, Ask::Look)),
            7,
            "it may be good: still theirs"
        );
        let sender_stands = show().refused().expect("no longer theirs");
        assert_eq!((sender_stands.limit, sender_stands.remaining), (10, 9));
        assert_eq!(left(Subject::User(person, Ask::Look)), 6, "it cost them nothing");
        assert!(show().refused().is_none(), "not known any more");
        show().opened(person);
        drop(show());
        assert_eq!(left(Subject::User(person, Ask::Look)), 4, "nor did hanging up");
        let taken = || rates.count(Subject::User(person, Ask::Look)).passed().is_ok();
        while taken() {}
        drop(rates.presented(ended, sender.clone(), Ask::Look));
        assert!(!taken(), "what was not counted is not given back");
    }

    #[test]
    fn many_tokens_of_one_person_share_what_one_would_have() {
        let (rates, sender, person) = (rates(1), from("192.0.2.1"), UserId::new());
        let tokens: Vec<Sha256> = (0..5u32).map(|n| Sha256::of(&n.to_be_bytes())).collect();
        for token in &tokens {
            let (standing, presented) = rates.presented(Some(*token), sender.clone(), Ask::Look);
            standing.passed().expect("a first request");
            presented.opened(person);
        }
        let again = |n: usize| {
            let (standing, presented) = rates.presented(Some(tokens[n % 5]), sender.clone(), Ask::Look);
            presented.unjudged();
            standing
        };
        assert_eq!((0..100).filter(|n| again(*n).passed().is_ok()).count(), 5, "ten in all");
    }

    #[test]
    fn who_looks_too_often_can_still_act_and_the_other_way_round() {
        let (rates, start, person) = (rates(1), Instant::now(), UserId::new());
        let served = |ask, at| {
            let one = |_: &i32| rates.count_at(Subject::User(person, ask), at).passed().is_ok();
            (0..100).filter(one).count()
        };
        assert_eq!((served(Ask::Look, start), served(Ask::Change, start)), (10, 4));
        let half = start + Duration::from_secs(30);
        assert_eq!((served(Ask::Change, half), served(Ask::Look, half)), (2, 5));
        assert_eq!(Ask::of(&Method::HEAD), Ask::Look);
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert_eq!(Ask::of(&method), Ask::Change, "{method}");
        }
    }

    #[test]
    fn an_address_begins_to_sign_in_ten_times_a_minute() {
        let (rates, start) = (rates(1000), Instant::now());
        let tries = |address: &str, at: Instant| {
            let one = || rates.count_at(Subject::SignIn("/auth/login", Box::new(from(address))), at);
            (0..50).filter(|_| one().passed().is_ok()).count()
        };
        assert_eq!((tries("192.0.2.1", start), tries("192.0.2.2", start)), (10, 10));
        assert_eq!(tries("192.0.2.1", start + Duration::from_secs(30)), 5);
    }

    #[test]
    fn who_asks_now_and_then_is_not_kept_in_mind() {
        let (rates, start) = (rates(1), Instant::now());
        for n in 0..20_000_u32 {
            let at = start + Duration::from_millis(10) * n;
            rates.count_at(Subject::address(Some(n.to_be_bytes().into())), at);
        }
        let held = rates.buckets();
        assert!(held.of.len() <= SUBJECTS_FEW, "{} are there", held.of.len());
        assert!(held.of.capacity() < 4 * SUBJECTS_FEW, "room for {}", held.of.capacity());
    }

    #[test]
    fn more_subjects_than_memory_share_what_is_left() {
        let (rates, start) = (rates(1), Instant::now());
        for n in 0..u32::try_from(SUBJECTS_MOST).expect("small") {
            assert!(
                rates
                    .count_at(Subject::address(Some(n.to_be_bytes().into())), start)
                    .passed()
                    .is_ok()
            );
        }
        let extra = |n: u32| rates.count_at(Subject::address(Some((0xf000_0000 + n).to_be_bytes().into())), start);
        assert_eq!((0..100).filter(|n| extra(*n).passed().is_ok()).count(), 10);
        let later = start + Duration::from_secs(1);
        assert!(
            rates.count_at(from("198.51.100.1"), later).passed().is_ok(),
            "who was silent is forgotten"
        );
    }
}
