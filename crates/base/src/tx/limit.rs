//! A bound on refusals that are written down. One who keeps knocking is noted often enough to be seen, and not often
//! enough to fill the table.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(60);
/// Rows a minute for one actor, action and code.
const ROWS_MOST: u32 = 120;
/// Different ones a minute.
const KEYS_MOST: usize = 10_000;

#[derive(Clone, Debug)]
pub(crate) struct Limiter(Arc<Mutex<Window>>);

#[derive(Debug)]
struct Window {
    began: Instant,
    rows: HashMap<String, u32>,
}

impl Default for Limiter {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Window {
            began: Instant::now(),
            rows: HashMap::new(),
        })))
    }
}

impl Limiter {
    /// May one more row of this kind be written?
    pub(crate) fn allows(&self, key: String) -> bool {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if window.began.elapsed() > WINDOW {
            window.began = Instant::now();
            window.rows.clear();
        }
        if window.rows.len() >= KEYS_MOST && !window.rows.contains_key(&key) {
            return false;
        }
        let rows = window.rows.entry(key).or_default();
        *rows += 1;
        *rows <= ROWS_MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_keeps_knocking_is_noted_only_so_often() {
        let limiter = Limiter::default();
        let noted = (0..1000).filter(|_| limiter.allows("a".to_owned())).count();
        assert_eq!(noted, ROWS_MOST as usize);
        assert!(limiter.allows("b".to_owned()), "and takes nothing from anybody else");
    }
}
