//! What runs in the lab's machine: the host's verbs on a real sysfs, each beside the kernel's own word on the group.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use host::real::{Devices as Real, InAProcess, KernelWriter};
use host::{Devices, Function};
use model::signal::Code;
use model::value::Pci;

use super::MARK;
use crate::tree::program;

pub(super) const NAME: &str = "vfio::inside::what_the_kernel_lets_happen";
const PCI: &str = "/sys/bus/pci/devices";

/// Opens a group and says whether the kernel would let a guest have it; with a second word it stays.
const ASK: &str = r#"$| = 1; open(F, "+<", "/dev/vfio/$ARGV[0]") or die "open: $!"; my $s = pack("LL", 8, 0);
ioctl(F, 0x3b67, $s) or die "ioctl: $!"; print((unpack("LL", $s))[1] & 1, "\n"); sleep 600 if $ARGV[1];"#;

fn kernel_says_viable(group: u32) -> bool {
    let asked = program("/usr/bin/perl").args(["-e", ASK, &group.to_string()]).output();
    let asked = asked.expect("perl starts");
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    asked.stdout == b"1\n"
}

/// Somebody who has the group open.
struct Guest(Child);

impl Guest {
    fn of(group: u32) -> Self {
        let mut command = program("/usr/bin/perl");
        command
            .args(["-e", ASK, &group.to_string(), "stay"])
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("perl starts");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("it has it open");
        assert_eq!(line, "1\n", "and could use it");
        Self(child)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.kill().expect("it was there");
        self.0.wait().expect("a child of ours");
    }
}

fn write(path: &str, text: &str) {
    let taken = InAProcess.write(Path::new(path), text, Duration::from_secs(60));
    assert_eq!(taken.expect("in time"), None, "{text} > {path}");
}

/// As an operator would, one function and no more.
fn give_by_hand(pci: Pci, driver: &str) {
    write(&format!("{PCI}/{pci}/driver_override"), driver);
    let unbind = format!("{PCI}/{pci}/driver/unbind");
    if Path::new(&unbind).exists() {
        write(&unbind, &pci.to_string());
    }
    write("/sys/bus/pci/drivers_probe", &pci.to_string());
}

fn take_back(pci: Pci) {
    write(&format!("{PCI}/{pci}/driver/unbind"), &pci.to_string());
    write(&format!("{PCI}/{pci}/driver_override"), "\n");
    write("/sys/bus/pci/drivers_probe", &pci.to_string());
}

struct Bench {
    devices: Real,
}

impl Bench {
    fn at(&self, text: &str) -> Function {
        let pci = text.parse().expect("an address");
        self.devices.function(pci).expect("it is there")
    }

    fn driver(&self, text: &str) -> Option<String> {
        self.at(text).driver
    }

    /// With an audio function that has a driver of its own.
    fn a_device_goes_with_all_its_functions(&self) {
        let (gpu, audio) = (self.at("0000:01:00.0"), self.at("0000:01:00.1"));
        let group = gpu.iommu_group.expect("a group");
        assert_eq!(audio.iommu_group, Some(group));
        assert_eq!(audio.driver.as_deref(), Some("snd_hda_intel"));
        give_by_hand(gpu.pci, "vfio-pci");
        assert!(
            !kernel_says_viable(group) && !audio.is_viable(),
            "the audio function stands in the way"
        );
        let bound = self.devices.ensure_vfio_bound(gpu.pci).expect("bound");
        assert_eq!((bound.group, &bound.functions), (group, &vec![gpu.pci, audio.pci]));
        assert!(kernel_says_viable(group));
        assert_eq!(self.devices.ensure_vfio_bound(gpu.pci).expect("again"), bound);

        let guest = Guest::of(group);
        let holders = self.devices.group_holders(group).expect("seen");
        assert_eq!((holders.len(), holders[0].pid), (1, guest.0.id()), "{holders:?}");
        let error = self.devices.reset(gpu.pci, None).expect_err("in use");
        assert_eq!(error.code(), Code::VfioGroupBusy, "{error}");
        drop(guest);
        assert!(self.devices.group_holders(group).expect("seen").is_empty());
        // Its only way would reset the other function too, which the kernel does not do behind a function's back.
        let error = self.devices.reset(gpu.pci, None).expect_err("no way");
        assert_eq!(error.code(), Code::GpuResetFailed, "{error}");
        println!("lab: bound with its audio function, refused while open; reset: {error}");

        for pci in [gpu.pci, audio.pci] {
            take_back(pci);
        }
        assert_eq!(self.driver("0000:01:00.0"), None);
        assert_eq!(self.driver("0000:01:00.1").as_deref(), Some("snd_hda_intel"));
        assert!(
            !Path::new(&format!("/dev/vfio/{group}")).exists(),
            "the group is nobody's"
        );
        println!("lab: given back, and its driver has it again");
    }

