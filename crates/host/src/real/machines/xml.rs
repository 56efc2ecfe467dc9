//! Writes XML, and nothing that was not meant: every text and attribute is escaped, names are literals.

use std::fmt::{Display, Write};

pub(super) struct Xml {
    text: String,
    open: Vec<&'static str>,
}

impl Xml {
    pub(super) fn new() -> Self {
        let (text, open) = (String::new(), Vec::new());
        Self { text, open }
    }

    /// `<name a='b'>`, until [`Xml::end`].
    pub(super) fn begin(&mut self, name: &'static str, attributes: &[(&'static str, &dyn Display)]) {
        self.tag(name, attributes);
        self.text.push_str(">\n");
        self.open.push(name);
    }

    pub(super) fn end(&mut self) {
        if let Some(name) = self.open.pop() {
            self.indent();
            self.text.push_str(&format!("</{name}>\n"));
        }
    }

    /// `<name a='b'/>`
    pub(super) fn empty(&mut self, name: &'static str, attributes: &[(&'static str, &dyn Display)]) {
        self.tag(name, attributes);
        self.text.push_str("/>\n");
    }

    /// `<name a='b'>text</name>`
    pub(super) fn text(&mut self, name: &'static str, attributes: &[(&'static str, &dyn Display)], text: &dyn Display) {
        self.tag(name, attributes);
        self.text.push('>');
        self.escaped(text);
        self.text.push_str(&format!("</{name}>\n"));
    }

    pub(super) fn done(mut self) -> String {
        while !self.open.is_empty() {
            self.end();
        }
        self.text
    }

    fn tag(&mut self, name: &'static str, attributes: &[(&'static str, &dyn Display)]) {
        self.indent();
        self.text.push_str(&format!("<{name}"));
        for (attribute, value) in attributes {
            self.text.push_str(&format!(" {attribute}='"));
            self.escaped(*value);
            self.text.push('\'');
        }
    }

    fn indent(&mut self) {
        let depth = self.open.len();
        self.text.extend(std::iter::repeat_n("  ", depth));
    }

    fn escaped(&mut self, value: &dyn Display) {
        // Writing to a string does not fail.
        write!(Escaped(&mut self.text), "{value}").ok();
    }
}

struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '\'' => self.0.push_str("&apos;"),
                '"' => self.0.push_str("&quot;"),
                // XML cannot say these at all.
                c if c.is_control() => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Xml;

    #[test]
    fn what_is_put_in_stays_text() {
        let mut xml = Xml::new();
        xml.begin("a", &[("b", &"x' onload='y")]);
        xml.text("c", &[], &"</c><evil/>&\n");
        assert_eq!(
            xml.done(),
            "<a b='x&apos; onload=&apos;y'>\n  <c>&lt;/c&gt;&lt;evil/&gt;&amp;\u{fffd}</c>\n</a>\n"
        );
    }
}
