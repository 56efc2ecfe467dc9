//! "Did you mean": the code closest to a mistyped word, or none when nothing is close.

use super::Code;

/// The code that `word` was probably meant to be. Case, dashes and spaces are forgiven; more
/// than a third of the word is not.
pub fn nearest(word: &str) -> Option<Code> {
    let word: Vec<char> = word
        .trim()
        .chars()
        .take(64) // longer than any code: such a word is close to none
        .map(|c| match c {
            '-' | ' ' => '_',
            other => other.to_ascii_lowercase(),
        })
        .collect();
    let (distance, code) = Code::ALL
        .iter()
        .map(|&code| (distance(&word, code.as_str()), code))
        .min()?;
    (distance <= word.len() / 3).then_some(code)
}

/// Edit distance by insertion, deletion and substitution.
fn distance(word: &[char], code: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (i, expected) in code.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &got) in word.iter().enumerate() {
            let substituted = diagonal + usize::from(got != expected);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[word.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_find_their_code() {
        for (word, code) in [
            ("disk_full", Code::DiskFull),
            ("disc_full", Code::DiskFull),
            ("DISK-FULL", Code::DiskFull),
            ("signature_invald", Code::SignatureInvalid),
            ("node_agent_heartbeat", Code::NodeAgentHeartbeatStale),
        ] {
            assert_eq!(nearest(word), Some(code), "{word}");
        }
    }

    #[test]
    fn strange_words_find_nothing() {
        let long = "x".repeat(100_000);
        for word in ["", "x", "help", "¿qué?", long.as_str()] {
            assert_eq!(nearest(word), None, "{word:.20}");
        }
    }

    #[test]
    fn distance_is_the_textbook_one() {
        let word: Vec<char> = "kitten".chars().collect();
        assert_eq!(distance(&word, "sitting"), 3);
        assert_eq!(distance(&[], "abc"), 3);
        assert_eq!(distance(&word, "kitten"), 0);
    }
}