    fn a_device_alone_is_reset_with_proof(&self) {
        let gpu = self.at("0000:02:00.0");
        let bound = self.devices.ensure_vfio_bound(gpu.pci).expect("bound");
        assert!(bound.functions == [gpu.pci] && kernel_says_viable(bound.group));
        let proof = self.devices.reset(gpu.pci, None).expect("reset");
        assert_eq!((proof.reset_method.as_str(), proof.power_state.as_str()), ("bus", "D0"));
        assert_eq!(proof.driver.as_deref(), Some("vfio-pci"));
        println!("lab: reset with proof: {proof:?}");
        take_back(gpu.pci);
    }

    fn a_neighbour_with_a_driver_is_left_alone(&self) {
        let (gpu, card) = (self.at("0000:04:01.0"), self.at("0000:04:02.0"));
        let group = gpu.iommu_group.expect("a group");
        assert_eq!((card.iommu_group, card.driver.as_deref()), (Some(group), Some("e1000")));
        let error = self.devices.ensure_vfio_bound(gpu.pci).expect_err("not viable");
        assert_eq!(error.code(), Code::VfioGroupNotViable, "{error}");
        assert!(
            error.to_string().contains("0000:04:02.0") && error.to_string().contains("e1000"),
            "{error}"
        );
        assert_eq!(self.driver("0000:04:02.0").as_deref(), Some("e1000"), "left alone");
        let wish = fs::read_to_string(format!("{PCI}/{}/driver_override", gpu.pci)).expect("readable");
        assert_eq!(
            (wish.trim(), self.driver("0000:04:01.0")),
            ("(null)", None),
            "nothing was begun"
        );
        give_by_hand(gpu.pci, "vfio-pci");
        assert!(!kernel_says_viable(group), "the kernel would have said the same");
        println!("lab: refused: {error}");

        write(&format!("{PCI}/{}/driver/unbind", card.pci), &card.pci.to_string());
        let bound = self.devices.ensure_vfio_bound(gpu.pci).expect("now it is");
        assert!(bound.functions == [gpu.pci] && kernel_says_viable(group));
        take_back(gpu.pci);
        write("/sys/bus/pci/drivers_probe", &card.pci.to_string());
        assert_eq!(self.driver("0000:04:02.0").as_deref(), Some("e1000"));
        println!("lab: viable once the neighbour had let go");
    }

    /// As on a machine that is rented whole.
    fn a_device_comes_back_to_its_own_driver(&self) {
        let card = self.at("0000:05:00.0");
        let proof = self.devices.reset(card.pci, None).expect("reset");
        assert_eq!(proof.driver.as_deref(), Some("e1000"));
        assert_eq!(self.driver("0000:05:00.0").as_deref(), Some("e1000"));
        println!("lab: reset under its own driver: {proof:?}");
    }

    fn what_is_gone_is_said_to_be_gone(&self) {
        let card = self.at("0000:05:00.0").pci;
        write(&format!("{PCI}/{card}/remove"), "1");
        for error in [
            self.devices.ensure_vfio_bound(card).map(drop),
            self.devices.reset(card, None).map(drop),
        ] {
            assert_eq!(error.expect_err("gone").code(), Code::DeviceMissing);
        }
    }
}

#[test]
#[ignore = "the program of the lab's machine; alone it does nothing"]
fn what_the_kernel_lets_happen() {
    let words = fs::read_to_string("/proc/cmdline").expect("readable");
    if !words.split_whitespace().any(|word| word == MARK) {
        println!("not run: only the lab starts it");
        return;
    }
    println!();
    let bench = Bench {
        devices: Real::under(Path::new("/")),
    };
    let functions = bench.devices.functions().expect("seen");
    let gpus: Vec<String> = functions
        .iter()
        .filter(|f| f.is_gpu())
        .map(|f| f.pci.to_string())
        .collect();
    assert_eq!(gpus, ["0000:01:00.0", "0000:02:00.0", "0000:04:01.0"]);
    bench.a_device_goes_with_all_its_functions();
    bench.a_device_alone_is_reset_with_proof();
    bench.a_neighbour_with_a_driver_is_left_alone();
    bench.a_device_comes_back_to_its_own_driver();
    bench.what_is_gone_is_said_to_be_gone();
    println!("lab: passthrough was tried; real: kernel, IOMMU groups, sysfs, drivers; emulated: board and devices");
}
