//! How many streams each person has open in this process, and that they are not more than a few. A place is taken before
//! the answer begins and given back when its connection lets go of it, so that a stream nobody reads counts, too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::id::UserId;
use model::signal::Code;

use super::error::ApiError;

pub const STREAMS_MOST: usize = 8;
const COME_BACK_S: u32 = 15;

#[derive(Clone, Debug, Default)]
pub struct Streams(Arc<Mutex<HashMap<UserId, usize>>>);

/// One open stream of somebody.
#[derive(Debug)]
pub struct Place {
    streams: Streams,
    user: UserId,
}

impl Streams {
    pub fn take(&self, user: UserId) -> Result<Place, ApiError> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(user).or_default();
        if *count >= STREAMS_MOST {
            return Err(ApiError::new(Code::TooManyStreams)
                .detail("most", STREAMS_MOST)
                .retry_after_s(COME_BACK_S));
        }
        *count += 1;
        Ok(Place {
            streams: self.clone(),
            user,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.streams.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_each_and_a_place_comes_back() {
        let (streams, ada, bob) = (Streams::default(), UserId::new(), UserId::new());
        let mut held: Vec<_> = (0..STREAMS_MOST).map(|_| streams.take(ada).expect("room")).collect();
        let refused = streams.take(ada).expect_err("full");
        assert_eq!(refused.code, Code::TooManyStreams);
        streams.take(bob).expect("another's are not counted");
        held.pop();
        held.push(streams.take(ada).expect("room again"));
        drop(held);
        assert!(streams.0.lock().expect("whole").is_empty(), "nobody is remembered");
    }
}
