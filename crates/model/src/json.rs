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

#[cfg(test)]
mod tests {
    use super::nesting_within;

    #[test]
    fn brackets_in_strings_do_not_count() {
        assert!(nesting_within(br#"{"a":"[[[[\"[[[["}"#, 1));
        assert!(!nesting_within(br#"{"a":[1]}"#, 1));
        assert!(nesting_within(br#"[[],[],[]]"#, 2));
        assert!(!nesting_within(&[b'['; 100_000], 64));
    }
}
