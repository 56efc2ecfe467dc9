//! What can go wrong on a host, with the culprit in the type and a stable code for each.

use std::io;

use model::signal::Code;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name belongs to somebody else, and nothing was touched.
    #[error("the account {name} is not ours: {why}")]
    UserRefused { name: String, why: String },
    /// The uid or gid belongs to somebody else, and nothing was touched.
    #[error("uid {uid} belongs to {holder}")]
    UidRefused { uid: u32, holder: String },
    /// A device or disk that cannot be used, reset or written as asked; the code says in which way.
    #[error("{subject}: {why}")]
    Device { code: Code, subject: String, why: String },
    /// A slice, its lease, its image, its network or its VM cannot be had as asked; the code says in which way.
    #[error("{subject}: {why}")]
    Slice { code: Code, subject: String, why: String },
    #[error("still there after removal: {}", listed(left, seen))]
    AbsenceNotProved { left: Vec<&'static str>, seen: Vec<String> },
    #[error("{program} ended with {status}: {stderr}")]
    Program {
        program: &'static str,
        status: String,
        stderr: String,
    },
    #[error("{program} did not end within {limit_ms} ms and was killed")]
    ProgramTimeout { program: &'static str, limit_ms: u128 },
    /// Something that we wait for did not happen.
    #[error("{what} took longer than {limit_s} s")]
    Timeout { what: &'static str, limit_s: u64 },
    #[error("the host has no group {group}")]
    GroupMissing { group: &'static str },
    #[error("cannot {doing}")]
    Io { doing: String, source: io::Error },
    /// A file of the host does not look as its documentation says.
    #[error("cannot read {path}: {why}")]
    Unreadable { path: String, why: &'static str },
    /// Only on the pretend host.
    #[error("the fuse blew at {verb}")]
    Fuse { verb: &'static str },
}

impl Error {
    pub fn code(&self) -> Code {
        match self {
            Error::UserRefused { .. } => Code::UserRefused,
            Error::UidRefused { .. } => Code::UidRefused,
            Error::Device { code, .. } | Error::Slice { code, .. } => *code,
            Error::AbsenceNotProved { .. } => Code::AbsenceNotProved,
            Error::ProgramTimeout { .. } | Error::Timeout { .. } => Code::HostCommandTimeout,
            Error::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => Code::DiskFull,
            Error::Program { .. }
            | Error::GroupMissing { .. }
            | Error::Io { .. }
            | Error::Unreadable { .. }
            | Error::Fuse { .. } => Code::HostCommandFailed,
        }
    }
}

fn listed(left: &[&'static str], seen: &[String]) -> String {
    let kinds = left.join(", ");
    if seen.is_empty() {
        kinds
    } else {
        format!("{kinds} ({})", seen.join(", "))
    }
}

/// Names what was being done when a system call failed.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::Io {
            doing: what(),
            source: source.into(),
        })
    }
}
