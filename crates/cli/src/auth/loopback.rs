//! Signing in with a browser on this machine: code with PKCE, and the answer comes as a redirect to a port of ours that
//! was free a moment ago. Anything but the one answer that was asked for is turned away, and after five minutes nobody
//! listens any more.

use std::net::Ipv4Addr;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use model::digest::Sha256;
use model::signal::Code;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wire::form::{only, read, with_query};

use super::provider::{Provider, access_token};
use crate::failure::{Exit, Failure};
use crate::session::Session;

const PATIENCE: Duration = Duration::from_secs(300);
/// One visitor may not keep the door.
const VISIT: Duration = Duration::from_secs(5);
const HEAD_LONGEST: usize = 8 * 1024;

fn random() -> String {
    BASE64URL_NOPAD.encode(&rand::random::<[u8; 32]>())
}

fn digest(text: &str) -> String {
    BASE64URL_NOPAD.encode(Sha256::of(text.as_bytes()).as_bytes())
}

/// Shown here and in the browser, so that a person can tell that both speak of the same sign-in.
pub(super) fn pairing_code(state: &str) -> String {
    const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
    let digest = Sha256::of(format!("pairing {state}").as_bytes());
    let letters: String = digest.as_bytes()[..8]
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]))
        .collect();
    format!("{}-{}", &letters[..4], &letters[4..])
}

pub(super) async fn sign_in(session: &mut Session, provider: &Provider) -> Result<String, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let redirect = format!("http://127.0.0.1:{}/callback", listener.local_addr()?.port());
    let (state, nonce, verifier) = (random(), random(), random());
    let (challenge, pairing) = (digest(&verifier), pairing_code(&state));
    let query = provider.asking(&[
        ("response_type", "code"),
        ("redirect_uri", &redirect),
        ("scope", &provider.scope),
        ("state", &state),
        ("nonce", &nonce),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ]);
    let page = with_query(provider.page()?, &query);
    session
        .out
        .note(&format!("Open this page in a browser on this machine:\n\n  {page}\n"))?;
    session.out.note(&format!(
        "At the end it shows the pairing code {pairing}. Waiting; Ctrl-C gives up."
    ))?;
    let expected = Expected {
        state: &state,
        issuer: provider.issuer(),
        pairing: &pairing,
    };
    let interrupt = session.out.env.interrupt.clone();
    let code = tokio::select! {
        biased;
        () = interrupt.heard() => return Err(Failure::silent(Exit::Interrupted)),
        () = tokio::time::sleep(PATIENCE) => return Err(late()),
        code = answer(&listener, &expected) => code?,
    };
    drop(listener);
    let form = provider.asking(&[
        ("grant_type", "authorization_code"),
        ("code", &code),
        ("redirect_uri", &redirect),
        ("code_verifier", &verifier),
    ]);
    access_token(&provider.exchange(&form).await?)
}

pub(super) fn late() -> Failure {
    Failure::new(Exit::Login, Code::SignInRefused, "nobody signed in within five minutes")
}

struct Expected<'a> {
    state: &'a str,
    issuer: &'a str,
    pairing: &'a str,
}

/// What a visitor brings: the code, a refusal, or nothing that concerns us.
enum Brought {
    Code(String),
    Declined,
    Nothing,
}

impl Expected<'_> {
    fn judge(&self, head: &str) -> Brought {
        let target = head.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
        let Some(query) = target.and_then(|target| target.strip_prefix("/callback?")) else {
            return Brought::Nothing;
        };
        let pairs = read(query);
        let other = |name: &str, wanted: &str| only(&pairs, name).is_some_and(|value| value != wanted);
        if only(&pairs, "state") != Some(self.state) || other("iss", self.issuer) {
            return Brought::Nothing;
        }
        match only(&pairs, "code") {
            Some(code) if !code.is_empty() => Brought::Code(code.to_owned()),
            _ => Brought::Declined,
        }
    }
}

