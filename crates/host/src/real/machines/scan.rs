//! Reads back what libvirt says of a VM: tags and attributes, in order. It is not a parser for XML in general; what it
//! cannot read is an error, so that a device in use is never taken for a free one.

/// One tag: its name, its attributes, and whether it opens, closes or is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) name: String,
    pub(super) closes: bool,
    pub(super) empty: bool,
    attributes: Vec<(String, String)>,
    /// What stands between this tag and the next.
    pub(super) text: String,
}

impl Tag {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

pub(super) fn tags(xml: &str) -> Option<Vec<Tag>> {
    let mut tags: Vec<Tag> = Vec::new();
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        if let Some(last) = tags.last_mut() {
            last.text = unescape(&rest[..start])?;
        }
        rest = &rest[start + 1..];
        if let Some(after) = rest.strip_prefix("!--") {
            rest = &after[after.find("-->")? + 3..];
            continue;
        }
        if let Some(after) = rest.strip_prefix('?') {
            rest = &after[after.find("?>")? + 2..];
            continue;
        }
        // CDATA and document types never come from libvirt.
        if rest.starts_with('!') {
            return None;
        }
        let (tag, after) = tag(rest)?;
        tags.push(tag);
        rest = after;
    }
    Some(tags)
}

fn tag(text: &str) -> Option<(Tag, &str)> {
    let (closes, text) = match text.strip_prefix('/') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let end = text.find(|c: char| c.is_whitespace() || c == '>' || c == '/')?;
    let name = text[..end].to_owned();
    let (mut attributes, mut rest) = (Vec::new(), text[end..].trim_start());
    loop {
        if let Some(after) = rest.strip_prefix("/>") {
            return Some((made(name, closes, true, attributes), after));
        }
        if let Some(after) = rest.strip_prefix('>') {
            return Some((made(name, closes, false, attributes), after));
        }
        let (key, after) = rest.split_once('=')?;
        let quote = after.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let (value, after) = after[1..].split_once(quote)?;
        attributes.push((key.trim().to_owned(), unescape(value)?));
        rest = after.trim_start();
    }
}

fn made(name: String, closes: bool, empty: bool, attributes: Vec<(String, String)>) -> Tag {
    let text = String::new();
    Tag {
        name,
        closes,
        empty,
        attributes,
        text,
    }
}

fn unescape(text: &str) -> Option<String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let (entity, after) = after.split_once(';')?;
        out.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "apos" => '\'',
            "quot" => '"',
            _ => char::from_u32(entity.strip_prefix('#')?.parse().ok()?)?,
        });
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::tags;

    #[test]
    fn tags_come_in_order_with_their_attributes() {
        let read = tags("<?xml version='1.0'?>\n<a x='1' y=\"&lt;2&gt;\"><!-- <no/> --><b/>t</a>").expect("readable");
        let names: Vec<_> = read
            .iter()
            .map(|tag| (tag.name.as_str(), tag.closes, tag.empty))
            .collect();
        assert_eq!(names, [("a", false, false), ("b", false, true), ("a", true, false)]);
        assert_eq!((read[0].get("y"), read[1].text.as_str()), (Some("<2>"), "t"));
    }

    #[test]
    fn what_is_not_understood_is_not_read() {
        for bad in ["<a x=1/>", "<a", "<a x='1/>", "<![CDATA[x]]>", "<a>&nope;<b/>"] {
            assert!(tags(bad).is_none(), "{bad}");
        }
    }
}
