//! Signing in where no browser is: the person types a short code on another machine, and we ask until they have
//! (RFC 8628). Refuses to ask more often than the provider wants.

use std::time::Duration;

use model::signal::Code;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::loopback::late;
use super::provider::{Provider, access_token};
use crate::failure::{Exit, Failure};
use crate::output::text;
use crate::session::Session;

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Also when the provider would wait longer.
const PATIENCE_S: u64 = 300;

pub(super) async fn sign_in(session: &mut Session, provider: &Provider) -> Result<String, Failure> {
    let form = provider.asking(&[("scope", &provider.scope)]);
    let begun = provider.begin_device(&form).await?;
    let said = |name: &str| begun.get(name).and_then(Value::as_str);
    let (Some(device), Some(code), Some(page)) = (said("device_code"), said("user_code"), said("verification_uri"))
    else {
        // Says why, if it is one of the errors that a provider has words for.
        access_token(&begun)?;
        return Err(Failure::new(
            Exit::Login,
            Code::SignInRefused,
            "the identity provider knows no devices",
        ));
    };
    session.out.note(&format!(
        "On any machine, open {}\nand compare or type the pairing code {}. Waiting; Ctrl-C gives up.",
        text::plain(said("verification_uri_complete").unwrap_or(page)),
        text::plain(code)
    ))?;
    let number = |name: &str| begun.get(name).and_then(Value::as_u64);
    let mut pause = Duration::from_secs(number("interval").unwrap_or(5).clamp(1, 60));
    let until = Instant::now() + Duration::from_secs(number("expires_in").unwrap_or(PATIENCE_S).min(PATIENCE_S));
    let interrupt = session.out.env.interrupt.clone();
    let form = provider.asking(&[("grant_type", GRANT), ("device_code", device)]);
    let asking = async {
        while Instant::now() < until {
            sleep(pause).await;
            let answer = provider.exchange(&form).await?;
            match answer.get("error").and_then(Value::as_str) {
                Some("authorization_pending") => {}
                Some("slow_down") => pause += Duration::from_secs(5),
                _ => return access_token(&answer),
            }
        }
        Err(late())
    };
    tokio::select! {
        biased;
        () = interrupt.heard() => Err(Failure::silent(Exit::Interrupted)),
        token = asking => token,
    }
}
