//! How many files this process may hold open. A connection is a file, and what a service manager allows at first
//! (often 1,024) is less than it would allow if asked.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes as many as are allowed, and says how many that is.
pub fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, all) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit on open files stays as it is");
            limit.current
        }
    }
    .unwrap_or(u64::MAX)
}
