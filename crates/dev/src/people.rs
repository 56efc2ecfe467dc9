//! Who can sign in at a development server: people of a pretended identity provider in its own process. Simulated, and it
//! says so on its page: it asks for no password.

use std::sync::Arc;

use base::Clock;
use base::config::Config;
use base::testing::issuer::{Issuer, Person};

use crate::platform::{Tune, bind};

/// A name is known by its issuer's address: another port makes other people.
const PORT: u16 = 8090;
const AUDIENCE: &str = "https://gpuaas.invalid/api";

pub(crate) async fn provider() -> anyhow::Result<Issuer> {
    let people = vec![
        Person::new("demo-admin", &["admins"]),
        Person::new("demo-operator", &["operators"]),
        Person::new("demo-tenant", &[]),
    ];
    Ok(Issuer::on(bind(PORT).await?, people, Clock::real())?)
}

/// Makes a platform believe it.
pub(crate) fn believed(issuer: &Issuer) -> Tune {
    let url = issuer.url().to_owned();
    Arc::new(move |config: &mut Config| {
        config.oidc_issuer = Some(url.clone());
        config.oidc_client_id = Some("console".to_owned());
        config.oidc_cli_client_id = Some("cli".to_owned());
        config.oidc_audience = Some(AUDIENCE.to_owned());
        config.oidc_role_claim = Some("groups".to_owned());
        config.oidc_role_map = vec!["admins=admin".to_owned(), "operators=operator".to_owned()];
    })
}
