//! The grammar: sound by clap's own check, the same for every reader of `golden/help.txt`, and complete for shells.

use crate::town::{Home, gpuaas};

#[test]
fn the_grammar_is_sound() {
    cli::grammar().debug_assert();
}

/// All commands by their words, depth first.
fn commands(command: &clap::Command, path: &[String], found: &mut Vec<Vec<String>>) {
    found.push(path.to_vec());
    for below in command.get_subcommands().filter(|c| c.get_name() != "help") {
        let mut path = path.to_vec();
        path.push(below.get_name().to_owned());
        commands(below, &path, found);
    }
}

/// `UPDATE=1` writes the file anew; a person reads the difference.
#[tokio::test]
async fn every_help_page_is_as_agreed() {
    let home = Home::new();
    let mut paths = Vec::new();
    commands(&cli::grammar(), &[], &mut paths);
    let mut book = String::new();
    for path in paths {
        let mut words: Vec<&str> = path.iter().map(String::as_str).collect();
        words.push("--help");
        let said = gpuaas(&words).run(&home).await;
        assert_eq!((said.exit, said.err.as_str()), (0, ""), "{words:?}");
        book.push_str(&format!("$ gpuaas {}\n{}\n", words.join(" "), said.out));
    }
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/help.txt");
    if crate::process::update() {
        std::fs::write(golden, &book).expect("writable");
    }
    let agreed = std::fs::read_to_string(golden).unwrap_or_default();
    assert!(
        book == agreed,
        "help has changed; UPDATE=1 cargo test -p cli rewrites {golden}"
    );
}

/// Whatever a reader copies from the README is understood, flags and all.
#[test]
fn every_command_of_the_readme_is_there() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let text = std::fs::read_to_string(readme).expect("a README");
    let lines = text.split("```").skip(1).step_by(2).flat_map(str::lines);
    let typed = |line: &str| {
        let line = line.trim_start_matches("target/debug/").split(" #").next()?.to_owned();
        line.starts_with("gpuaas ").then_some(line)
    };
    let typed: Vec<String> = lines.filter_map(typed).collect();
    assert!(typed.len() > 10, "{typed:?}");
    for line in typed {
        let parsed = cli::grammar().try_get_matches_from(line.split_whitespace());
        assert!(
            parsed.is_ok(),
            "{line}: {}",
            parsed.map(drop).expect_err("not understood")
        );
    }
}

#[tokio::test]
async fn each_shell_gets_its_completion() {
    let home = Home::new();
    for (shell, word) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef gpuaas"),
        ("fish", "complete -c gpuaas"),
    ] {
        let said = gpuaas(&["completion", shell]).run(&home).await;
        assert_eq!(said.exit, 0);
        assert!(said.out.contains(word) && said.out.contains("quarantine"), "{shell}");
    }
    assert_eq!(gpuaas(&["completion", "csh"]).run(&home).await.exit, 2);
}

#[tokio::test]
async fn codes_are_explained_without_a_server() {
    let home = Home::new();
    let said = gpuaas(&["explain", "node_quarantined"]).run(&home).await;
    assert_eq!(said.exit, 0);
    assert!(
        said.out.starts_with("node_quarantined\n") && said.out.contains("what to do"),
        "{}",
        said.out
    );

    let said = gpuaas(&["explain", "node_quarantind"]).run(&home).await;
    assert_eq!((said.exit, said.out.as_str()), (2, ""));
    assert!(said.err.contains("did you mean node_quarantined?"), "{}", said.err);

    let said = gpuaas(&["explain", "-o", "name"]).run(&home).await;
    assert_eq!(said.out.lines().count(), model::signal::Code::ALL.len());
}
