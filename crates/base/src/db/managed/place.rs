//! The cluster's directory: `data` and `sock`, closed to all but the account that the cluster runs as; the log, ours;
//! and a lock that says who is using it. The lock goes with the process that holds it, however that ends.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::account::{Account, Runner};
use super::find::Programs;
use super::{ManagedError, SUPERUSER};

/// The kernel's limit on a socket's path, less what PostgreSQL appends.
const SOCKET_PATH_MOST: usize = 107 - "/.s.PGSQL.5432".len();
const LOG_MOST: u64 = 16 * 1024 * 1024;
const TAIL: u64 = 2000;

#[derive(Debug)]
pub(super) struct Place {
    pub(super) data: PathBuf,
    pub(super) sock: PathBuf,
    pub(super) log: PathBuf,
    /// Held open: the lock is ours until it is closed.
    _lock: File,
}

impl Place {
    pub(super) fn prepare(dir: &Path, account: &Account) -> Result<Self, ManagedError> {
        fs::create_dir_all(dir).map_err(ManagedError::file(dir))?;
        let dir = &dir.canonicalize().map_err(ManagedError::file(dir))?;
        let lock = lock(dir)?;
        reachable(dir, account)?;
        // The directory itself and the log stay ours: the cluster's user may pass, but not put a link of its own in the
        // way of a file that we open as root.
        let mode = if account.drop { 0o711 } else { 0o700 };
        own(dir, &Account::ours(), mode)?;
        private_dir(&dir.join("sock"), account)?;
        private_dir(&dir.join("log"), &Account::ours())?;
        let mut sock = dir.join("sock");
        if sock.as_os_str().as_bytes().len() > SOCKET_PATH_MOST {
            sock = short_socket_dir(dir);
            private_dir(&sock, account)?;
        }
        Ok(Self {
            data: dir.join("data"),
            sock,
            log: dir.join("log/postgres.log"),
            _lock: lock,
        })
    }

    /// The major version of the data that is here already.
    pub(super) fn data_major(&self) -> Result<Option<String>, ManagedError> {
        let path = self.data.join("PG_VERSION");
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ManagedError::File {
                path: path.display().to_string(),
                source,
            }),
        }
    }

    /// Opened for appending; a long one is put aside first.
    pub(super) fn open_log(&self) -> Result<File, ManagedError> {
        if fs::metadata(&self.log).is_ok_and(|meta| meta.len() > LOG_MOST) {
            fs::rename(&self.log, self.log.with_extension("log.1")).map_err(ManagedError::file(&self.log))?;
        }
        let open = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.log);
        open.map_err(ManagedError::file(&self.log))
    }

    /// The last lines of the log, as one.
    pub(super) fn log_tail(&self) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(&self.log)?;
            let from = file.metadata()?.len().saturating_sub(TAIL);
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            file.take(TAIL).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes)
                .lines()
                .rev()
                .take(5)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect::<Vec<_>>()
                .join("; "))
        };
        read().unwrap_or_else(|error| format!("{}: {error}", self.log.display()))
    }
}

fn lock(dir: &Path) -> Result<File, ManagedError> {
    let path = dir.join("lock");
    let mut open = OpenOptions::new();
    open.create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    let file = open.open(&path).map_err(ManagedError::file(&path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ManagedError::AlreadyRunning {
            dir: dir.display().to_string(),
        }),
        Err(errno) => Err(ManagedError::file(&path)(errno.into())),
    }
}

/// Can the account come here? Root's own home, for one, lets nobody through.
fn reachable(dir: &Path, account: &Account) -> Result<(), ManagedError> {
    for parent in dir.ancestors().skip(1) {
        let meta = fs::metadata(parent).map_err(ManagedError::file(parent))?;
        let bit = if meta.uid() == account.uid {
            0o100
        } else if meta.gid() == account.gid {
            0o010
        } else {
            0o001
        };
        if account.drop && meta.mode() & bit == 0 {
            return Err(ManagedError::NotReachable {
                user: account.name.clone(),
                dir: parent.display().to_string(),
            });
        }
    }
    Ok(())
}

fn own(dir: &Path, account: &Account, mode: u32) -> Result<(), ManagedError> {
    if rustix::process::geteuid().is_root() {
        chown(dir, Some(account.uid), Some(account.gid)).map_err(ManagedError::file(dir))?;
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(mode)).map_err(ManagedError::file(dir))
}

fn private_dir(dir: &Path, account: &Account) -> Result<(), ManagedError> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        // A link, or in a shared place somebody else's directory, under our name would be a trap.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let meta = fs::symlink_metadata(dir).map_err(ManagedError::file(dir))?;
            let euid = rustix::process::geteuid();
            if !meta.is_dir() || !(euid.is_root() || meta.uid() == euid.as_raw()) {
                return Err(ManagedError::file(dir)(error));
            }
        }
        Err(error) => return Err(ManagedError::file(dir)(error)),
    }
    own(dir, account, 0o700)
}

/// A short name for a long place, always the same one.
fn short_socket_dir(dir: &Path) -> PathBuf {
    let digest = model::digest::Sha256::of(dir.as_os_str().as_bytes()).to_string();
    let uid = rustix::process::geteuid();
    let user = PathBuf::from(format!("/run/user/{}", uid.as_raw()));
    let base = match () {
        () if uid.is_root() => PathBuf::from("/run"),
        () if user.is_dir() => user,
        () => PathBuf::from("/tmp"),
    };
    base.join(format!("gpuaas-pg-{}", &digest[..16]))
}

/// Makes the cluster beside its place and moves it there when it is whole, so that a kill leaves no half of one.
pub(super) fn ensure_cluster(
    place: &Place,
    programs: &Programs,
    runner: &Runner,
    durable: bool,
) -> Result<(), ManagedError> {
    if place.data.join("PG_VERSION").exists() {
        return Ok(());
    }
    let fresh = place.data.with_extension("new");
    if fresh.exists() {
        fs::remove_dir_all(&fresh).map_err(ManagedError::file(&fresh))?;
    }
    private_dir(&fresh, runner.account())?;
    let mut initdb = runner.command(programs, "initdb");
    initdb.arg("-D").arg(&fresh).args([
        "-U",
        SUPERUSER,
        "--auth-local=trust",
        "--auth-host=reject",
        "-E",
        "UTF8",
        "--locale=C",
    ]);
    if !durable {
        initdb.arg("--no-sync");
    }
    runner.run(&mut initdb, "initdb")?;
    fs::rename(&fresh, &place.data).map_err(ManagedError::file(&place.data))?;
    let parent = place.data.parent().unwrap_or(&place.data);
    File::open(parent)
        .and_then(|dir| dir.sync_all())
        .map_err(ManagedError::file(parent))
}
