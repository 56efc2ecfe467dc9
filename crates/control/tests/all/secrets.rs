//! The real program with a password in its settings: nothing of it in what it says or in what others see of it, and no
//! core to leave it in.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use base::testing::{TestDb, eventually};

use crate::binary::program;

const PASSWORD: &str = "canary-pa55word-of-the-database";

fn gpuaasd(words: &[&str], config: &Path, log: &Path) -> Child {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(log)
        .expect("a log");
    program()
        .args(words)
        .arg("--config")
        .arg(config)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("the same log"))
        .stderr(log)
        .spawn()
        .expect("the binary runs")
}

struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("nobody else is in there");
    }
}

#[tokio::test]
async fn abuse_45_gpuaasd() {
    let db = TestDb::new().await;
    let place = Place(std::env::temp_dir().join(format!("gpuaasd-{}", db.name())));
    std::fs::create_dir_all(&place.0).expect("a directory");
    let (config, log) = (place.0.join("gpuaasd.toml"), place.0.join("log"));
    let any = "127.0.0.1:0";
    let settings = format!(
        "database_url = {:?}\nstate_dir = {:?}\nlog_filter = \"trace\"\nlog_format = \"json\"\n\
         listen_public = {any:?}\nlisten_node = {any:?}\nlisten_enrol = {any:?}\nlisten_metrics = {any:?}\n",
        format!("{}&password={PASSWORD}", db.app_url()),
        place.0.display().to_string(),
    );
    std::fs::write(&config, settings).expect("a file");
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    let made = gpuaasd(&["trust", "init"], &config, &log).wait().expect("it ends");
    assert!(made.success(), "{}", said());
    let mut running = gpuaasd(&["run", "--all"], &config, &log);
    let of = |what: &str| format!("/proc/{}/{what}", running.id());
    let (limits, line, environment) = (of("limits"), of("cmdline"), of("environ"));
    eventually("it listens", async || match said() {
        text if text.contains("listening") => Ok(()),
        text => Err(text),
    })
    .await;
    let limits = std::fs::read_to_string(limits).expect("it runs");
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .expect("a limit");
    let numbers: Vec<&str> = core.split_whitespace().skip(4).take(2).collect();
    let seen = [line, environment].map(|path| std::fs::read(path).expect("it runs"));
    running.kill().expect("it runs");
    running.wait().expect("it ends");
    assert_eq!(numbers, ["0", "0"], "{core}");
    for text in seen.iter().map(|bytes| String::from_utf8_lossy(bytes)) {
        assert!(!text.contains(PASSWORD), "{text}");
    }
    let text = said();
    assert!(text.lines().count() > 10 && !text.contains(PASSWORD), "{text}");
}
