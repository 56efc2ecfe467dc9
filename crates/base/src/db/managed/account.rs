//! As whom the cluster runs. PostgreSQL refuses root, and rightly: as root we run it as `postgres`, else `nobody`;
//! otherwise as ourselves. Every program is told to die with us.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::ManagedError;
use super::find::{Programs, Search};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// We are root and have to become this account.
    pub(super) drop: bool,
}

impl Account {
    /// Whoever we are, root or not.
    pub(super) fn ours() -> Self {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        Self {
            name: "this user".to_owned(),
            uid: uid.as_raw(),
            gid: gid.as_raw(),
            drop: false,
        }
    }

    pub(super) fn for_cluster() -> Result<Self, ManagedError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::ours());
        }
        let passwd = std::path::Path::new("/etc/passwd");
        let text = std::fs::read_to_string(passwd).map_err(ManagedError::file(passwd))?;
        ["postgres", "nobody"]
            .iter()
            .find_map(|name| parse(&text, name))
            .ok_or(ManagedError::Missing)
    }
}

fn parse(passwd: &str, name: &str) -> Option<Account> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let fields: Vec<&str> = line.split(':').collect();
    Some(Account {
        name: name.to_owned(),
        uid: fields.get(2)?.parse().ok()?,
        gid: fields.get(3)?.parse().ok()?,
        drop: true,
    })
}

/// Runs PostgreSQL's programs as the account.
#[derive(Clone, Debug)]
pub(super) struct Runner {
    account: Account,
    setpriv: PathBuf,
}

impl Runner {
    pub(super) fn new(account: Account, search: &Search) -> Result<Self, ManagedError> {
        let setpriv = search.program("setpriv").ok_or(ManagedError::SetprivMissing)?;
        Ok(Self { account, setpriv })
    }

    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// A command that becomes the account, asks to be interrupted when its parent *thread* dies, and then becomes the
    /// program. In this order: a change of credentials clears the parent-death signal. Interrupt is PostgreSQL's fast
    /// shutdown.
    #[expect(
        clippy::disallowed_methods,
        reason = "starts setpriv, which becomes one of PostgreSQL's programs"
    )]
    pub(super) fn command(&self, programs: &Programs, program: &'static str) -> Command {
        let mut command = Command::new(&self.setpriv);
        if self.account.drop {
            command.arg(format!("--reuid={}", self.account.uid));
            command.arg(format!("--regid={}", self.account.gid));
            command.args(["--clear-groups", "--reset-env"]);
        }
        command
            .args(["--pdeathsig", "INT", "--"])
            .arg(programs.dir.join(program));
        command
            .env_clear()
            .env("LC_ALL", "C")
            .current_dir("/")
            .stdin(Stdio::null());
        command
    }

    /// Runs a program to its end.
    pub(super) fn run(&self, command: &mut Command, program: &'static str) -> Result<(), ManagedError> {
        let output = command.output().map_err(ManagedError::file(&self.setpriv))?;
        if output.status.success() {
            return Ok(());
        }
        let text = [output.stderr, output.stdout].concat();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        Err(ManagedError::ProgramFailed {
            program,
            output: lines.join("; "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_found_by_its_whole_name() {
        let passwd =
            "root:x:0:0::/root:/bin/sh\npostgres2:x:7:7::/:/\npostgres:x:114:120:,,,:/var/lib/postgresql:/bin/bash\n";
        assert_eq!(
            parse(passwd, "postgres").map(|account| (account.uid, account.gid)),
            Some((114, 120))
        );
        assert_eq!(parse(passwd, "nobody"), None);
        assert_eq!(parse("postgres:x:", "postgres"), None);
    }
}
