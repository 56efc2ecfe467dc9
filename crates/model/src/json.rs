//! Bounds on JSON from outside, checked before any parser sees it. `RawValue` knows no depth limit of its own
//! and a recursive reader of one would run out of stack, hence the scan.

/// The deepest nesting any document of ours needs is five; 64 leaves room for years.
pub const MAX_DEPTH: usize = 64;

/// Is every array and object within `limit` levels? Strings are skipped, syntax is the parser's business.
pub fn nesting_within(bytes: &[u8], limit: usize) -> bool {
    let mut depth = 0usize;
    let mut in_string = false;
    let mut escaped = false;
    for byte in bytes {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return false;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    true
}

/// Does any text in it hold a NUL? JSON can say it, databases and file names cannot keep it.
pub fn says_nul(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        let escape = &rest[at + 1..];
        if escape.starts_with(b"u0000") {
            return true;
        }
        // Whatever was escaped is passed over, so that an escaped backslash does not escape what follows.
        rest = escape.get(1..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{nesting_within, says_nul};

    #[test]
    fn a_nul_is_found_and_an_escaped_backslash_is_none() {
        assert!(says_nul(br#"{"a":"x\u0000y"}"#) && says_nul(br#"["\\\u0000"]"#));
        assert!(!says_nul(br#"{"a":"x\\u0000"}"#) && !says_nul(br#"{"a":"\u00001"}"#.split_at(6).0));
        assert!(!says_nul(b"") && !says_nul(b"\\") && !says_nul(br#"{"a":"\n\u0001"}"#));
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        assert!(nesting_within(br#"{"a":"[[[[\"[[[["}"#, 1));
        assert!(!nesting_within(br#"{"a":[1]}"#, 1));
        assert!(nesting_within(br#"[[],[],[]]"#, 2));
        assert!(!nesting_within(&[b'['; 100_000], 64));
    }
}
