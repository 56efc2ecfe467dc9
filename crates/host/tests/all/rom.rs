//! A function's ROM on a kernel that is particular about it: off until it is asked for, off again only for two bytes,
//! and with nothing to show while the function sleeps.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::pretend::{Profile, tree};
use host::real::{self, KernelWriter};
use host::{Devices as _, Result};
use model::digest::Sha256;
use model::signal::Code;

use crate::kernel::{Kernel, Tree};

/// Nobody can read these two: the one answers as a ROM that is off does, the other as one without a header.
const OFF: &str = "/proc/self/clear_refs";
const NO_HEADER: &str = "/proc/self/mem";

/// Plays `rom` and `power/control` as the kernel does, and leaves the rest to the other one.
pub(crate) struct Particular {
    pub(crate) kernel: Kernel,
    /// What can be read once it is on.
    pub(crate) rom: Option<&'static str>,
    pub(crate) wakes: bool,
}

impl Particular {
    pub(crate) fn show(&self, home: &Path, is_on: bool) {
        let awake = fs::read_to_string(home.join("power_state")).expect("a state").trim() == "D0";
        let file = home.join("rom");
        fs::remove_file(&file).expect("it was there");
        match self.rom.filter(|_| awake) {
            _ if !is_on => symlink(OFF, &file).expect("a link"),
            Some(rom) => fs::write(&file, rom).expect("write"),
            None => symlink(NO_HEADER, &file).expect("a link"),
        }
    }
}

impl KernelWriter for Particular {
    fn write(&self, path: &Path, text: &str, limit: Duration) -> Result<Option<String>> {
        let home = path.parent().expect("a directory");
        match path.file_name().and_then(|name| name.to_str()) {
            Some("rom") => {
                let heard = ("rom".to_owned(), text.to_owned());
                self.kernel.heard.lock().expect("nobody panicked").push(heard);
                let limits = &self.kernel.limits;
                limits.lock().expect("nobody panicked").push(("rom".to_owned(), limit));
                self.show(home, text != "0\n");
                Ok(None)
            }
            Some("control") => {
                let state = if self.wakes && text == "on" { "D0\n" } else { "D3hot\n" };
                fs::write(home.with_file_name("power_state"), state).expect("write");
                self.kernel.write(path, text, limit)
            }
            _ => self.kernel.write(path, text, limit),
        }
    }
}

struct Bench {
    _tree: Tree,
    home: PathBuf,
    kernel: Kernel,
    devices: real::Devices,
    gpu: model::value::Pci,
}

impl Bench {
    /// On vfio-pci, without a guest: asleep.
    fn new(name: &str, rom: Option<&'static str>, wakes: bool) -> Self {
        let grown = Tree::of(name, Profile::H100x8);
        let gpu = grown
            .hardware
            .functions
            .values()
            .find(|f| f.is_gpu())
            .expect("a GPU")
            .pci;
        let home = grown.root().join(tree::home(&grown.hardware, gpu));
        fs::create_dir(home.join("power")).expect("a directory");
        fs::write(home.join("power/control"), "auto\n").expect("write");
        fs::write(home.join("power_state"), "D3hot\n").expect("write");
        let kernel = Kernel::of(grown.root());
        let particular = Particular {
            kernel: kernel.clone(),
            rom,
            wakes,
        };
        particular.show(&home, false);
        let devices = real::Devices::with_writer(grown.root(), Box::new(particular));
        Self {
            _tree: grown,
            home,
            kernel,
            devices,
            gpu,
        }
    }

    fn rom(&self) -> Option<Sha256> {
        self.devices.vbios_sha256(self.gpu).expect("a look")
    }

    fn heard(&self) -> Vec<String> {
        self.kernel.heard().into_iter().map(|(_, text)| text).collect()
    }
}

/// What plays a ROM that is off can be opened by root alone.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("not run: needs root");
    }
    root
}

#[test]
fn a_rom_is_read_awake_and_off_again_afterwards() {
    if !is_root() {
        return;
    }
    let bench = Bench::new("rom-read", Some("a ROM"), true);
    for _ in 0..2 {
        assert_eq!(bench.rom(), Some(Sha256::of(b"a ROM")));
    }
    assert_eq!(bench.heard(), ["on", "1\n", "0\n", "auto"].repeat(2), "twice the same");
    let asleep = fs::read_to_string(bench.home.join("power/control")).expect("read");
    assert_eq!(asleep, "auto");
}

#[test]
fn a_rom_without_a_header_is_none_every_time() {
    if !is_root() {
        return;
    }
    let bench = Bench::new("rom-none", None, true);
    for _ in 0..2 {
        assert_eq!(bench.rom(), None);
    }
    assert_eq!(bench.heard(), ["on", "1\n", "0\n", "auto"].repeat(2));
    // Left on by somebody: then the first read fails already.
    fs::remove_file(bench.home.join("rom")).expect("it was there");
    symlink(NO_HEADER, bench.home.join("rom")).expect("a link");
    assert_eq!(bench.rom(), None);
}

/// It may have one: nobody may note that it has none.
#[test]
fn what_does_not_wake_is_not_taken_for_one_without_a_rom() {
    let bench = Bench::new("rom-asleep", Some("a ROM"), false);
    let error = bench.devices.vbios_sha256(bench.gpu).expect_err("asleep");
    assert_eq!(error.code(), Code::GpuUnreachableD3cold, "{error}");
    assert_eq!(bench.heard(), ["on", "auto"], "and is not asked for it");
    let error = bench.devices.reset(bench.gpu, None).expect_err("asleep");
    assert_eq!(error.code(), Code::GpuResetFailed, "{error}");
}

/// A discovery looks at a GPU that a provision looks at and a release resets.
#[test]
fn several_at_one_gpu_take_turns() {
    const ROUNDS: usize = 50;
    if !is_root() {
        return;
    }
    let bench = Bench::new("rom-turns", Some("a ROM"), true);
    let rom = Sha256::of(b"a ROM");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    assert_eq!(bench.rom(), Some(rom));
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                let proof = bench.devices.reset(bench.gpu, Some(rom)).expect("reset");
                assert_eq!(proof.vbios_sha256, Some(rom));
            }
        });
    });
    let asleep = fs::read_to_string(bench.home.join("power/control")).expect("read");
    assert_eq!(asleep, "auto", "and may sleep again");
}
