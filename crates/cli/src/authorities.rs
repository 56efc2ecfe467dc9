//! Which CAs vouch for an https server: the given file, else the system's bundle. Never nobody.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;

use crate::config::Sourced;
use crate::failure::Failure;

pub(crate) fn config(ca_file: Option<&Sourced<PathBuf>>) -> Result<Arc<ClientConfig>, Failure> {
    let from = ca_file.map_or_else(|| "system".to_owned(), |file| file.from.to_string());
    wire::tls::trusting(ca_file.map(|file| file.value.as_path())).map_err(|error| match error {
        wire::tls::SystemError::NoBundle => {
            Failure::config("this system has no CA bundle; install ca-certificates or give --ca-file")
        }
        wire::tls::SystemError::File { path, why } => {
            Failure::config(format!("CA file {} (from {from}): {why}", path.display()))
        }
    })
}
