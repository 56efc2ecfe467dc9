//! The command line against the real server: what an operator types, in the three shapes of output and with the exit
//! codes that scripts rely on.

use cli::{Env, Tty};
use dev::town::Town;
use host::pretend::Profile;
use model::state::{NodeState, TaskState};
use serde_json::Value;

use crate::EXE;
use crate::puppet::Puppet;

const TERMINAL: Tty = Tty {
    stdin: true,
    stdout: true,
    stderr: true,
};

#[derive(Debug)]
struct Said {
    exit: u8,
    out: String,
    err: String,
}

impl Said {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The cells of the one line that names this.
    fn cells(&self, name: &str) -> Vec<&str> {
        let line = self.out.lines().find(|line| line.contains(name));
        line.unwrap_or_else(|| panic!("no {name} in {self:?}"))
            .split('\t')
            .collect()
    }
}

/// An operator with nothing but a URL and a token.
struct Operator {
    url: String,
    token: String,
    home: String,
}

impl Operator {
    fn new(town: &Town) -> Self {
        let api = town.api();
        Self {
            url: api.url().to_owned(),
            token: api.token().to_owned(),
            home: town.dir().display().to_string(),
        }
    }

    async fn types(&self, words: &str) -> Said {
        self.at(words, Tty::default()).await
    }

    async fn sees(&self, words: &str) -> Said {
        self.at(words, TERMINAL).await
    }

    async fn at(&self, words: &str, tty: Tty) -> Said {
        let vars = [
            ("GPUAAS_URL", self.url.as_str()),
            ("GPUAAS_TOKEN", &self.token),
            ("HOME", &self.home),
            ("NO_COLOR", "1"),
        ];
        let (env, captured) = Env::captured(vars);
        let words: Vec<&str> = ["gpuaas"].into_iter().chain(words.split(' ')).collect();
        let exit = cli::run(words, env.with_tty(tty)).await;
        Said {
            exit,
            out: captured.stdout(),
            err: captured.stderr(),
        }
    }

