//! Certificates are renewed by the clock, not by traffic: the working one at half its life, the device one likewise.
//! The device credential vouches each time, so a certificate that has lapsed comes back by the same road. What is
//! new is on disk before it is used.

use std::sync::Arc;
use std::time::Duration;

use model::digest::Sha256;
use model::node_api::{CertificateAnswer, CertificateKind, CertificateRequest};
use model::signal::Code;
use model::time::Timestamp;
use rcgen::{CertificateParams, DistinguishedName, KeyPair, SanType};
use tokio::time::Instant;
use wire::retry::jittered;
use wire::spiffe::Spiffe;
use wire::stop::Stop;

use crate::api::{ApiError, CallError};
use crate::executor::ExecutorError;
use crate::identity::{Certificate, Identity, SlotError};
use crate::node::Node;
use crate::pace::Pace;

#[derive(Debug, thiserror::Error)]
enum RenewError {
    #[error("executor")]
    Executor(#[from] ExecutorError),
    #[error("control plane")]
    Call(#[from] CallError),
    #[error("the identity could not be kept")]
    Keep(#[from] SlotError),
    #[error("the new certificate cannot be used")]
    Use(#[from] ApiError),
    #[error("a key or request could not be made")]
    Make(#[from] rcgen::Error),
    #[error("the new certificate is not ours: {0}")]
    Foreign(&'static str),
}

pub(crate) async fn run(node: &Node, stop: &Stop) {
    let mut backoff = node.pace.backoff();
    let mut forced = None;
    let mut refused = false;
    loop {
        let identity = node.api.identity();
        // The server's clock, once it was heard: it made the certificate. Ours alone may be days off either way.
        let now = node.api.server_time();
        let (working_due, device_due) = (due(&identity.working), due(&identity.device));
        // The working certificate first: it is what the next poll needs.
        let kind = if refused || now >= working_due {
            CertificateKind::Working
        } else if now >= device_due {
            CertificateKind::Device
        } else {
            let left = working_due.min(device_due).since_ms(now);
            let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
            tokio::select! {
                () = stop.stopped() => return,
                () = tokio::time::sleep(left.min(node.pace.recheck)) => {}
                // Not due, and still no server wants it: a new one may help, but a refusal comes with every poll.
                () = node.renewal_wanted.notified() => {
                    refused = forced.is_none_or(|at: Instant| at.elapsed() >= node.pace.slow);
                }
            }
            continue;
        };
        if std::mem::take(&mut refused) {
            forced = Some(Instant::now());
        }
        let Some(renewed) = stop.or(renew(node, &identity, kind)).await else {
            return;
        };
        match renewed {
            Ok(generation) => {
                let (polls, polls_failed) = node.polls();
                tracing::info!(?kind, generation, polls, polls_failed, "certificate renewed");
                backoff.reset();
                // By a clock that is days ahead the new one is due as well; it is not asked for in a busy loop.
                if stop.or(tokio::time::sleep(node.pace.renewal_spacing)).await.is_none() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(?kind, %error, reason = why(&error), "certificate not renewed");
                let pause = pause(&error, backoff.draw(), left(&identity, kind, now), &node.pace);
                if stop.or(tokio::time::sleep(pause)).await.is_none() {
                    return;
                }
            }
        }
    }
}

/// How long until the next try: sooner where the certificate is about to end, however short its life, and much
/// later where only a person can help.
fn pause(error: &RenewError, drawn: Duration, left: Duration, pace: &Pace) -> Duration {
    match error {
        RenewError::Call(CallError::Refused {
            code: Some(Code::NodeCloned),
            ..
        }) => jittered(pace.slow, 0.2),
        _ if left.is_zero() => drawn,
        _ => drawn.min((left / 4).max(pace.retry.0)),
    }
}

/// What is left of a certificate; nothing if it is over.
fn left(identity: &Identity, kind: CertificateKind, now: Timestamp) -> Duration {
    let certificate = match kind {
        CertificateKind::Working => &identity.working,
        CertificateKind::Device => &identity.device,
    };
    let left_ms = certificate.leaf().map_or(0, |leaf| leaf.not_after.since_ms(now));
    Duration::from_millis(u64::try_from(left_ms).unwrap_or(0))
}

/// Half the life, counted from receipt, give or take a tenth; the same for one certificate however often asked. One
/// that cannot be read is due.
pub fn due(certificate: &Certificate) -> Timestamp {
    let Some(leaf) = certificate.leaf() else {
        return Timestamp::from_millis(0);
    };
    let from = certificate.received_at.max(leaf.not_before).min(leaf.not_after);
    let half_ms = leaf.not_after.since_ms(from) / 2;
    let [a, b, ..] = *Sha256::of(leaf.serial.as_bytes()).as_bytes();
    // 0..=65535 becomes -10 %..=+10 %.
    let share = i64::from(u16::from_be_bytes([a, b])) - 32_768;
    from.plus_ms(half_ms + half_ms / 10 * share / 32_768)
}

async fn renew(node: &Node, identity: &Identity, kind: CertificateKind) -> Result<u64, RenewError> {
    match kind {
        CertificateKind::Working => {
            let key = KeyPair::generate()?;
            let answer = ask(
                node,
                kind,
                Some(csr(&key, Some(&identity.name()))?),
                identity.working.generation,
            )
            .await?;
            let mut fresh = identity.clone();
            fresh.working = received(node, identity, &answer)?;
            fresh.working_key = key.serialize_pem();
            fresh.ca_bundle = answer.ca_bundle;
            node.api.usable(&fresh)?;
            keep(node, fresh.clone()).await?;
            node.api.replace(fresh)?;
            Ok(answer.generation)
        }
        CertificateKind::Device => {
            let answer = ask(node, kind, None, identity.device.generation).await?;
            let mut fresh = identity.clone();
            fresh.device = received(node, identity, &answer)?;
            node.executor.device_chain(answer.chain).await?;
            node.api.usable(&fresh)?;
            keep(node, fresh.clone()).await?;
            node.api.replace(fresh)?;
            Ok(answer.generation)
        }
    }
}

/// Token from the executor, certificate from the control plane; a clock that is off gets one more try.
async fn ask(
    node: &Node,
    kind: CertificateKind,
    working_csr: Option<String>,
    generation: u64,
) -> Result<CertificateAnswer, RenewError> {
    let mut server_time = node.api.server_time();
    let mut corrected = false;
    loop {
        let (token, device_csr) = node
            .executor
            .renew_token(kind, working_csr.clone(), server_time)
            .await?;
        let csr = working_csr.clone().or(device_csr).ok_or(ExecutorError::Confused)?;
        let request = CertificateRequest {
            kind,
            csr,
            token,
            generation,
        };
        match node.api.certificate(&request).await {
            Ok(answer) => return Ok(answer),
            Err(CallError::Refused {
                code: Some(Code::ClockSkew),
                server_time: Some(told),
                ..
            }) if !corrected => {
                tracing::warn!(code = %Code::ClockSkew, off_ms = node.clock.now().since_ms(told), "clock");
                (server_time, corrected) = (told, true);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The answer as it will be kept, if it is a certificate in our name.
fn received(node: &Node, identity: &Identity, answer: &CertificateAnswer) -> Result<Certificate, RenewError> {
    let certificate = Certificate {
        chain: answer.chain.clone(),
        generation: answer.generation,
        received_at: node.clock.now(),
    };
    let leaf = certificate.leaf().ok_or(RenewError::Foreign("no certificate"))?;
    if leaf.spiffe.as_ref() != Some(&identity.name()) {
        return Err(RenewError::Foreign("another name"));
    }
    Ok(certificate)
}

async fn keep(node: &Node, identity: Identity) -> Result<(), RenewError> {
    let slots = Arc::clone(&node.slots);
    let kept = tokio::task::spawn_blocking(move || slots.change(|kept| kept.identity = Some(identity))).await;
    Ok(kept.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))?)
}

/// A request for this key. Without a name before the first enrolment: only the control plane knows it then.
pub(crate) fn csr(key: &KeyPair, name: Option<&Spiffe>) -> Result<String, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    if let Some(name) = name {
        params.subject_alt_names = vec![SanType::URI(name.to_string().try_into()?)];
    }
    params.serialize_request(key)?.pem()
}

fn why(error: &RenewError) -> String {
    match error {
        RenewError::Call(error) => error.word(),
        RenewError::Executor(ExecutorError::Refused { code, .. }) => code.to_string(),
        RenewError::Executor(_) => Code::ExecutorUnreachable.to_string(),
        RenewError::Keep(_) => Code::DiskFull.to_string(),
        RenewError::Use(_) | RenewError::Make(_) | RenewError::Foreign(_) => "certificate_unusable".to_owned(),
    }
}
