//! The project that is meant where none is said, and what a name stands for.

use model::id::ProjectId;
use serde_json::{Value, json};

use crate::server::{Answer, Server};
use crate::town::{Home, Said, gpuaas, page};

/// Two projects, and the allocations that are given.
async fn server(demo: ProjectId, lab: ProjectId, allocations: Vec<Value>) -> Server {
    let project = |id: ProjectId, name: &str| json!({"id": id, "name": name, "role": "owner", "version": 1});
    let both = [project(demo, "demo"), project(lab, "lab")];
    Server::start(move |asked, _| {
        let path = asked.path.split('?').next().unwrap_or_default();
        match (asked.method.as_str(), path) {
            ("POST", "/v1/allocations") => Answer::Json(202, json!({"id": "alloc_0000000000000000000000000g", "state": "requested"})),
            (_, "/v1/allocations") => Answer::Json(200, page(&allocations, None)),
            (_, "/v1/projects") => Answer::Json(200, page(&both, None)),
            (_, "/v1/me") => Answer::Json(200, json!({"user_id": "user_x", "user": "ann", "token_id": "tok_x", "scopes": ["project"], "expires_at": "2099-01-01T00:00:00.000Z"})),
            _ => {
                let found = both.iter().find(|one| path.ends_with(one["id"].as_str().expect("an id")));
                let one = found.or_else(|| allocations.iter().find(|one| path.ends_with(one["id"].as_str().expect("an id"))));
                one.map_or_else(
                    || Answer::Json(404, json!({"error": {"code": "not_found", "message": "there is none"}})),
                    |one| Answer::Json(200, one.clone()),
                )
            }
        }
    })
    .await
}

fn last(server: &Server) -> (String, Value) {
    let asked = server.asked().pop().expect("asked");
    (asked.path, asked.body)
}

async fn works(home: &Home, server: &Server, words: &[&str]) -> Said {
    let said = gpuaas(words).at(&server.url).run(home).await;
    assert_eq!(said.exit, 0, "{words:?}: {said:?}");
    said
}

const CREATE: [&str; 4] = ["allocation", "create", "--sku", "slice.h100.1"];
const LIST: [&str; 2] = ["allocation", "list"];

#[tokio::test]
async fn the_chosen_project_is_meant_where_none_is_said() {
    let (home, demo, lab) = (Home::new(), ProjectId::new(), ProjectId::new());
    let server = server(demo, lab, vec![]).await;
    let written =
        "# mine\n[profile.default] # this one\noutput = \"tsv\"\n\n[profile.lab]\nurl = \"https://lab.example\"\n";
    home.write("config.toml", written);
    works(&home, &server, &CREATE).await;
    assert_eq!(last(&server).1["project"], Value::Null);

    let said = works(&home, &server, &["project", "use", "demo"]).await;
    assert!(said.out.contains(&demo.to_string()), "{said:?}");
    let kept = std::fs::read_to_string(home.path().join("config.toml")).expect("kept");
    let added = format!("output = \"tsv\"\nproject = \"{demo}\"\n");
    assert_eq!(
        kept,
        written.replace("output = \"tsv\"\n", &added),
        "nothing else is touched"
    );

    works(&home, &server, &CREATE).await;
    assert_eq!(last(&server).1["project"], json!(demo));
    works(&home, &server, &LIST).await;
    assert!(
        last(&server).0.contains(&format!("project={demo}")),
        "{:?}",
        last(&server)
    );
    works(&home, &server, &[&LIST[..], &["--all-projects"]].concat()).await;
    assert!(!last(&server).0.contains("project="), "{:?}", last(&server));

    // The environment before the profile, a flag before both.
    let said = gpuaas(&CREATE)
        .at(&server.url)
        .var("GPUAAS_PROJECT", "lab")
        .run(&home)
        .await;
    assert_eq!(
        (said.exit, last(&server).1["project"].clone()),
        (0, json!(lab)),
        "{said:?}"
    );
    let words = [&CREATE[..], &["--project", "demo"]].concat();
    let said = gpuaas(&words)
        .at(&server.url)
        .var("GPUAAS_PROJECT", "lab")
        .run(&home)
        .await;
    assert_eq!(
        (said.exit, last(&server).1["project"].clone()),
        (0, json!(demo)),
        "{said:?}"
    );

    let said = works(&home, &server, &["auth", "status"]).await;
    assert!(
        said.err.contains(&format!("project {demo} from profile default")),
        "{said:?}"
    );
    let said = works(&home, &server, &["config", "show", "-o", "tsv"]).await;
    assert!(
        said.out.contains(&format!("project\t{demo}\tprofile default\n")),
        "{said:?}"
    );

    works(&home, &server, &["project", "use", "--none"]).await;
    let kept = std::fs::read_to_string(home.path().join("config.toml")).expect("kept");
    assert_eq!(kept, written);
    works(&home, &server, &CREATE).await;
    assert_eq!(last(&server).1["project"], Value::Null);
}

