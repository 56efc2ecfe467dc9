//! `application/x-www-form-urlencoded`, both ways: what query strings and token endpoints are made of. Refuses nothing:
//! a broken escape stays as it was written, and whoever reads the value judges it.

/// One value in a path, a query or a form.
pub fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

pub fn pairs(pairs: &[(&str, &str)]) -> String {
    let parts: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
        .collect();
    parts.join("&")
}

/// A URL with these in its query, beside what it has there already.
pub fn with_query(url: &str, query: &[(&str, &str)]) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}{}", pairs(query))
}

/// Names and values, in the order in which they stand.
pub fn read(text: &str) -> Vec<(String, String)> {
    text.split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(name), decode(value))
        })
        .collect()
}

/// The value of a name that stands exactly once. Two are none: nobody should have to guess which one counts.
pub fn only<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut found = pairs.iter().filter(|(other, _)| other == name);
    let (first, second) = (found.next(), found.next());
    first.filter(|_| second.is_none()).map(|(_, value)| value.as_str())
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escaped = text
            .get(at + 1..at + 3)
            .filter(|hex| *byte == b'%' && hex.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match escaped {
            Some(value) => {
                out.push(value);
                at += 3;
            }
            None => {
                out.push(if *byte == b'+' { b' ' } else { *byte });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_leave_its_place_and_comes_back_as_it_was() {
        assert_eq!(encode("a/b?c&d=é"), "a%2Fb%3Fc%26d%3D%C3%A9");
        assert_eq!(encode("node_k3v9q2.A~-"), "node_k3v9q2.A~-");
        let given = [("a b", "1&2=3"), ("é", "%+ "), ("", "")];
        let back = read(&pairs(&given));
        let back: Vec<_> = back.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(back, given);
        assert_eq!(with_query("https://a/b?c=d", &[("e", "f")]), "https://a/b?c=d&e=f");
    }

    #[test]
    fn what_is_broken_stays_and_what_stands_twice_is_none() {
        let odd = read("a=%zz&b=%4&c=%é&d&e=%ff&a=2");
        assert_eq!(only(&odd, "a"), None);
        assert_eq!(
            (only(&odd, "b"), only(&odd, "c"), only(&odd, "d")),
            (Some("%4"), Some("%é"), Some(""))
        );
        assert_eq!(only(&odd, "e"), Some("\u{fffd}"));
    }
}