    /// And it works.
    async fn does(&self, words: &str) -> Said {
        let said = self.types(words).await;
        assert_eq!(said.exit, 0, "{words}: {said:?}");
        said
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_lets_a_node_in_looks_at_it_and_takes_it_out() {
    let town = Town::start(EXE).await;
    let (node, mut running) = town.node("sim-a", Profile::H100x8).await;
    let ada = Operator::new(&town);

    let table = ada.sees("node list").await;
    assert!(table.out.contains("sim-a (SIMULATED)"), "{table:?}");
    let tsv = ada.does("node list").await;
    assert_eq!(tsv.cells("sim-a")[0], node.to_string(), "whole ids in a pipe");
    assert_eq!(
        tsv.cells("sim-a").last(),
        Some(&"true"),
        "and simulated says so: {tsv:?}"
    );
    assert_eq!(
        ada.does("node list -o json").await.json()["items"][0]["simulated"],
        true
    );
    assert_eq!(ada.does("node list -o name").await.out.trim(), node.to_string());
    assert!(ada.does("node show sim-a").await.out.contains("simulated\ttrue"));

    let probed = ada.does("node probe sim-a").await;
    for word in ["queued", "succeeded"] {
        assert!(probed.out.contains(word), "{word} in {probed:?}");
    }
    let tail = &node.to_string()[node.to_string().len() - 6..];
    let asked = ada.does(&format!("node probe {tail} --no-wait -o json")).await.json();
    let task = asked["id"].as_str().expect("an id").to_owned();
    ada.does(&format!("task show {task} --wait")).await;
    assert_eq!(
        ada.does("task list --node sim-a").await.cells(&task).last(),
        Some(&"true")
    );
    assert!(ada.sees("task list").await.out.contains("sim-a (SIMULATED)"));
    assert_eq!(
        ada.does(&format!("task show {task} --json")).await.json()["simulated"],
        true
    );
    assert!(ada.does("task types").await.out.contains("allocation.deprovision_user"));

    assert!(ada.does("node mode sim-a slice").await.out.contains("slice"));
    assert_eq!(
        ada.types("node quarantine sim-a --reason smoke").await.exit,
        2,
        "off a terminal it wants --yes"
    );
    ada.does("node quarantine sim-a --reason smoke --yes").await;
    let refused = ada.types("node probe sim-a").await;
    assert!(
        refused.exit == 1 && refused.err.starts_with("error[node_quarantined]"),
        "{refused:?}"
    );
    ada.does("node unquarantine sim-a --reason aired").await;
    assert_eq!(
        ada.types("node unquarantine sim-a").await.exit,
        5,
        "it is not quarantined"
    );
    town.until_node(node, NodeState::Ready).await;

    let certificates = ada.does("node cert sim-a").await;
    let serial = certificates.cells("\tworking\t")[0].to_owned();
    ada.does(&format!("node cert sim-a --revoke {serial} --reason lost --yes"))
        .await;
    assert_eq!(
        ada.types(&format!("node cert sim-a --revoke {serial} --reason lost --yes"))
            .await
            .exit,
        3
    );
    running.stop();
    ada.does("node remove sim-a --reason sold --yes").await;
    assert_eq!(ada.types("node show sim-a").await.exit, 3, "gone");
    assert!(ada.does("node list").await.out.is_empty());
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_audit_and_exit_codes_are_what_scripts_rely_on() {
    let town = Town::start(EXE).await;
    let ada = Operator::new(&town);
    let enrolled = ada.does("node enroll gpu-07 --mode slice -o json").await.json();
    assert!(
        enrolled["command"]
            .as_str()
            .is_some_and(|c| c.contains("gpuaas-node-executor enroll"))
    );
    let again = ada.does("node enroll gpu-07").await;
    assert!(again.err.contains("raises its epoch"), "{again:?}");
    assert_eq!(ada.types("node probe gpu-07").await.exit, 5, "no host has called yet");

    let made = ada.does("token create ci --scope auditor").await;
    let (id, secret) = made.out.trim().split_once('\t').expect("id and secret");
    let auditor = Operator {
        token: secret.to_owned(),
        ..Operator::new(&town)
    };
    auditor.does("node list").await;
    let refused = auditor.types("node remove gpu-07 --reason mine --yes").await;
    assert!(
        refused.exit == 1 && refused.err.starts_with("error[forbidden]"),
        "{refused:?}"
    );
    assert!(ada.does("token list").await.out.contains(id));
    ada.does(&format!("token remove {id} --yes")).await;
    assert_eq!(
        auditor.types("node list").await.exit,
        4,
        "a revoked token wants a login"
    );
    let stranger = Operator {
        token: "gpt_nobody".to_owned(),
        ..Operator::new(&town)
    };
    assert_eq!(stranger.types("node list").await.exit, 4);

    assert_eq!(ada.types("node show nobody").await.exit, 3);
    assert_eq!(ada.types("node show task_000000").await.exit, 2, "another kind of id");
    ada.does("token create twin --scope admin").await;
    ada.does("token create twin --scope admin").await;
    let ambiguous = ada.types("token remove twin --yes").await;
    assert!(
        ambiguous.exit == 2 && ambiguous.err.matches("tok_").count() >= 2,
        "{ambiguous:?}"
    );

    let rows = ada.does("audit list --action token.create").await;
    assert_eq!(rows.out.lines().count(), 4, "three, and the first of all: {rows:?}");
    ada.does("audit verify").await;
    let explained = ada.does("explain node_quarantined").await;
    assert!(!explained.out.is_empty());
    assert_eq!(ada.types("explain no_such_code").await.exit, 2);
    assert!(ada.does("version").await.out.contains(env!("CARGO_PKG_VERSION")));
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_cancelled_by_hand() {
    let town = Town::tuned(EXE, |config| {
        config.wait_hold_s = 2;
        config.probe_every_s = 1_000_000;
    });
    let town = town.await;
    let node = Puppet::ready(&town, "slow").await;
    let ada = Operator::new(&town);
    let asked = ada.does("node probe slow --no-wait -o json").await.json();
    let task = asked["id"].as_str().expect("an id").to_owned();
    let timed_out = ada.types("node probe slow --timeout 1s").await;
    assert_eq!(timed_out.exit, 6, "nobody answers: {timed_out:?}");
    assert_eq!(
        ada.types(&format!("task cancel {task}")).await.exit,
        2,
        "off a terminal it wants --yes"
    );
    let cancelled = ada.does(&format!("task cancel {task} --yes")).await;
    assert_eq!(cancelled.cells(&task)[1], "cancelled");
    assert_eq!(
        ada.types(&format!("task cancel {task} --yes")).await.exit,
        5,
        "it has ended"
    );
    assert_eq!(
        ada.types(&format!("task show {task} --wait")).await.exit,
        1,
        "and did not succeed"
    );
    town.until_task(task.parse().expect("an id"), |state| state == TaskState::Cancelled)
        .await;
    assert!(node.offered().await.tasks.is_empty());
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_signing_keys_are_shown_replaced_and_revoked() {
    let town = Town::start(EXE).await;
    let operator = Operator::new(&town);
    let shown = operator.types("trust show").await;
    assert_eq!((shown.exit, shown.out.lines().count()), (0, 10), "{shown:?}");
    let diag: Vec<String> = shown.cells("diag").iter().map(ToString::to_string).collect();
    assert_eq!((diag[0].as_str(), diag[2].as_str()), ("diag", "active"));

    let rotated = operator.types("trust rotate diag").await;
    assert_eq!(rotated.exit, 0, "{rotated:?}");
    assert_ne!(rotated.cells("diag")[1], diag[1]);
    let nobodys = operator.types("trust revoke 0123456789 --reason gone").await;
    assert_eq!(nobodys.exit, 3, "{nobodys:?}");

    let keyid = rotated.cells("diag")[1].to_owned();
    let prefix = keyid.get(..8).expect("an id");
    let asked = operator.types(&format!("trust revoke {prefix} --reason gone")).await;
    assert_eq!(asked.exit, 2, "nobody is there to ask: {asked:?}");
    let revoked = operator
        .types(&format!("trust revoke {prefix} --reason lost --yes --json"))
        .await;
    assert_eq!(revoked.exit, 0, "{revoked:?}");
    let keys = revoked.json()["keys"].clone();
    let keys = keys.as_array().expect("keys");
    let status = |id: &str| {
        keys.iter()
            .find(|key| key["keyid"] == id)
            .map(|key| key["status"].clone())
    };
    assert_eq!(status(&keyid), Some("revoked".into()));
    let again = operator
        .types(&format!("trust revoke {keyid} --reason lost --yes"))
        .await;
    assert_eq!(again.exit, 5, "{again:?}");
    let person = operator.sees("trust show").await;
    assert!(
        person.out.contains("manifest_ends") && person.out.contains("KNOWN_BY"),
        "{person:?}"
    );
    town.end().await;
}
