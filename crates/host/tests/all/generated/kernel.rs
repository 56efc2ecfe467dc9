//! Somebody who plays the kernel for a generated tree: what is written takes effect before the write returns, as it
//! does on a real one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use host::real::KernelWriter;

/// What happens at a reset besides nothing.
pub(crate) type AtReset = fn(home: &Path) -> Option<String>;

#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) root: PathBuf,
    pub(crate) at_reset: AtReset,
    /// Every write, in order: file name and text.
    pub(crate) heard: Arc<Mutex<Vec<(String, String)>>>,
}

impl Kernel {
    pub(crate) fn of(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            at_reset: |_| None,
            heard: Arc::default(),
        }
    }

    pub(crate) fn heard(&self) -> Vec<(String, String)> {
        self.heard.lock().expect("nobody panicked").clone()
    }
}

impl KernelWriter for Kernel {
    fn write(&self, path: &Path, text: &str) -> host::Result<Option<String>> {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        self.heard
            .lock()
            .expect("nobody panicked")
            .push((name.clone(), text.to_owned()));
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
