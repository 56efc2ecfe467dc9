//! Finds which field a parser was in when it gave up: the parser tells line and column, people want a name.

/// The path (`spec.keys[2]`) of the value or key that ends at this 1-based line and column; `body` at the top.
pub(super) fn path_at(bytes: &[u8], line: usize, column: usize) -> String {
    let end = offset(bytes, line, column);
    let mut stack: Vec<Level> = Vec::new();
    let mut text: Option<(usize, bool)> = None; // where the string began, and whether the next byte is escaped
    for (at, byte) in bytes.iter().enumerate().take(end) {
        if let Some((began, escaped)) = text {
            text = match (byte, escaped) {
                (b'"', false) => {
                    close_string(&mut stack, &bytes[began + 1..at]);
                    None
                }
                (b'\\', false) => Some((began, true)),
                _ => Some((began, false)),
            };
            continue;
        }
        match byte {
            b'"' => text = Some((at, false)),
            b'{' => stack.push(Level::Object {
                key: String::new(),
                awaiting_key: true,
            }),
            b'[' => stack.push(Level::Array { index: 0 }),
            // The parser stops on a closing bracket when the object itself is at fault: then the object is the place.
            b'}' | b']' => {
                stack.pop();
            }
            b',' => match stack.last_mut() {
                Some(Level::Object { awaiting_key, .. }) => *awaiting_key = true,
                Some(Level::Array { index }) => *index += 1,
                None => {}
            },
            _ => {}
        }
    }
    render(&stack)
}

enum Level {
    Object { key: String, awaiting_key: bool },
    Array { index: usize },
}

fn close_string(stack: &mut [Level], raw: &[u8]) {
    if let Some(Level::Object { key, awaiting_key }) = stack.last_mut()
        && *awaiting_key
    {
        *awaiting_key = false;
        // Shown to the caller who sent it: bounded, and control characters made visible.
        *key = String::from_utf8_lossy(raw)
            .chars()
            .take(64)
            .flat_map(char::escape_debug)
            .collect();
    }
}

fn render(stack: &[Level]) -> String {
    let mut path = String::new();
    for level in stack {
        match level {
            Level::Object { key, .. } => {
                if !path.is_empty() && !key.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
            Level::Array { index } => path.push_str(&format!("[{index}]")),
        }
    }
    if path.is_empty() { "body".to_owned() } else { path }
}

fn offset(bytes: &[u8], line: usize, column: usize) -> usize {
    let start = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .take(line.saturating_sub(1))
        .map(<[u8]>::len)
        .sum::<usize>();
    (start + column).min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::path_at;

    #[test]
    fn a_place_has_a_name() {
        let json = br#"{"a":{"b\"c":[1,{"d":2}]},"e":3}"#;
        let upto = |needle: &str| {
            let text = std::str::from_utf8(json).expect("ascii");
            text.find(needle).expect(needle) + needle.len()
        };
        assert_eq!(path_at(json, 1, upto("\"d\":2")), r#"a.b\\\"c[1].d"#);
        assert_eq!(path_at(json, 1, upto("\"e\"")), "e");
        assert_eq!(path_at(json, 1, 1), "body");
        assert_eq!(path_at(b"{\n\"x\":\n1}", 3, 1), "x");
        assert_eq!(path_at(b"", 9, 9), "body");
    }
}
