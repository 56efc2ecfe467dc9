//! Which CAs vouch for an https server: the given file, else the system's bundle. Never nobody.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;

use crate::config::Sourced;
use crate::failure::Failure;

/// Debian and Alpine, Fedora, BSD and macOS.
const BUNDLES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

pub(crate) fn config(ca_file: Option<&Sourced<PathBuf>>) -> Result<Arc<ClientConfig>, Failure> {
    let (path, from) = match ca_file {
        Some(file) => (file.value.clone(), file.from.to_string()),
        None => {
            let bundle = BUNDLES.iter().map(Path::new).find(|path| path.exists());
            let bundle = bundle.ok_or_else(|| {
                Failure::config("this system has no CA bundle; install ca-certificates or give --ca-file")
            })?;
            (bundle.to_owned(), "system".to_owned())
        }
    };
    let wrong = |why: String| Failure::config(format!("CA file {} (from {from}): {why}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    let authorities = wire::pem::certificates(&text).map_err(|error| wrong(error.to_string()))?;
    wire::tls::client_config(None, &authorities).map_err(|error| wrong(error.to_string()))
}
