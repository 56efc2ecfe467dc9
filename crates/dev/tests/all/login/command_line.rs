//! `gpuaas auth`, with a person who does what the terminal says: a page in a browser here, a code on another machine.

use std::path::Path;

use base::testing::eventually;
use cli::{Captured, Env};
use dev::town::Town;
use model::signal::Code;
use serde_json::Value;
use wire::http::Client;

use super::{choose, town};

/// A person's own machine.
pub(super) struct Machine {
    url: String,
    home: String,
}

#[derive(Debug)]
pub(super) struct Said {
    pub(super) exit: u8,
    pub(super) out: String,
    pub(super) err: String,
}

impl Machine {
    pub(super) fn new(town: &Town, name: &str) -> Self {
        let home = town.dir().join(name);
        std::fs::create_dir(&home).expect("a directory");
        Self {
            url: town.platform.public_urls[0].clone(),
            home: home.display().to_string(),
        }
    }

    pub(super) fn start(
        &self,
        words: &str,
        more: &[(&str, &str)],
        stdin: &str,
    ) -> (tokio::task::JoinHandle<u8>, Captured) {
        let vars = [
            ("GPUAAS_URL", self.url.as_str()),
            ("HOME", &self.home),
            ("NO_COLOR", "1"),
        ];
        let (env, captured) = Env::captured(vars.into_iter().chain(more.iter().copied()));
        let words: Vec<String> = ["gpuaas"]
            .into_iter()
            .chain(words.split(' '))
            .map(str::to_owned)
            .collect();
        let env = env.with_stdin(stdin);
        (tokio::spawn(async move { cli::run(words, env).await }), captured)
    }

    pub(super) async fn types(&self, words: &str) -> Said {
        let (run, captured) = self.start(words, &[], "");
        ended(run, &captured).await
    }

    fn kept(&self) -> String {
        let path = Path::new(&self.home).join(".config/gpuaas/credentials.toml");
        std::fs::read_to_string(path).unwrap_or_default()
    }
}

pub(super) async fn ended(run: tokio::task::JoinHandle<u8>, captured: &Captured) -> Said {
    let exit = run.await.expect("no panic");
    Said {
        exit,
        out: captured.stdout(),
        err: captured.stderr(),
    }
}

/// The first word on stderr that begins so.
pub(super) async fn told(captured: &Captured, beginning: &str) -> String {
    eventually("the terminal says where to go", async || {
        let said = captured.stderr();
        let word = said.split_whitespace().find(|word| word.starts_with(beginning));
        word.map(str::to_owned).ok_or(said.clone())
    })
    .await
}

pub(super) async fn visit(url: &str) -> (u16, String) {
    let (server, path) = url.split_at(url[8..].find('/').expect("a path") + 8);
    let client = Client::builder(server).expect("a URL").build();
    let answer = client.get(path).send_foreign().await.expect("an answer");
    (
        answer.status.as_u16(),
        String::from_utf8_lossy(&answer.body).into_owned(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_with_a_browser_and_out_again() {
    let (town, issuer) = town().await;
    let machine = Machine::new(&town, "laptop");
    assert_eq!(machine.types("auth status").await.exit, 4);
    let (run, captured) = machine.start("auth login", &[], "");
    let page = told(&captured, &format!("{}/authorize?", issuer.url())).await;
    let back = choose(&page, "ada").await;
    // Whoever guesses the port but not the state is turned away, and the wait goes on.
    let port = back.split("/callback").next().expect("an address");
    assert_eq!(visit(&format!("{port}/callback?code=x&state=y")).await.0, 404);
    assert_eq!(visit(&format!("{port}/favicon.ico")).await.0, 404);
    let (status, shown) = visit(&back).await;
    assert_eq!(status, 200);
    let said = ended(run, &captured).await;
    assert_eq!(said.exit, 0, "{said:?}");
    let pairing = said
        .err
        .split("pairing code ")
        .nth(1)
        .and_then(|rest| rest.get(..9))
        .expect("a code");
    assert!(shown.contains(pairing), "{pairing} in {shown}");
    assert!(said.out.contains("ada") && said.out.contains("admin"), "{said:?}");

    let status = machine.types("auth status -o json").await;
    let me: Value = serde_json::from_str(&status.out).expect("JSON");
    // Another ada was here first, and she is not this one.
    let name = me["user"].as_str().unwrap_or_default();
    assert!(status.exit == 0 && name.starts_with("ada-"), "{status:?}");
    assert_eq!(machine.types("node list").await.exit, 0);
    let token = machine.types("auth token").await.out.trim().to_owned();
    assert!(token.starts_with("gpuaas_") && machine.kept().contains(&token));

    let out = machine.types("auth logout").await;
    assert_eq!((out.exit, machine.kept().contains(&token)), (0, false), "{out:?}");
    // Not only forgotten: whoever copied it has nothing.
    let (run, captured) = machine.start("auth status", &[("GPUAAS_TOKEN", &token)], "");
    assert_eq!(ended(run, &captured).await.exit, 4);
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_from_a_machine_without_a_browser() {
    let (town, issuer) = town().await;
    let machine = Machine::new(&town, "server");
    for (words, vars) in [
        ("auth login --device", &[][..]),
        ("auth login", &[("SSH_CONNECTION", "192.0.2.1 1 192.0.2.2 22")]),
    ] {
        let (run, captured) = machine.start(words, vars, "");
        let page = told(&captured, &format!("{}/device?", issuer.url())).await;
        let approved = visit(&page.replace("/device?", "/device/as?user=bob&")).await;
        assert_eq!(approved.0, 200, "{approved:?}");
        let said = ended(run, &captured).await;
        assert_eq!(said.exit, 0, "{said:?}");
        assert!(said.out.contains("bob") && said.out.contains("project"), "{said:?}");
    }
    // Ctrl-C gives up, and nothing of the last sign-in is lost.
    let (run, captured) = machine.start("auth login --device", &[], "");
    told(&captured, &format!("{}/device?", issuer.url())).await;
    captured.interrupt();
    assert_eq!(ended(run, &captured).await.exit, 130);
    assert_eq!(machine.types("auth status").await.exit, 0);
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_that_cannot_be_says_why() {
    let (town, issuer) = town().await;
    let machine = Machine::new(&town, "laptop");
    let (run, captured) = machine.start("auth login", &[("GPUAAS_TOKEN", "gpuaas_x")], "");
    let said = ended(run, &captured).await;
    assert!(said.exit == 5 && said.err.contains("unset GPUAAS_TOKEN"), "{said:?}");
    let (run, captured) = machine.start("auth login --with-token", &[], "gpuaas_wrong\n");
    let said = ended(run, &captured).await;
    assert!(
        said.exit == 4 && said.err.contains(Code::TokenInvalid.as_str()),
        "{said:?}"
    );
    issuer.set_broken(true);
    let said = machine.types("auth login").await;
    assert!(
        said.exit == 1 && said.err.contains(Code::IdentityUnavailable.as_str()),
        "{said:?}"
    );
    // Declined at the provider.
    issuer.set_broken(false);
    let (run, captured) = machine.start("auth login", &[], "");
    let page = told(&captured, &format!("{}/authorize?", issuer.url())).await;
    let back = choose(&page, "ada").await;
    let declined = back.replace("?code=", "?error=access_denied&was=");
    assert_eq!(visit(&declined).await.0, 200);
    let said = ended(run, &captured).await;
    assert!(
        said.exit == 4 && said.err.contains(Code::SignInRefused.as_str()),
        "{said:?}"
    );
    assert_eq!(machine.kept(), "");
    town.end().await;
}