async fn answer(listener: &TcpListener, expected: &Expected<'_>) -> Result<String, Failure> {
    loop {
        let (mut visitor, _) = listener.accept().await?;
        // A visitor who is slow, rude or lost changes nothing.
        let Ok(Ok(head)) = tokio::time::timeout(VISIT, head(&mut visitor)).await else {
            continue;
        };
        let brought = expected.judge(&head);
        let (status, text) = match &brought {
            Brought::Code(_) => (
                "200 OK",
                format!(
                    "Signed in. Your terminal shows {}; if it shows another code, close it. You can close this page.",
                    expected.pairing
                ),
            ),
            Brought::Declined => ("200 OK", "Not signed in. You can close this page.".to_owned()),
            Brought::Nothing => ("404 Not Found", "Nothing is here.".to_owned()),
        };
        // What was brought counts, whether its bringer waits for the page or not.
        let _unread = tokio::time::timeout(VISIT, say(&mut visitor, status, &text)).await;
        match brought {
            Brought::Code(code) => return Ok(code),
            Brought::Declined => {
                return Err(Failure::new(
                    Exit::Login,
                    Code::SignInRefused,
                    "the identity provider declined",
                ));
            }
            Brought::Nothing => {}
        }
    }
}

async fn head(visitor: &mut TcpStream) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 1024];
    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") && bytes.len() < HEAD_LONGEST {
        match visitor.read(&mut chunk).await? {
            0 => break,
            read => bytes.extend_from_slice(&chunk[..read]),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

async fn say(visitor: &mut TcpStream, status: &str, text: &str) -> std::io::Result<()> {
    let page = format!("<!doctype html><meta charset=utf-8><title>gpuaas</title><p>{text}</p>");
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'\r\n\r\n",
        page.len()
    );
    visitor.write_all(head.as_bytes()).await?;
    visitor.write_all(page.as_bytes()).await?;
    visitor.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_code_counts_also_if_its_browser_is_gone_before_the_page() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let mut browser = TcpStream::connect(listener.local_addr().expect("bound"))
            .await
            .expect("open");
        let head = b"GET /callback?code=c&state=s HTTP/1.1\r\n\r\n";
        browser.write_all(head).await.expect("sent");
        browser.set_zero_linger().expect("gone at once");
        drop(browser);
        let expected = Expected {
            state: "s",
            issuer: "https://id.example",
            pairing: "x",
        };
        let code = tokio::time::timeout(VISIT, answer(&listener, &expected)).await;
        assert_eq!(code.expect("in time").expect("signed in"), "c");
    }

    #[test]
    fn only_the_answer_that_was_asked_for_counts() {
        let expected = Expected {
            state: "s",
            issuer: "https://id.example",
            pairing: "x",
        };
        let code = |head: &str| match expected.judge(head) {
            Brought::Code(code) => code,
            Brought::Declined => "declined".to_owned(),
            Brought::Nothing => "nothing".to_owned(),
        };
        for (head, wanted) in [
            ("GET /callback?code=c&state=s HTTP/1.1\r\n\r\n", "c"),
            (
                "GET /callback?code=c&state=s&iss=https%3A%2F%2Fid.example HTTP/1.1\r\n\r\n",
                "c",
            ),
            ("GET /callback?error=access_denied&state=s HTTP/1.1\r\n\r\n", "declined"),
            ("GET /callback?code=c&state=t HTTP/1.1\r\n\r\n", "nothing"),
            ("GET /callback?code=c HTTP/1.1\r\n\r\n", "nothing"),
            ("GET /callback?code=c&state=s&state=s HTTP/1.1\r\n\r\n", "nothing"),
            (
                "GET /callback?code=c&state=s&iss=https%3A%2F%2Fevil.example HTTP/1.1\r\n\r\n",
                "nothing",
            ),
            ("POST /callback?code=c&state=s HTTP/1.1\r\n\r\n", "nothing"),
            ("GET /favicon.ico HTTP/1.1\r\n\r\n", "nothing"),
            ("", "nothing"),
        ] {
            assert_eq!(code(head), wanted, "{head}");
        }
        assert_eq!(pairing_code("s"), pairing_code("s"));
        assert_ne!(pairing_code("s"), pairing_code("t"));
    }
}
