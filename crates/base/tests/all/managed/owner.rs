//! A process that owns a cluster and can be killed: this very test program, asked to play that part.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use base::db::managed::{Managed, Options};

pub(crate) struct Owner {
    child: Child,
    pub(crate) owner_url: String,
}

impl Owner {
    /// Starts a process that starts a cluster in `dir`; as an ordinary user even if we are root, when asked.
    #[expect(clippy::disallowed_methods, reason = "starts this test program again, to be killed")]
    pub(crate) fn start(dir: &Path, ordinary: bool) -> Self {
        let mut program = std::env::current_exe().expect("this program has a path");
        let mut command = if ordinary && rustix::process::geteuid().is_root() {
            // Build directories are often closed to others.
            let copy = dir.with_file_name("program");
            std::fs::copy(&program, &copy).expect("copies");
            program = copy;
            let mut setpriv = Command::new("setpriv");
            setpriv
                .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
                .arg(&program);
            setpriv
        } else {
            Command::new(&program)
        };
        command.args([
            "--exact",
            "managed::owner::plays_the_owner",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut stdin = child.stdin.take().expect("piped");
        writeln!(stdin, "{}", dir.display()).expect("it listens");
        child.stdin = Some(stdin);
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let url = lines
            .map_while(Result::ok)
            .find_map(|line| line.split("ready ").nth(1).map(str::to_owned));
        Self {
            child,
            owner_url: url.expect("the other process started its cluster; its error is above"),
        }
    }

    pub(crate) fn kill_9(mut self) {
        self.child.kill().expect("may be killed");
        self.child.wait().expect("is gone");
    }
}

#[test]
#[ignore = "a part for another process: it does nothing without a directory on its standard input"]
fn plays_the_owner() {
    let mut lines = std::io::stdin().lines();
    let Some(Ok(dir)) = lines.next() else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let options = Options {
        durable: false,
        ..Options::new(dir, None)
    };
    let managed = runtime.block_on(Managed::start(options)).expect("starts");
    println!("ready {}", managed.owner_url());
    // Until it is killed, or whoever started it has gone.
    drop(lines.next());
    runtime.block_on(managed.stop()).expect("stops");
}
