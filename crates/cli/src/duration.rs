//! How long, as people write it: `90`, `90s`, `5m`, `1h`, `7d`.

use std::time::Duration;

/// As long as an allocation may last.
const MOST_S: u64 = 10 * 366 * 86_400;

pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time; write 90, 90s, 5m, 1h or 7d");
    let (number, unit_s) = match text.char_indices().next_back() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        Some((at, 'd')) => (&text[..at], 86_400),
        _ => (text, 1),
    };
    let number = number.parse::<u64>().map_err(|_| wrong())?;
    let seconds = number.checked_mul(unit_s).filter(|seconds| *seconds <= MOST_S);
    let seconds = seconds.ok_or_else(|| format!("{text} is more than ten years"))?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn times_are_read_as_written() {
        for (text, seconds) in [
            ("0", 0),
            ("90", 90),
            ("90s", 90),
            ("5m", 300),
            ("1h", 3600),
            ("7d", 604_800),
        ] {
            assert_eq!(parse(text).map(|d| d.as_secs()), Ok(seconds));
        }
        for text in ["", "s", "-1", "1.5s", "5 m", "1w", "99999999999h", "ä"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
