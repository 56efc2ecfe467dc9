//! How a command ends when it does not end well: an exit code from a fixed list, a stable code, a sentence, a hint.
//! Refuses to decide on an error's text: the exit code follows from the HTTP status and from where it happened.

use std::ops::{Deref, DerefMut};

use http::StatusCode;
use model::signal::Code;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::output::text;

/// What a script sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Ok = 0,
    Error = 1,
    Usage = 2,
    NotFound = 3,
    Login = 4,
    /// Conflict, quota, funds.
    Conflict = 5,
    WaitTimedOut = 6,
    CheckFailed = 7,
    Inconclusive = 8,
    Interrupted = 130,
}

/// Boxed, because every function of this crate may return one and few do.
#[derive(Debug)]
pub(crate) struct Failure(Box<Told>);

#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) exit: Exit,
    /// Text and not `Code`: a newer server may know more codes than this build.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) details: Value,
    pub(crate) retry_after_s: Option<u64>,
    /// Everything was said already: only the exit code is left.
    pub(crate) silent: bool,
    /// The connection broke, or the server asked for patience: a wait may go on.
    pub(crate) passing: bool,
    /// What was asked may have been done all the same.
    pub(crate) unsure: bool,
}

#[derive(Deserialize)]
struct Envelope {
    error: Body,
}

#[derive(Deserialize)]
struct Body {
    code: String,
    message: String,
    hint: Option<String>,
    correlation_id: Option<String>,
    #[serde(default)]
    details: Value,
    retry_after_s: Option<u64>,
}

impl Deref for Failure {
    type Target = Told;
    fn deref(&self) -> &Told {
        &self.0
    }
}

impl DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut Told {
        &mut self.0
    }
}

impl Failure {
    pub(crate) fn new(exit: Exit, code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Told {
            exit,
            code: code.as_str().to_owned(),
            message: message.into(),
            hint: Some(code.recovery().to_owned()),
            correlation_id: None,
            details: json!({}),
            retry_after_s: None,
            silent: false,
            passing: false,
            unsure: false,
        }))
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, Code::UsageInvalid, message)
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, Code::ConfigInvalid, message).hint("gpuaas config show")
    }

    pub(crate) fn silent(exit: Exit) -> Self {
        let mut this = Self::new(exit, Code::Internal, "");
        this.silent = true;
        this
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        if let Value::Object(details) = &mut self.details {
            details.insert(name.to_owned(), value.into());
        }
        self
    }

    /// The server's refusal.
    pub(crate) fn of_answer(status: StatusCode, body: &[u8], correlation_id: Option<String>) -> Self {
        let Ok(Envelope { error }) = serde_json::from_slice(body) else {
            let message = format!("the server answered HTTP {} without an explanation", status.as_u16());
            let mut this = Self::new(exit_of(status, ""), Code::Internal, message);
            this.correlation_id = correlation_id;
            this.passing = status.is_server_error();
            this.unsure = status.is_server_error();
            return this;
        };
        Self(Box::new(Told {
            exit: exit_of(status, &error.code),
            code: error.code,
            message: error.message,
            hint: error.hint,
            correlation_id: error.correlation_id.or(correlation_id),
            details: error.details,
            retry_after_s: error.retry_after_s,
            silent: false,
            passing: matches!(status.as_u16(), 429 | 502 | 503 | 504),
            unsure: matches!(status.as_u16(), 502..=504),
        }))
    }

    /// The API's envelope, on one line.
    pub(crate) fn envelope(&self) -> String {
        let document = json!({"error": {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "correlation_id": self.correlation_id,
            "details": self.details,
            "retry_after_s": self.retry_after_s,
        }});
        text::json(&document, false)
    }

    /// What a person reads.
    pub(crate) fn render(&self, color: bool) -> String {
        let (on, off) = if color { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        let code = text::plain(&self.code);
        let mut page = format!("{on}error[{code}]{off}: {}\n", text::plain(&self.message));
        page.push_str("  ");
        if let Some(hint) = self.hint.as_deref().filter(|hint| !hint.is_empty()) {
            page.push_str(&format!("hint: {}    ", text::plain(hint)));
        }
        page.push_str(&format!("more: gpuaas explain {code}\n"));
        if let Some(seconds) = self.retry_after_s {
            page.push_str(&format!("  try again in {seconds} s\n"));
        }
        if let Some(id) = &self.correlation_id {
            page.push_str(&format!("  correlation_id={}\n", text::plain(id)));
        }
        page
    }
}

fn exit_of(status: StatusCode, code: &str) -> Exit {
    match status.as_u16() {
        // A missing route is an old server, not a missing object.
        404 if code == Code::RouteNotFound.as_str() => Exit::Error,
        400 | 413 | 422 => Exit::Usage,
        401 => Exit::Login,
        404 => Exit::NotFound,
        402 | 409 | 412 => Exit::Conflict,
        _ => Exit::Error,
    }
}

/// Writing to a closed pipe is how `| head` says enough.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::silent(Exit::Ok);
        }
        Self::new(Exit::Error, Code::Internal, format!("cannot write the answer: {error}"))
            .hint("check the disk and the terminal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, code: &str) -> Failure {
        let body = json!({"error": {"code": code, "message": "m", "hint": "h", "correlation_id": "c", "details": {}, "retry_after_s": null}});
        Failure::of_answer(
            StatusCode::from_u16(status).expect("a status"),
            body.to_string().as_bytes(),
            None,
        )
    }

    #[test]
    fn the_exit_code_follows_the_status() {
        for (status, code, exit) in [
            (400, "id_kind_mismatch", Exit::Usage),
            (401, "token_expired", Exit::Login),
            (402, "insufficient_funds", Exit::Conflict),
            (403, "forbidden", Exit::Error),
            (404, "not_found", Exit::NotFound),
            (404, "route_not_found", Exit::Error),
            (409, "mode_conflict", Exit::Conflict),
            (422, "field_invalid", Exit::Usage),
            (503, "unavailable", Exit::Error),
        ] {
            assert_eq!(answer(status, code).exit, exit, "{status} {code}");
        }
    }

    #[test]
    fn a_code_of_the_next_release_is_shown_as_it_is() {
        assert_eq!(
            answer(409, "from_the_future").render(false),
            "error[from_the_future]: m\n  hint: h    more: gpuaas explain from_the_future\n  correlation_id=c\n"
        );
    }

    #[test]
    fn an_answer_without_an_envelope_keeps_its_status() {
        let failure = Failure::of_answer(StatusCode::BAD_GATEWAY, b"<html>", None);
        assert!(failure.message.contains("502"), "{}", failure.message);
        assert!(failure.passing);
    }

    #[test]
    fn server_text_cannot_move_the_cursor() {
        let mut failure = answer(409, "state_conflict");
        failure.message = "a\x1b[2Jb\rc\nd\u{2028}e".into();
        assert!(
            failure
                .render(false)
                .starts_with("error[state_conflict]: a\\u{1b}[2Jb\\rc\\nd\\u{2028}e\n")
        );
    }
}
