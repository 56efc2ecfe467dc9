//! The binary's own words: help with every setting and its environment twin, and errors of one line.

use std::process::{Command, Output};

#[expect(clippy::disallowed_methods, reason = "the test runs the binary it is about")]
pub(crate) fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_gpuaasd"));
    program.env_clear();
    program
}

fn gpuaasd(args: &[&str]) -> Output {
    program().args(args).output().expect("the binary runs")
}

#[test]
fn help_shows_every_setting_with_its_environment_twin() {
    let help = String::from_utf8(gpuaasd(&["run", "--help"]).stdout).expect("text");
    for setting in base::config::SETTINGS {
        assert!(
            help.contains(&format!("--{}", setting.flag())),
            "--{} is missing",
            setting.flag()
        );
        assert!(
            help.contains(&format!("[env: {}", setting.variable())),
            "{} is missing",
            setting.variable()
        );
    }
}

#[test]
fn an_unknown_key_is_refused_by_name() {
    let file = std::env::temp_dir().join(format!("gpuaasd-{}.toml", std::process::id()));
    std::fs::write(&file, "heartbeat_stail_s = 50\n").expect("a temporary file");
    let output = gpuaasd(&["config", "--config", &file.display().to_string()]);
    std::fs::remove_file(&file).expect("it was just written");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(
        !output.status.success() && said.contains("heartbeat_stail_s") && said.lines().count() == 1,
        "{said}"
    );
}

#[test]
fn without_a_database_it_says_so_in_one_line() {
    let output = gpuaasd(&["trust", "init", "--state-dir", "/nonexistent"]);
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(
        !output.status.success() && said.contains("database") && said.lines().count() == 1,
        "{said}"
    );
}

#[test]
fn the_reference_configuration_is_one_that_it_takes() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/gpuaasd.toml");
    let output = gpuaasd(&["config", "--config", file]);
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        said.contains("node-api.internal") && !said.contains("gpuaas_owner@db"),
        "{said}"
    );
}
