//! Log lines in one shape: JSON on stderr, or text when stderr is a terminal. Fields from spans (`correlation_id`,
//! `role`, `node_id`, `task_id`) stand in every line below them. Control characters never reach the terminal or the
//! file as they are, so that nobody can forge a line from inside a value.

use std::io::{self, IsTerminal};

use model::text::OneLine;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::clock::Clock;
use crate::config::{Config, LogFormat};

mod json;
use json::JsonLines;

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
    let filter = EnvFilter::try_new(filter)?;
    subscriber(filter, json, writer).try_init().map_err(|_| LogError::Twice)
}

fn subscriber<W>(filter: EnvFilter, json: bool, writer: W) -> impl SubscriberInitExt
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let writer = Escaping(writer);
    let layer = if json {
        JsonLines {
            writer,
            clock: Clock::real(),
        }
        .boxed()
    } else {
        tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_target(false)
            .with_writer(writer)
            .boxed()
    };
    tracing_subscriber::registry().with(filter).with(layer)
}

/// Makes writers that show control characters instead of obeying them.
struct Escaping<W>(W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Escaping<W> {
    type Writer = OneLine<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        OneLine(self.0.make_writer())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    const FORGERY: &str = "a\nERROR forged\r\u{1b}[2K\u{2028}\u{9b}x\u{202e}\",\"level\":\"error";

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(json: bool) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        let filter = EnvFilter::new("info");
        let guard = subscriber(filter, json, move || writer.clone()).set_default();
        let span = tracing::info_span!("request", correlation_id = "c-1", node_id = tracing::field::Empty);
        span.record("node_id", "node_x");
        span.in_scope(|| tracing::info!(name = FORGERY, took_ms = 3, "{FORGERY}"));
        drop(guard);
        let bytes = kept.0.lock().expect("not poisoned").clone();
        String::from_utf8(bytes).expect("utf-8")
    }

    #[test]
    fn a_value_cannot_forge_a_line() {
        for json in [true, false] {
            let text = logged(json);
            assert_eq!(text.matches('\n').count(), 1, "{text}");
            assert!(text.ends_with('\n'));
            assert!(
                text.trim_end()
                    .chars()
                    .all(|c| !c.is_control() && c != '\u{2028}' && c != '\u{202e}'),
                "{text}"
            );
        }
    }

    #[test]
    fn a_json_line_is_flat_and_says_exactly_what_was_logged() {
        let line: serde_json::Value = serde_json::from_str(&logged(true)).expect("JSON");
        assert_eq!(line["message"], FORGERY);
        assert_eq!(line["name"], FORGERY);
        assert_eq!((&line["level"], &line["took_ms"]), (&"info".into(), &3.into()));
        assert_eq!(
            (&line["correlation_id"], &line["node_id"]),
            (&"c-1".into(), &"node_x".into())
        );
    }
}
