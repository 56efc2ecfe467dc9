//! A credential from when its request is counted until it is known whether it opens anything. What opens nothing, or is
//! not waited for, is its sender's: whoever finds a token that was ended cannot use up what its owner has.

use model::digest::Sha256;
use model::id::UserId;

use super::{Ask, Rates, SUBJECTS_MOST, Standing, Subject};

pub(in crate::http) struct Presented<'a> {
    rates: &'a Rates,
    shown: Option<Sha256>,
    sender: Subject,
    ask: Ask,
    /// Set: it was counted as theirs, and nobody has judged it since.
    owner: Option<UserId>,
}

impl Rates {
    /// A request with a credential that may be anything. One that is known to open something is its owner's; any other
    /// is its sender's, before the database is asked about it.
    pub(in crate::http) fn presented(
        &self,
        shown: Option<Sha256>,
        sender: Subject,
        ask: Ask,
    ) -> (Standing, Presented<'_>) {
        let owner = shown.and_then(|shown| self.owners().get(&shown).copied());
        let standing = self.count(owner.map_or(sender.clone(), |owner| Subject::User(owner, ask)));
        let presented = Presented {
            rates: self,
            shown,
            sender,
            ask,
            // From an empty bucket nothing was taken.
            owner: owner.filter(|_| standing.wait_s.is_none()),
        };
        (standing, presented)
    }
}

impl Presented<'_> {
    /// It has opened something: what it asks is no longer its sender's. Tells how its owner stands if it was not known
    /// before.
    pub(in crate::http) fn opened(mut self, user: UserId) -> Option<Standing> {
        let shown = self.shown?;
        let mut owners = self.rates.owners();
        if owners.len() >= SUBJECTS_MOST && !owners.contains_key(&shown) {
            // Whoever still asks is known again with the next request.
            owners.clear();
        }
        owners.insert(shown, user);
        drop(owners);
        if self.owner.take().is_some() {
            return None;
        }
        self.rates.give_back(&self.sender);
        // Its first request has passed already, so there is nothing left to refuse.
        Some(self.rates.count(Subject::User(user, self.ask)))
    }

    /// Nobody could tell whether it opens anything.
    pub(in crate::http) fn unjudged(mut self) {
        self.owner = None;
    }

    /// It opens nothing. Tells how its sender stands if it was counted as somebody else's.
    pub(in crate::http) fn refused(mut self) -> Option<Standing> {
        self.disown()
    }

    fn disown(&mut self) -> Option<Standing> {
        let (shown, owner) = (self.shown?, self.owner.take()?);
        self.rates.owners().remove(&shown);
        self.rates.give_back(&Subject::User(owner, self.ask));
        Some(self.rates.count(self.sender.clone()))
    }
}

impl Drop for Presented<'_> {
    fn drop(&mut self) {
        self.disown();
    }
}
