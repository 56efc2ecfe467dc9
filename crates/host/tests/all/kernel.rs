//! A generated tree in a directory of its own, and somebody who plays the kernel for it: what is written takes effect before the write returns, as it
//! does on a real one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host::pretend::{Hardware, Pretend, Profile, tree};
use host::real::KernelWriter;

use crate::facts::Scratch;

/// Goes away with its directory.
pub(crate) struct Tree {
    pub(crate) dir: Scratch,
    pub(crate) hardware: Hardware,
}

impl Tree {
    pub(crate) fn of(name: &str, profile: Profile) -> Self {
        Self::with(name, profile, |_| ())
    }

    pub(crate) fn with(name: &str, profile: Profile, change: impl FnOnce(&mut Hardware)) -> Self {
        let machine = Pretend::in_memory(profile);
        machine.meddle(|state| change(&mut state.hardware));
        let (dir, hardware) = (Scratch::new(name), machine.snapshot().hardware);
        tree::grow(&hardware, &dir.0).expect("it grows");
        Self { dir, hardware }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.dir.0
    }
}

/// What happens at a reset besides nothing.
pub(crate) type AtReset = fn(home: &Path) -> Option<String>;

#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) root: PathBuf,
    pub(crate) at_reset: AtReset,
    /// Every write, in order: file name and text.
    pub(crate) heard: Arc<Mutex<Vec<(String, String)>>>,
    /// And how long each could have taken.
    pub(crate) limits: Arc<Mutex<Vec<(String, Duration)>>>,
}

impl Kernel {
    pub(crate) fn of(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            at_reset: |_| None,
            heard: Arc::default(),
            limits: Arc::default(),
        }
    }

    pub(crate) fn heard(&self) -> Vec<(String, String)> {
        self.heard.lock().expect("nobody panicked").clone()
    }
}

impl KernelWriter for Kernel {
    fn write(&self, path: &Path, text: &str, limit: Duration) -> host::Result<Option<String>> {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        self.heard
            .lock()
            .expect("nobody panicked")
            .push((name.clone(), text.to_owned()));
        self.limits.lock().expect("nobody panicked").push((name.clone(), limit));
        let pci = self.root.join("sys/bus/pci");
        match name.as_str() {
            "drivers_probe" => {
                let home = pci.join("devices").join(text);
                let driver = fs::read_to_string(home.join("driver_override")).expect("an override");
                symlink(format!("../../../bus/pci/drivers/{driver}"), home.join("driver")).expect("bound");
            }
            "unbind" => fs::remove_file(pci.join("devices").join(text).join("driver")).expect("unbound"),
            "reset" => return Ok((self.at_reset)(path.parent().expect("a directory"))),
            _ => fs::write(path, text).expect("write"),
        }
        Ok(None)
    }
}