#[tokio::test]
async fn a_choice_that_leads_nowhere_says_where_it_comes_from() {
    let (home, demo) = (Home::new(), ProjectId::new());
    let server = server(demo, ProjectId::new(), vec![]).await;
    let said = gpuaas(&CREATE)
        .at(&server.url)
        .var("GPUAAS_PROJECT", "gone")
        .run(&home)
        .await;
    assert_eq!(said.exit, 3, "{said:?}");
    assert!(
        said.err.contains("no project \"gone\" (from env GPUAAS_PROJECT)"),
        "{said:?}"
    );
    let said = gpuaas(&["project", "use", "gone"]).at(&server.url).run(&home).await;
    assert_eq!(said.exit, 3, "{said:?}");
    let other = ProjectId::new().to_string();
    let said = gpuaas(&["project", "use", &other]).at(&server.url).run(&home).await;
    assert_eq!(said.exit, 3, "{said:?}");
    assert!(
        !home.path().join("config.toml").exists(),
        "what is not there is not kept"
    );
    let line = gpuaas(&["project", "use", "demo"]).at(&server.url);
    let said = line.var("GPUAAS_PROJECT", "lab").run(&home).await;
    assert!(said.exit == 0 && said.err.contains("unset GPUAAS_PROJECT"), "{said:?}");
    let kept = std::fs::read_to_string(home.path().join("config.toml")).expect("kept");
    assert_eq!(kept, format!("[profile.default]\nproject = \"{demo}\"\n"));
}

#[tokio::test]
async fn an_allocation_that_lives_has_the_name() {
    let one =
        |id: &str, state: &str| json!({"id": format!("alloc_0000000000000000000{id}"), "name": "mine", "state": state});
    let (live, old, older) = (
        one("0000ab1", "active"),
        one("0000ab2", "released"),
        one("0000ab3", "failed"),
    );
    let home = Home::new();
    let all = vec![old.clone(), live.clone(), older.clone()];
    let server = server(ProjectId::new(), ProjectId::new(), all).await;
    let said = works(&home, &server, &["allocation", "show", "mine", "-o", "name"]).await;
    assert_eq!(said.out.trim_end(), live["id"]);
    // Whoever gives an id means it, however it ended.
    let said = works(&home, &server, &["allocation", "show", "0000ab2", "-o", "name"]).await;
    assert_eq!(said.out.trim_end(), old["id"]);
    // Nobody guesses which of the ended ones.
    let ended = self::server(ProjectId::new(), ProjectId::new(), vec![old, older]).await;
    let said = gpuaas(&["allocation", "show", "mine"]).at(&ended.url).run(&home).await;
    assert!(said.exit == 2 && said.err.contains("error[id_ambiguous]"), "{said:?}");
}

#[tokio::test]
async fn the_last_word_on_waiting_counts() {
    let (home, server) = (Home::new(), server(ProjectId::new(), ProjectId::new(), vec![]).await);
    for more in [&["--no-wait"][..], &["--wait", "--no-wait"]] {
        let said = works(&home, &server, &[&CREATE[..], more].concat()).await;
        assert!(said.out.contains("alloc_"), "{said:?}");
        assert!(!server.asked().iter().any(|asked| asked.path.contains("changed_since")));
    }
}
