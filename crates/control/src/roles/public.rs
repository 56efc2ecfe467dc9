//! How the public listener speaks: TLS with the operator's own certificate, or plain HTTP where nobody else can hear.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use base::config::Config;
use rustls::ServerConfig;
use wire::pem;
use wire::tls::server_config;

/// None: plain HTTP, on loopback or behind an edge that ends TLS. Tokens never cross a network in the clear.
pub(super) fn tls(config: &Config) -> anyhow::Result<Option<Arc<ServerConfig>>> {
    match (&config.public_cert_file, &config.public_key_file) {
        (Some(chain), Some(key)) => {
            let chain = pem::certificates(&read(chain)?).with_context(|| chain.display().to_string())?;
            let key = pem::private_key(&read(key)?).with_context(|| key.display().to_string())?;
            Ok(Some(server_config(chain, key, None)?))
        }
        (None, None) if config.behind_edge || config.listen_public.ip().is_loopback() => Ok(None),
        (None, None) => bail!(
            "config_invalid: listen_public is {}, which others can reach: set public_cert_file and public_key_file, or behind_edge",
            config.listen_public
        ),
        _ => bail!("config_invalid: public_cert_file and public_key_file go together"),
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::tls;
    use base::config::Config;

    #[test]
    fn plain_http_stays_where_nobody_else_hears_it() {
        let mut config = Config::defaults();
        assert!(tls(&config).expect("loopback").is_none());
        config.listen_public = "0.0.0.0:8443".parse().expect("an address");
        assert!(tls(&config).is_err());
        config.behind_edge = true;
        assert!(tls(&config).expect("an edge").is_none());
        config.public_key_file = Some("/nonexistent".into());
        assert!(tls(&config).is_err());
    }
}
