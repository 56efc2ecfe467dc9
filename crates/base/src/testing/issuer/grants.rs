//! What is handed out and taken back once: codes of browsers, codes of devices.

use data_encoding::BASE64URL_NOPAD;
use model::digest::Sha256;
use serde_json::{Value, json};
use wire::form::only;

use super::Shared;

pub(super) type Form = [(String, String)];

/// Somebody has said yes in a browser.
#[derive(Clone, Debug)]
pub(super) struct Code {
    person: String,
    client: String,
    redirect: String,
    challenge: String,
    nonce: Option<String>,
    resource: Option<String>,
}

/// Somebody is asked to say yes elsewhere.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) user_code: String,
    pub(super) person: Option<String>,
    client: String,
    resource: Option<String>,
}

fn random() -> String {
    BASE64URL_NOPAD.encode(&rand::random::<[u8; 24]>())
}

fn field(form: &Form, name: &str) -> Option<String> {
    only(form, name).filter(|text| !text.is_empty()).map(str::to_owned)
}

impl Shared {
    /// Where the browser goes next, if the question was well put.
    pub(super) fn approve(&self, form: &Form) -> Option<String> {
        let person = field(form, "user")?;
        self.claims(&person, &json!(""))?;
        if only(form, "response_type") != Some("code") || only(form, "code_challenge_method") != Some("S256") {
            return None;
        }
        let grant = Code {
            person,
            client: field(form, "client_id")?,
            redirect: field(form, "redirect_uri")?,
            challenge: field(form, "code_challenge")?,
            nonce: field(form, "nonce"),
            resource: field(form, "resource"),
        };
        let (code, redirect) = (random(), grant.redirect.clone());
        self.state().codes.insert(code.clone(), grant);
        let state = field(form, "state").unwrap_or_default();
        Some(wire::form::with_query(
            &redirect,
            &[("code", &code), ("state", &state), ("iss", &self.url)],
        ))
    }

    pub(super) fn begin_device(&self, form: &Form) -> Option<Value> {
        let device = Device {
            user_code: random()[..8].to_owned(),
            person: None,
            client: field(form, "client_id")?,
            resource: field(form, "resource"),
        };
        let (code, user_code) = (random(), device.user_code.clone());
        self.state().devices.insert(code.clone(), device);
        let page = format!("{}/device", self.url);
        Some(json!({
            "device_code": code, "user_code": user_code, "verification_uri": page, "expires_in": 300, "interval": 1,
            "verification_uri_complete": format!("{page}?user_code={user_code}"),
        }))
    }

    pub(super) fn approve_device(&self, user_code: &str, person: &str) -> bool {
        let mut state = self.state();
        let known = state.people.iter().any(|one| one.name == person);
        let mut devices = state.devices.values_mut();
        match devices.find(|device| device.user_code == user_code).filter(|_| known) {
            Some(device) => {
                device.person = Some(person.to_owned());
                true
            }
            None => false,
        }
    }

    /// Tokens, or the error's word.
    pub(super) fn token(&self, form: &Form) -> Result<Value, &'static str> {
        match only(form, "grant_type") {
            Some("authorization_code") => {
                let code = field(form, "code").ok_or("invalid_request")?;
                let grant = self.state().codes.remove(&code).ok_or("invalid_grant")?;
                let verifier = field(form, "code_verifier").ok_or("invalid_request")?;
                let challenge = BASE64URL_NOPAD.encode(Sha256::of(verifier.as_bytes()).as_bytes());
                let fits = only(form, "redirect_uri") == Some(&grant.redirect)
                    && only(form, "client_id") == Some(&grant.client)
                    && challenge == grant.challenge;
                if !fits {
                    return Err("invalid_grant");
                }
                self.tokens(
                    &grant.person,
                    &grant.client,
                    grant.resource.as_deref(),
                    grant.nonce.as_deref(),
                )
            }
            Some("urn:ietf:params:oauth:grant-type:device_code") => {
                let code = field(form, "device_code").ok_or("invalid_request")?;
                let device = self.state().devices.get(&code).cloned().ok_or("invalid_grant")?;
                if only(form, "client_id") != Some(&device.client) {
                    return Err("invalid_grant");
                }
                let person = device.person.ok_or("authorization_pending")?;
                self.state().devices.remove(&code);
                self.tokens(&person, &device.client, device.resource.as_deref(), None)
            }
            _ => Err("unsupported_grant_type"),
        }
    }

    fn tokens(
        &self,
        person: &str,
        client: &str,
        resource: Option<&str>,
        nonce: Option<&str>,
    ) -> Result<Value, &'static str> {
        let access = self.claims(person, &json!(resource.unwrap_or(client)));
        let identity = self.claims(person, &json!(client));
        let (access, mut identity) = access.zip(identity).ok_or("invalid_grant")?;
        if let Some(nonce) = nonce {
            identity["nonce"] = json!(nonce);
        }
        identity["at_hash"] = json!("x");
        let state = self.state();
        Ok(json!({
            "token_type": "Bearer", "expires_in": 300, "scope": "openid",
            "access_token": state.keys[0].sign("at+jwt", &access),
            "id_token": state.keys[0].sign("JWT", &identity),
        }))
    }
}
