//! Whom a client trusts that calls servers of the wide world: a given file, else the system's bundle. Never nobody.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;

use super::client_config;
use crate::pem;

/// Debian and Alpine, Fedora, BSD and macOS.
const BUNDLES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    #[error("this system has no CA bundle; install ca-certificates")]
    NoBundle,
    #[error("CA file {}: {why}", path.display())]
    File { path: PathBuf, why: String },
}

pub fn trusting(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, SystemError> {
    let path = match ca_file {
        Some(file) => file,
        None => BUNDLES
            .iter()
            .map(Path::new)
            .find(|path| path.exists())
            .ok_or(SystemError::NoBundle)?,
    };
    let wrong = |why: String| SystemError::File {
        path: path.to_owned(),
        why,
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let authorities = pem::certificates(&text).map_err(|error| wrong(error.to_string()))?;
    client_config(None, &authorities).map_err(|error| wrong(error.to_string()))
}
