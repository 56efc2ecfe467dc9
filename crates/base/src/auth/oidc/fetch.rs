//! Asking the provider: https, or plain HTTP on this very machine; no redirects, a deadline, a bounded answer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use http::{HeaderValue, header};
use rustls::ClientConfig;
use serde_json::Value;
use wire::http::{Client, keeps_secrets};

const DEADLINE: Duration = Duration::from_secs(5);
const LARGEST: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Fetch {
    tls: Option<Arc<ClientConfig>>,
}

impl Fetch {
    pub(super) fn new(issuer: &str, ca_file: Option<&Path>) -> anyhow::Result<Self> {
        if !keeps_secrets(issuer) {
            bail!("config_invalid: oidc_issuer must be https, or http on loopback: {issuer:?}");
        }
        let https = issuer.starts_with("https://");
        let tls = https
            .then(|| wire::tls::trusting(ca_file))
            .transpose()
            .context("config_invalid: oidc_ca_file")?;
        Ok(Self { tls })
    }

    pub(super) async fn get(&self, url: &str) -> anyhow::Result<Vec<u8>> {
        let client = self.client(url)?;
        let answer = client.get("").send_foreign().await?;
        if answer.status != http::StatusCode::OK {
            bail!("{url} answers {}", answer.status);
        }
        Ok(answer.body.to_vec())
    }

    /// A refusal of the provider is an answer too; anything that is no JSON is none.
    pub(super) async fn post(
        &self,
        url: &str,
        form: &[(&str, &str)],
        authorization: Option<HeaderValue>,
    ) -> anyhow::Result<Value> {
        let client = self.client(url)?;
        let mut request = client.post("").form(form);
        if let Some(value) = authorization {
            request = request.header(header::AUTHORIZATION, value);
        }
        let answer = request.send_foreign().await?;
        if answer.status.is_server_error() {
            bail!("{url} answers {}", answer.status);
        }
        Ok(answer.json()?)
    }

    fn client(&self, url: &str) -> anyhow::Result<Client> {
        // Checked for each address anew: the provider's own document may name others.
        if !keeps_secrets(url) {
            bail!("{url:?} is neither https nor on loopback");
        }
        let mut builder = Client::builder(url)?
            .timeout(DEADLINE)
            .connect_timeout(DEADLINE)
            .max_body(LARGEST);
        if url.starts_with("https://") {
            builder = builder.tls(
                self.tls
                    .clone()
                    .context("an https address of a provider without https")?,
            );
        }
        Ok(builder.build())
    }
}
