//! Where settings come from, in which order, and where a token may go.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::server::{Answer, Server};
use crate::town::{Home, gpuaas};

async fn anybody() -> Server {
    Server::start(|asked, _| match asked.path.as_str() {
        "/v1/me" => Answer::Json(200, json!({"user_id": "user_x", "user": "ann", "token_id": "tok_x", "scopes": ["operator"], "expires_at": "2099-01-01T00:00:00.000Z"})),
        _ => Answer::Json(200, json!({"items": [], "next": null})),
    })
    .await
}

#[tokio::test]
async fn flag_beats_environment_beats_profile() {
    let home = Home::new();
    home.write("config.toml", "[profile.default]\nurl = \"https://profile.example\"\noutput = \"json\"\n[profile.lab]\nurl = \"https://lab.example\"\n");
    let shown = async |words: &[&str], url: Option<&str>| {
        let mut words = words.to_vec();
        words.extend(["config", "show", "-o", "tsv"]);
        let mut line = gpuaas(&words);
        if let Some(url) = url {
            line = line.var("GPUAAS_URL", url);
        }
        let said = line.run(&home).await;
        let lines = said.out;
        lines
            .lines()
            .find(|line| line.starts_with("url\t"))
            .expect("a url")
            .to_owned()
    };
    assert_eq!(shown(&[], None).await, "url\thttps://profile.example\tprofile default");
    assert_eq!(
        shown(&["--profile", "lab"], None).await,
        "url\thttps://lab.example\tprofile lab"
    );
    assert_eq!(
        shown(&[], Some("https://env.example")).await,
        "url\thttps://env.example\tenv GPUAAS_URL"
    );
    assert_eq!(
        shown(&["--url", "https://flag.example"], Some("https://env.example")).await,
        "url\thttps://flag.example\tflag"
    );
}

#[tokio::test]
async fn mistakes_in_the_file_are_named() {
    let home = Home::new();
    for (text, word) in [
        (
            "[profile.default]\nurl = \"https://x\"\ncolour = true\n",
            "config.toml:3: unknown field `colour`",
        ),
        ("[profil.default]\n", "unknown field `profil`"),
        ("[profile.default]\nurl = \"http://far.example\"\n", "in the clear"),
        ("[profile.default]\noutput = \"xml\"\n", "unknown variant `xml`"),
    ] {
        home.write("config.toml", text);
        let said = gpuaas(&["node", "list"]).run(&home).await;
        assert_eq!(said.exit, 2, "{text}");
        assert!(
            said.err.starts_with("error[config_invalid]: ") && said.err.contains(word),
            "{}",
            said.err
        );
    }
    home.write("config.toml", "[profile.lab]\n");
    let said = gpuaas(&["node", "list", "--profile", "lap"]).run(&home).await;
    assert!(
        said.err.contains("no profile \"lap\" (from flag); there are lab"),
        "{}",
        said.err
    );
}

#[tokio::test]
async fn a_kept_token_is_private_and_goes_to_its_own_server_only() {
    let home = Home::new();
    let (ours, other) = (anybody().await, anybody().await);
    let said = gpuaas(&["auth", "login", "--with-token", "--url", &ours.url])
        .stdin("gpt_secret\n")
        .run(&home)
        .await;
    assert_eq!(said.exit, 0, "{}", said.err);
    let file = home.path().join("credentials.toml");
    assert!(
        said.err.contains(file.to_str().expect("plain")) && !said.err.contains("gpt_secret"),
        "{}",
        said.err
    );
    assert_eq!(
        std::fs::metadata(&file).expect("kept").permissions().mode() & 0o777,
        0o600
    );

    // The login tells where to go, too.
    assert_eq!(gpuaas(&["node", "list"]).run(&home).await.exit, 0);
    assert_eq!(
        ours.asked().pop().and_then(|asked| asked.authorization).as_deref(),
        Some("Bearer gpt_secret")
    );
    assert_eq!(gpuaas(&["node", "list", "--url", &other.url]).run(&home).await.exit, 4);
    assert!(other.asked().is_empty());
    let said = gpuaas(&["config", "show", "--json"]).run(&home).await;
    assert!(!said.out.contains("gpt_secret"), "{}", said.out);

    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("ours");
    let said = gpuaas(&["node", "list"]).run(&home).await;
    assert!(said.exit == 2 && said.err.contains("chmod 600"), "{}", said.err);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("ours");
    assert_eq!(gpuaas(&["auth", "logout"]).run(&home).await.exit, 0);
    assert_eq!(gpuaas(&["node", "list", "--url", &ours.url]).run(&home).await.exit, 4);
}

#[tokio::test]
async fn a_login_makes_the_profile_that_it_names() {
    let (home, server) = (Home::new(), anybody().await);
    let login = [
        "auth",
        "login",
        "--with-token",
        "--profile",
        "lab",
        "--url",
        &server.url,
    ];
    let said = gpuaas(&login).stdin("gpt_lab\n").run(&home).await;
    assert_eq!(said.exit, 0, "{}", said.err);
    assert!(said.err.contains("use it with --profile lab"), "{}", said.err);
    // It brings its server along, and is nobody else's.
    assert_eq!(gpuaas(&["node", "list", "--profile", "lab"]).run(&home).await.exit, 0);
    let asked = server.asked().pop().and_then(|asked| asked.authorization);
    assert_eq!(asked.as_deref(), Some("Bearer gpt_lab"));
    assert_eq!(gpuaas(&["node", "list"]).run(&home).await.exit, 4);
    let said = gpuaas(&["node", "list", "--profile", "lap"]).run(&home).await;
    assert!(
        said.err.contains("no profile \"lap\" (from flag); there are lab"),
        "{}",
        said.err
    );
    assert!(
        said.err.contains("gpuaas auth login --profile lap --url URL makes it"),
        "{}",
        said.err
    );
}

#[tokio::test]
async fn a_shadowed_login_is_refused() {
    let home = Home::new();
    let server = anybody().await;
    let said = gpuaas(&["auth", "login", "--with-token"])
        .at(&server.url)
        .stdin("gpt_x\n")
        .run(&home)
        .await;
    assert_eq!(said.exit, 5);
    assert!(said.err.contains("unset GPUAAS_TOKEN"), "{}", said.err);
}

#[tokio::test]
async fn the_running_dev_server_is_found_and_named_and_a_dead_one_is_not() {
    let home = Home::new();
    let server = anybody().await;
    let dev = |pid: u32| json!({"url": server.url, "token": "gpt_dev", "pid": pid, "more": 1}).to_string();

    home.write("gpuaas/dev/dev.json", &dev(std::process::id()));
    let said = gpuaas(&["node", "list"]).run(&home).await;
    assert_eq!(said.exit, 0, "{}", said.err);
    assert_eq!(
        said.err,
        format!(
            "using the development server at {} (pid {})\n",
            server.url,
            std::process::id()
        )
    );
    assert_eq!(
        server.asked().pop().and_then(|asked| asked.authorization).as_deref(),
        Some("Bearer gpt_dev")
    );
    // JSON on stderr stays JSON.
    assert_eq!(gpuaas(&["node", "list", "--json"]).run(&home).await.err, "");
    // A configured server wins, and does not get the development token.
    let other = anybody().await;
    assert_eq!(gpuaas(&["node", "list", "--url", &other.url]).run(&home).await.exit, 4);

    // Larger than any pid the kernel gives out.
    home.write("gpuaas/dev/dev.json", &dev(i32::MAX.unsigned_abs()));
    assert_eq!(gpuaas(&["node", "list"]).run(&home).await.exit, 4);
}
