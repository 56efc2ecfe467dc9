//! Text at the edge: values that are text outside, by way of `Display` and `FromStr`, so that a value that parses is a
//! value that is valid; and lines for people, in which nothing that came from outside can break the line or move a
//! cursor.

use std::io::{self, Write};

/// One line, ended or not, with everything that a terminal or a log reader would obey shown by its number. The
/// spelling is also right inside a JSON string.
pub fn one_line(line: &[u8]) -> Vec<u8> {
    let (body, end) = match line.split_last() {
        Some((b'\n', body)) => (body, "\n"),
        _ => (line, ""),
    };
    let mut out = shown(&String::from_utf8_lossy(body));
    out.push_str(end);
    out.into_bytes()
}

/// The same for a text that stands in something else, as in the sentence of a refusal.
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// A log's way out: what is written in one call is one line.
#[derive(Debug)]
pub struct OneLine<W>(pub W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(&one_line(line))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[macro_export]
#[doc(hidden)]
macro_rules! text_serde {
    ($name:ident, $title:literal, $pattern:expr) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(d)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $title.into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn only_the_end_of_a_line_ends_it() {
        let shown = |text: &str| String::from_utf8(one_line(text.as_bytes())).expect("UTF-8");
        assert_eq!(shown("a\nb\n"), "a\\u000ab\n");
        assert_eq!(shown("\r\u{1b}[2J\u{2028}\u{202e}"), "\\u000d\\u001b[2J\\u2028\\u202e");
        assert_eq!(shown("8×H100 – größer\n"), "8×H100 – größer\n");
    }
}
