//! The identity provider, as the command line sees it: where the server sends people to sign in. Refuses a provider that
//! calls itself something else, and one that would be told secrets in the clear.

use std::sync::Arc;
use std::time::Duration;

use model::api::SignInView;
use model::signal::Code;
use rustls::ClientConfig;
use serde::Deserialize;
use serde_json::Value;
use wire::http::Client;

use crate::authorities;
use crate::config::Settings;
use crate::failure::{Exit, Failure};
use crate::output::text;

const PATIENCE: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    device_authorization_endpoint: Option<String>,
}

pub(super) struct Provider {
    document: Document,
    tls: Option<Arc<ClientConfig>>,
    pub(super) client_id: String,
    pub(super) scope: String,
    /// What the access token is asked for, if it is a URL: then it is the name of a resource (RFC 8707).
    resource: Option<String>,
}

fn unusable(why: impl Into<String>) -> Failure {
    Failure::new(Exit::Login, Code::SignInNotConfigured, why).hint("gpuaas auth login --with-token")
}

impl Provider {
    pub(super) async fn find(settings: &Settings, view: &SignInView) -> Result<Self, Failure> {
        let (Some(issuer), Some(client_id), Some(audience)) = (&view.issuer, &view.client_id, &view.audience) else {
            return Err(unusable("this server has no identity provider for the command line"));
        };
        let tls = match issuer.starts_with("https://") {
            true => Some(authorities::config(settings.ca_file.as_ref())?),
            false => None,
        };
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let answer = client(&url, tls.clone())?
            .get("")
            .timeout(PATIENCE)
            .send_foreign()
            .await;
        let answer = answer.map_err(|error| away(&url, &error.kind.to_string()))?;
        let document: Document = match answer.status.is_success() {
            true => answer.json().map_err(|_| away(&url, "its configuration is no JSON"))?,
            false => return Err(away(&url, &format!("it answers {}", answer.status))),
        };
        if document.issuer != *issuer {
            return Err(unusable(format!(
                "{} calls itself {}",
                text::plain(issuer),
                text::plain(&document.issuer)
            )));
        }
        Ok(Self {
            document,
            tls,
            client_id: client_id.clone(),
            scope: view.scopes.join(" "),
            resource: Some(audience.clone()).filter(|audience| audience.contains("://")),
        })
    }

    pub(super) fn issuer(&self) -> &str {
        &self.document.issuer
    }

    pub(super) fn page(&self) -> Result<&str, Failure> {
        let page = self.document.authorization_endpoint.as_deref();
        page.ok_or_else(|| unusable("the identity provider has no page to sign in"))
    }

    pub(super) fn has_devices(&self) -> bool {
        self.document.device_authorization_endpoint.is_some()
    }

    /// What every question carries.
    pub(super) fn asking<'a>(&'a self, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let mut pairs = vec![("client_id", self.client_id.as_str())];
        pairs.extend(more);
        pairs.extend(self.resource.as_deref().map(|resource| ("resource", resource)));
        pairs
    }

    pub(super) async fn begin_device(&self, form: &[(&str, &str)]) -> Result<Value, Failure> {
        let url = self.document.device_authorization_endpoint.as_deref();
        self.post(
            url.ok_or_else(|| unusable("the identity provider knows no devices"))?,
            form,
        )
        .await
    }

    /// Tokens, or the provider's own error, as it says them.
    pub(super) async fn exchange(&self, form: &[(&str, &str)]) -> Result<Value, Failure> {
        let url = self.document.token_endpoint.as_deref();
        self.post(
            url.ok_or_else(|| unusable("the identity provider gives no tokens"))?,
            form,
        )
        .await
    }

    async fn post(&self, url: &str, form: &[(&str, &str)]) -> Result<Value, Failure> {
        let client = client(url, self.tls.clone())?;
        let answer = client.post("").form(form).timeout(PATIENCE).send_foreign().await;
        let answer = answer.map_err(|error| away(url, &error.kind.to_string()))?;
        answer.json().map_err(|_| away(url, "its answer is no JSON"))
    }
}

/// The access token of an answer, or what the provider says instead.
pub(super) fn access_token(answer: &Value) -> Result<String, Failure> {
    let said = |name: &str| answer.get(name).and_then(Value::as_str);
    said("access_token").map(str::to_owned).ok_or_else(|| {
        let word = text::plain(said("error").unwrap_or("no access token"));
        let more = said("error_description").map(|more| format!(": {}", text::plain(more)));
        Failure::new(
            Exit::Login,
            Code::SignInRefused,
            format!("the identity provider declined ({word}{})", more.unwrap_or_default()),
        )
    })
}

fn client(url: &str, tls: Option<Arc<ClientConfig>>) -> Result<Client, Failure> {
    if !wire::http::keeps_secrets(url) {
        return Err(unusable(format!(
            "{} is neither https nor on this machine",
            text::plain(url)
        )));
    }
    let mut builder = Client::builder(url).map_err(|_| unusable(format!("no URL: {}", text::plain(url))))?;
    if let Some(tls) = tls.filter(|_| url.starts_with("https://")) {
        builder = builder.tls(tls);
    }
    Ok(builder.build())
}

fn away(url: &str, why: &str) -> Failure {
    let message = format!(
        "cannot talk to the identity provider at {}: {}",
        text::plain(url),
        text::plain(why)
    );
    Failure::new(Exit::Error, Code::IdentityUnavailable, message)
}
