//! Log lines in one shape: JSON on stderr, or text when stderr is a terminal. Fields from spans (`correlation_id`,
//! `role`, `node_id`, `task_id`) stand in every line below them. Control characters never reach the terminal or the
//! file as they are, so that nobody can forge a line from inside a value.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::{Config, LogFormat};

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("`log_filter` is not a filter")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    #[error("logging was set up twice")]
    Twice,
}

/// Sets up logging for the process. Once.
pub fn init(config: &Config) -> Result<(), LogError> {
    let json = match config.log_format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !io::stderr().is_terminal(),
    };
    init_to(&config.log_filter, json, io::stderr)
}

/// The same to another place, as `gpuaas-dev` does with its log file.
pub fn init_to<W>(filter: &str, json: bool, writer: W) -> Result<(), LogError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(filter)?)
        .with_ansi(false)
        .with_writer(Escaping(writer));
    let set = if json {
        builder
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(true)
            .try_init()
    } else {
        builder.with_target(false).try_init()
    };
    set.map_err(|_| LogError::Twice)
}

/// Makes writers that show control characters instead of obeying them.
struct Escaping<W>(W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Escaping<W> {
    type Writer = EscapingWriter<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        EscapingWriter(self.0.make_writer())
    }
}

struct EscapingWriter<W>(W);

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(&escape(line))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// One call is one line, so only the newline at its very end is one.
fn escape(line: &[u8]) -> Vec<u8> {
    let (body, end) = match line.split_last() {
        Some((b'\n', body)) => (body, "\n"),
        _ => (line, ""),
    };
    let mut out = String::with_capacity(line.len());
    for c in String::from_utf8_lossy(body).chars() {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out.push_str(end);
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn a_value_cannot_forge_a_line() {
        let line = escape("name=\"a\nERROR forged\r\u{1b}[2K\u{2028}\u{9b}x\u{202e}\"\n".as_bytes());
        let text = String::from_utf8(line).expect("utf-8");
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.ends_with('\n'));
        assert!(
            text.trim_end()
                .chars()
                .all(|c| !c.is_control() && c != '\u{2028}' && c != '\u{202e}'),
            "{text}"
        );
    }
}
