//! Server-sent events as a reader takes them: pieces in, messages out. Comments are passed over, an unknown field too, and a
//! line that never ends is refused instead of kept.

/// No event of ours is nearly as long.
const LINE_MOST: usize = 1 << 20;

/// One message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The place to come back to.
    pub id: Option<String>,
    pub event: String,
    pub data: String,
}

/// The other side sends a line that does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line of the stream is longer than {LINE_MOST} bytes")]
pub struct TooLong;

#[derive(Clone, Debug, Default)]
pub struct Parser {
    rest: Vec<u8>,
    begun: Message,
    has_data: bool,
    last_id: Option<String>,
}

impl Parser {
    /// Where a new stream should go on: also moved by messages without data.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// What is complete with this piece.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<Message>, TooLong> {
        self.rest.extend_from_slice(piece);
        let mut messages = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            messages.extend(self.line(line.trim_end_matches(['\r', '\n'])));
        }
        if self.rest.len() > LINE_MOST || self.begun.data.len() > LINE_MOST {
            return Err(TooLong);
        }
        Ok(messages)
    }

    fn line(&mut self, line: &str) -> Option<Message> {
        if line.is_empty() {
            let mut message = std::mem::take(&mut self.begun);
            message.id.clone_from(&self.last_id);
            return std::mem::take(&mut self.has_data).then_some(message);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" if !value.contains('\0') => self.last_id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.begun.event),
            "data" => {
                if self.has_data {
                    self.begun.data.push('\n');
                }
                self.begun.data.push_str(value);
                self.has_data = true;
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ": hello\nretry: 1000\nid: 3\n\nid: 4\nevent: a.b\ndata: {\"n\":1}\n\n: still here\nid: 9\n\nevent: end\r\ndata: x\r\ndata:y\r\n\r\n";

    #[test]
    fn messages_are_the_same_however_they_are_cut() {
        let whole = Parser::default().push(TEXT.as_bytes()).expect("short");
        assert_eq!(whole.len(), 2);
        assert_eq!((whole[0].event.as_str(), whole[0].id.as_deref()), ("a.b", Some("4")));
        assert_eq!((whole[1].data.as_str(), whole[1].id.as_deref()), ("x\ny", Some("9")));
        for size in 1..TEXT.len() {
            let mut parser = Parser::default();
            let mut seen = Vec::new();
            for piece in TEXT.as_bytes().chunks(size) {
                seen.extend(parser.push(piece).expect("short"));
            }
            assert_eq!(seen, whole, "in pieces of {size}");
            assert_eq!(parser.last_id(), Some("9"));
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; LINE_MOST];
        assert!(parser.push(&piece).is_ok());
        assert_eq!(parser.push(b"x"), Err(TooLong));
    }
}
