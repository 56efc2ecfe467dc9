//! One process under strace: the calls that change something on disk, as they were made, and one of them made to fail
//! or to be the last. strace counts per thread, and with a path only the calls on that path; so a call is named by its
//! name, its path and its number among those of its thread, and whoever plans has to see that no other thread gets to
//! that number first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Child;

use dev::children::{Program, spawn};

/// Everything that changes a file, a name or a disk.
const MUTATING: &str = "openat,write,pwrite64,writev,pwritev,pwritev2,fsync,fdatasync,sync_file_range,msync,rename,\
renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,mknod,mknodat,ftruncate,truncate,fallocate,link,linkat,symlink,\
symlinkat,chmod,fchmod,fchmodat,chown,fchown,fchownat,lchown,utimensat,setxattr,fsetxattr,copy_file_range,sendfile,bind";

/// What strace itself says, and what it has started.
pub(crate) const SAID: &str = "strace.err";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    Kill,
    Eio,
    Enospc,
}

impl Fault {
    pub(crate) const ALL: [Fault; 3] = [Fault::Kill, Fault::Eio, Fault::Enospc];

    fn action(self) -> &'static str {
        match self {
            Fault::Kill => "signal=KILL",
            Fault::Eio => "error=EIO",
            Fault::Enospc => "error=ENOSPC",
        }
    }
}

/// One call of one thread, among all calls of that name on that path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    pub(crate) call: String,
    /// Below the directory of the run. None: a file without a name.
    pub(crate) path: Option<PathBuf>,
    pub(crate) number: usize,
}

/// A call as it was seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) thread: u32,
    pub(crate) point: Point,
}

/// Where a trace begins: with the program, or with one that already runs.
pub(crate) enum From {
    Start(Vec<String>),
    Running(u32),
}

/// What strace writes down.
pub(crate) struct Trace {
    log: PathBuf,
}

/// Starts strace. What it sees goes to `dir/strace`, what it says to `dir/strace.err`.
pub(crate) fn start(dir: &Path, from: &From, fault: Option<(&Point, Fault)>) -> std::io::Result<(Child, Trace)> {
    let log = dir.join("strace");
    let mut args: Vec<String> = ["-f", "-y", "-e", "signal=none", "-s", "0", "-o"]
        .map(str::to_owned)
        .to_vec();
    args.push(log.display().to_string());
    match fault {
        None => args.extend(["-e".to_owned(), format!("trace={MUTATING}")]),
        Some((point, fault)) => {
            let Point { call, path, number } = point;
            if let Some(path) = path {
                // Without the slash that joining nothing would leave.
                let path: PathBuf = dir.join(path).components().collect();
                args.extend(["-P".to_owned(), path.display().to_string()]);
            }
            args.extend(["-e".to_owned(), format!("trace={call}")]);
            args.extend([
                "-e".to_owned(),
                format!("inject={call}:{}:when={number}", fault.action()),
            ]);
        }
    }
    match from {
        From::Start(program) => {
            // No --seccomp-bpf, though it is faster: with it a signal at a call is never delivered.
            args.extend(["-qq", "--"].map(str::to_owned));
            args.extend(program.iter().cloned());
        }
        From::Running(pid) => args.extend(["-p".to_owned(), pid.to_string()]),
    }
    let program = Program {
        exe: "strace".into(),
        args,
        log: dir.join(SAID),
    };
    Ok((spawn(&program)?, Trace { log }))
}

impl Trace {
    /// Has it got hold of the process that ran before it?
    pub(crate) fn attached(&self) -> bool {
        let said = std::fs::read_to_string(self.log.with_file_name(SAID));
        said.is_ok_and(|said| said.contains(" attached"))
    }

    /// Everything that was seen, in the order in which it began. Read when strace has ended.
    pub(crate) fn seen(&self, dir: &Path) -> Vec<Seen> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        read(&text, dir)
    }

    /// Did the fault happen? A call that was the last one has no answer, and its process was gone before we ended it.
    pub(crate) fn fired(&self, fault: Fault, died: bool) -> bool {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        match fault {
            Fault::Kill => {
                died && text
                    .lines()
                    .any(|line| line.ends_with("= ?") || line.ends_with("<unfinished ...>"))
            }
            Fault::Eio | Fault::Enospc => text.contains("(INJECTED)"),
        }
    }
}

