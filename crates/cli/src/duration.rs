//! How long to wait, as people write it: `90`, `90s`, `5m`, `1h`.

use std::time::Duration;

pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time; write 90, 90s, 5m or 1h");
    let (number, unit_s) = match text.char_indices().next_back() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        _ => (text, 1),
    };
    // A year is longer than anybody waits, and far from overflow.
    let seconds = number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(unit_s))
        .filter(|s| *s <= 31_536_000)
        .ok_or_else(wrong)?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn times_are_read_as_written() {
        for (text, seconds) in [("0", 0), ("90", 90), ("90s", 90), ("5m", 300), ("1h", 3600)] {
            assert_eq!(parse(text).map(|d| d.as_secs()), Ok(seconds));
        }
        for text in ["", "s", "-1", "1.5s", "5 m", "1d", "99999999999h", "ä"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
