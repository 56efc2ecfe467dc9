//! Waiting in tests: for a condition, not for a time.

use std::fmt::Debug;

use super::PATIENCE;

/// Asks again and again until `look` says yes, and fails with the last thing it saw. `look` returns `Ok` with what was
/// waited for, or `Err` with what there is instead.
pub async fn eventually<T, E, F, Fut>(what: &str, mut look: F) -> T
where
    E: Debug,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut pause = std::time::Duration::from_millis(2);
    loop {
        match look().await {
            Ok(seen) => return seen,
            Err(seen) if tokio::time::Instant::now() >= deadline => panic!("never: {what}; last seen: {seen:?}"),
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(std::time::Duration::from_millis(50));
    }
}
