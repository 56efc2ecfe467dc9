//! Text from outside, made fit for a terminal and for a line: whatever could move a cursor, break a line or turn the
//! reading direction is shown by its number. Also how long ago something was, in a few characters.

use serde_json::Value;

/// May this character reach a terminal as it is?
fn is_safe(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{200b}'..='\u{200f}' // zero width, marks of direction
            | '\u{2028}'..='\u{202e}' // line and paragraph separator, embeddings and overrides
            | '\u{2060}'..='\u{206f}' // invisible operators, isolates
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}') // invisible tags
}

/// One line, without anything that a terminal would obey.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_safe(c) => out.push(c),
            c => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        }
    }
    out
}

/// The document as JSON; what `plain` would escape is escaped as JSON does it, so that it means the same.
pub(crate) fn json(document: &Value, pretty: bool) -> String {
    // A Value has string keys only and cannot fail to be written.
    let text = if pretty {
        serde_json::to_string_pretty(document)
    } else {
        serde_json::to_string(document)
    }
    .unwrap_or_default();
    if text.chars().all(|c| is_safe(c) || c == '\n') {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_safe(c) || c == '\n' {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

/// `93ms`, `4.2s`, `3m`, `7h`, `12d`: one unit, because a table has no room for more.
pub(crate) fn span(millis: i64) -> String {
    let sign = if millis < 0 { "-" } else { "" };
    let millis = millis.unsigned_abs();
    let seconds = millis / 1000;
    let size = match seconds {
        _ if millis < 1000 => format!("{millis}ms"),
        0..10 => format!("{}.{}s", seconds, millis % 1000 / 100),
        10..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    };
    format!("{sign}{size}")
}

/// An age in whole seconds or more; a clock that is a little ahead does not make it negative.
pub(crate) fn age(millis: i64) -> String {
    let whole = millis.max(0) / 1000 * 1000;
    if whole < 10_000 {
        format!("{}s", whole / 1000)
    } else {
        span(whole)
    }
}

/// What is left of a time, to the nearest unit: a day's certificate that is a moment old has a day left.
pub(crate) fn left(millis: i64) -> String {
    let half_a_unit = match millis / 1000 {
        ..120 => 500,
        120..7200 => 30_000,
        7200..172_800 => 1_800_000,
        _ => 43_200_000,
    };
    age(millis.saturating_add(half_a_unit))
}

/// `node_k3v9q2`: the kind and the last six characters.
pub(crate) fn short_id(id: &str) -> String {
    match id.rsplit_once('_') {
        Some((kind, tail)) if tail.len() > 6 && tail.is_ascii() => format!("{kind}_{}", &tail[tail.len() - 6..]),
        _ => id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let nasty = "\x1b]0;x\x07\r\n\t\u{9b}2J\u{7f}\u{2028}\u{202e}\u{200b}\u{feff}\u{e0041}";
        let shown = plain(nasty);
        assert!(shown.is_ascii() && !shown.contains(|c: char| c.is_control()), "{shown}");
        assert_eq!(plain("8×H100 – größer"), "8×H100 – größer");
    }

    #[test]
    fn escaped_json_is_the_same_document() {
        let document = json!({"a\u{9b}": "\x1b[2J\u{2028}\u{e0041}"});
        for pretty in [true, false] {
            let text = json(&document, pretty);
            assert!(text.is_ascii(), "{text}");
            assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(document.clone()));
        }
    }

    #[test]
    fn spans_are_short() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (4_260, "4.2s"),
            (12_000, "12s"),
            (180_000, "3m"),
            (86_400_000, "24h"),
            (1_000_000_000, "11d"),
            (-5_000, "-5.0s"),
        ] {
            assert_eq!(span(millis), text);
        }
        assert_eq!(age(-400), "0s");
        assert_eq!(age(3_900), "3s");
        assert_eq!(age(200_000), "3m");
        assert_eq!(left(86_395_000), "24h");
        assert_eq!(left(31_535_995_000), "365d");
        assert_eq!(left(7_199_000), "2h");
        assert_eq!(left(29_400), "29s");
    }

    #[test]
    fn a_short_id_keeps_its_kind() {
        assert_eq!(short_id("node_0abcdefghjkmnpqrstvwk3v9q2"), "node_k3v9q2");
        assert_eq!(short_id("sim-a"), "sim-a");
    }
}
