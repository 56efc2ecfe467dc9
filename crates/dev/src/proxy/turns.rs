//! Whose turn it is. On HTTP/1.1 without pipelining a request begins where the client speaks after the server has, and
//! that can be seen without looking inside TLS. The two flights of a TLS 1.3 handshake and a closing word are told by
//! their record headers, which are never encrypted.

use super::{Side, Speech};

const HELLO: u8 = 22;
/// The first record of a client's second flight.
const CHANGE_CIPHER_SPEC: u8 = 20;
/// An encrypted alert and nothing else: header, two bytes, their type, and a tag.
const CLOSING: (&[u8], usize) = (&[23, 3, 3, 0, 19], 24);

#[derive(Debug)]
pub(super) struct Turns {
    speech: Speech,
    last: Option<Side>,
}

impl Turns {
    pub(super) fn new(speech: Speech) -> Self {
        Self { speech, last: None }
    }

    /// Does this piece from the client begin a request?
    pub(super) fn client(&mut self, piece: &[u8]) -> bool {
        let between = self.speech == Speech::Tls
            && (matches!(piece.first(), Some(&HELLO | &CHANGE_CIPHER_SPEC))
                || (piece.starts_with(CLOSING.0) && piece.len() == CLOSING.1));
        if between {
            // Whatever the client says next is a request, whether the server spoke in between or not.
            self.last = None;
            return false;
        }
        self.last.replace(Side::Client) != Some(Side::Client)
    }

    pub(super) fn server(&mut self) {
        self.last = Some(Side::Server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_begins_where_the_client_speaks_after_the_server() {
        let mut turns = Turns::new(Speech::Plain);
        assert!(turns.client(b"GET"));
        assert!(!turns.client(b" / HTTP/1.1"));
        turns.server();
        turns.server();
        assert!(turns.client(b"GET"));
    }

    #[test]
    fn a_handshake_and_a_goodbye_are_no_requests() {
        let mut turns = Turns::new(Speech::Tls);
        assert!(!turns.client(&[HELLO, 3, 1, 2, 0]));
        turns.server();
        assert!(!turns.client(&[CHANGE_CIPHER_SPEC, 3, 3, 0, 1, 1, 23]));
        // With the server's tickets before it or without.
        assert!(turns.client(&[23, 3, 3, 1, 0]));
        turns.server();
        assert!(turns.client(&[23, 3, 3, 1, 0]));
        turns.server();
        let mut goodbye = [0; 24];
        goodbye[..5].copy_from_slice(CLOSING.0);
        assert!(!turns.client(&goodbye));
    }
}