/// Lines are `PID call(args…`; the second half of a call that was interrupted is no call.
fn read(text: &str, dir: &Path) -> Vec<Seen> {
    // By thread, call and path; without a path, all of them.
    let mut counts: BTreeMap<(u32, String, Option<PathBuf>), usize> = BTreeMap::new();
    let mut seen = Vec::new();
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        let (Ok(thread), rest) = (thread.parse::<u32>(), rest.trim_start()) else {
            continue;
        };
        let Some((call, args)) = rest.split_once('(') else {
            continue;
        };
        if !call.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        let paths = paths_of(args, dir);
        let mut count = |path: Option<&PathBuf>| {
            let key = (thread, call.to_owned(), path.cloned());
            *counts.entry(key).and_modify(|count| *count += 1).or_insert(1)
        };
        // A call counts for every path that it touches; the first one names it.
        let all = count(None);
        let numbers: Vec<usize> = paths.iter().map(|path| count(Some(path))).collect();
        // strace does not know a socket by its path, nor a file that has lost its name.
        let nameless = |path: &PathBuf| {
            path.file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(b"#"))
        };
        let named = |path: &&PathBuf| call != "bind" && !nameless(path);
        let path = paths.first().filter(named).cloned();
        let number = path.as_ref().and(numbers.first().copied()).unwrap_or(all);
        if changes(call, args, &paths) {
            let call = call.to_owned();
            seen.push(Seen {
                thread,
                point: Point { call, path, number },
            });
        }
    }
    seen
}

/// The paths below `dir` that a call names, or that its descriptors stand for.
fn paths_of(args: &str, dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let prefix = dir.display().to_string();
    let mut rest = args;
    while let Some(at) = rest.find(&prefix) {
        let after = &rest[at + prefix.len()..];
        let end = after.find(['"', '>']).unwrap_or(after.len());
        match after[..end].strip_prefix('/') {
            // Once, though the answer may name it again.
            Some(below) if found.iter().any(|path| path == Path::new(below)) => {}
            Some(below) => found.push(PathBuf::from(below)),
            None if end == 0 => found.push(PathBuf::new()),
            None => {} // a neighbour whose name begins alike
        }
        rest = &after[end..];
    }
    found
}

fn changes(call: &str, args: &str, paths: &[PathBuf]) -> bool {
    let opens = || {
        ["O_CREAT", "O_TRUNC", "O_TMPFILE"]
            .iter()
            .any(|flag| args.contains(flag))
    };
    !paths.is_empty() && (call != "openat" || opens())
}

#[test]
fn a_trace_is_read_as_it_is_written() {
    let text = r#"71 openat(AT_FDCWD</>, "/d/a", O_RDONLY|O_CLOEXEC) = 3</d/a>
71 openat(AT_FDCWD</>, "/d/a", O_WRONLY|O_CREAT|O_CLOEXEC, 0600) = 3</d/a>
72 pwrite64(3</d/a>, ""..., 99, 0 <unfinished ...>
71 write(2</dev/null>, ""..., 7) = 7
72 <... pwrite64 resumed>) = 99
72 pwrite64(3</d/a>, ""..., 99, 99) = 99
71 write(5<socket:[12]>, ""..., 7) = 7
72 renameat2(AT_FDCWD</>, "/d/b", AT_FDCWD</>, "/d/a", RENAME_EXCHANGE) = 0
71 write(4</d/#77 (deleted)>, ""..., 4) = 4
71 fsync(4</d>) = 0
71 +++ exited with 0 +++
"#;
    let seen = read(text, Path::new("/d"));
    let told: Vec<String> = seen
        .iter()
        .map(|s| {
            let path = s
                .point
                .path
                .as_ref()
                .map_or("?".into(), |path| path.display().to_string());
            format!("{} {} {path} {}", s.thread, s.point.call, s.point.number)
        })
        .collect();
    let expected = [
        "71 openat a 2",
        "72 pwrite64 a 1",
        "72 pwrite64 a 2",
        "72 renameat2 b 1",
        "71 write ? 3",
        "71 fsync  1",
    ];
    assert_eq!(told, expected);
}
