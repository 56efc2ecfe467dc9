//! `gpuaas version`: this program, and the server if it answers within two seconds. Not reaching it is no failure.

use std::time::Duration;

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::Format;
use crate::output::column::{Kind, View, extra};
use crate::output::text;
use crate::session::Session;

const OWN: &str = env!("CARGO_PKG_VERSION");
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) const VIEW: View = View {
    columns: &[
        extra("client", "client", Kind::Text),
        extra("server", "server.version", Kind::Text),
        extra("installation", "server.installation", Kind::Text),
        extra("dev", "server.dev", Kind::Text),
        extra("url", "url", Kind::Text),
    ],
    key: "client",
};

pub(crate) async fn run(session: &mut Session) -> Result<(), Failure> {
    let mut document = json!({"client": OWN, "server": null});
    if session.settings.url.is_some() {
        let client = session.client()?;
        document["url"] = client.base().into();
        match client.get_public("/v1/version", PATIENCE).await {
            Ok(server) => document["server"] = server,
            Err(failure) => session.out.note(&text::plain(&failure.message))?,
        }
    }
    if session.out.format != Format::Table || session.out.columns.is_some() {
        return session.out.record(&VIEW, &document);
    }
    session.out.line(&format!("gpuaas {OWN}"))?;
    let server = &document["server"];
    let Some(version) = server.get("version").and_then(Value::as_str) else {
        return Ok(());
    };
    let dev = if server["dev"] == true { "  DEV MODE" } else { "" };
    let url = document["url"].as_str().unwrap_or_default();
    session
        .out
        .line(&format!("server {} at {}{dev}", text::plain(version), text::plain(url)))
}
