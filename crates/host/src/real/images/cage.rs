//! A cage for programs that read what a stranger made: they can open the libraries of the host, one file to read and
//! one to write, and nothing else, whatever the bytes tell them. It is the kernel that refuses, and it holds for a
//! thread and its children; so the program is started from a thread of its own.

use std::fs::File;
use std::os::fd::AsFd;
use std::thread;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus,
};
use model::signal::Code;

use crate::real::operations::Group;
use crate::{Error, Result};

/// Programs and what they load.
const LIBRARIES: [&str; 4] = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache"];

pub(super) struct Cage<'a> {
    reads: &'a File,
    writes: Option<&'a File>,
}

impl<'a> Cage<'a> {
    pub(super) fn new(reads: &'a File, writes: Option<&'a File>) -> Self {
        Self { reads, writes }
    }

    /// What `start` starts is in the cage. Without a cage nothing is started.
    pub(super) fn run<T: Send>(&self, start: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let group = Group::current();
        thread::scope(|scope| {
            let caged = scope.spawn(|| {
                Group::take_thread(group);
                self.enter().map_err(|error| broken(&error.to_string()))?;
                start()
            });
            caged.join().unwrap_or_else(|_| Err(broken("its thread panicked")))
        })
    }

    fn enter(&self) -> std::result::Result<(), RulesetError> {
        // What the first version of the interface could deny; a kernel without it is no host for images.
        let abi = ABI::V1;
        let read: BitFlags<AccessFs> = AccessFs::ReadFile.into();
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(abi))?
            .create()?
            .add_rule(PathBeneath::new(self.reads.as_fd(), read))?;
        if let Some(writes) = self.writes {
            rules = rules.add_rule(PathBeneath::new(writes.as_fd(), read | AccessFs::WriteFile))?;
        }
        if let Ok(nothing) = PathFd::new("/dev/null") {
            rules = rules.add_rule(PathBeneath::new(nothing, read | AccessFs::WriteFile))?;
        }
        for path in LIBRARIES {
            let Ok(fd) = PathFd::new(path) else { continue };
            let access = if path.starts_with("/etc") {
                read
            } else {
                AccessFs::from_read(abi)
            };
            rules = rules.add_rule(PathBeneath::new(fd, access))?;
        }
        let status = rules.restrict_self()?;
        match status.ruleset {
            RulesetStatus::FullyEnforced => Ok(()),
            RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
                unreachable!("a hard requirement is met or fails")
            }
        }
    }
}

fn broken(why: &str) -> Error {
    Error::Slice {
        code: Code::ImageRefused,
        subject: "the kernel's landlock".to_owned(),
        why: why.to_owned(),
    }
}
