//! What a slice needs of the host, tried under the limits of the executor's own unit, which `tools/unit.sh` starts: the
//! cage of an image, a guest's interface, a look at the rules of the network, and ssh as nobody.

use std::io::Read;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use host::real::{Dial, Guests, Images, Network, NetworkSettings, Ready, Slices};
use host::{Guest, Image, Plug, Port, Slice};
use host::{Guests as _, Images as _, Network as _, Ready as _, Slices as _};
use model::digest::Sha256;
use model::id::AllocationId;
use model::task::vm_provision::ImageFormat;
use model::value::Name;

use super::ground::BRIDGE;

/// Only who wants this to be run has made it.
const MARK: &str = "/etc/gpuaas/unit-lab";
const IMAGES: &str = "/var/lib/gpuaas/slice-images";

/// The other end hears what ssh says first.
struct Ear(Mutex<Option<UnixStream>>);

impl Dial for Ear {
    fn dial(&self, _: &Name, _: Ipv4Addr) -> host::Result<OwnedFd> {
        let (guest, ours) = UnixStream::pair().expect("a pair");
        *self.0.lock().expect("not poisoned") = Some(guest);
        Ok(ours.into())
    }
}

fn image() {
    std::fs::create_dir_all(IMAGES).expect("a directory");
    let bytes = vec![7; 1 << 20];
    std::fs::write(format!("{IMAGES}/disk"), &bytes).expect("written");
    let image = Image {
        name: "disk".parse().expect("a name"),
        sha256: Sha256::of(&bytes),
        size_bytes: bytes.len() as u64,
        format: ImageFormat::Raw,
        trusted: true,
        listed: false,
    };
    let images = Images::under(Path::new("/"), vec![IMAGES.into()]);
    images.ensure_stored(&image).expect("stored");
    assert_eq!(images.verify(&image).expect("looked at, in a cage"), 1 << 20);
}

fn port(slice: &Slice) {
    let network = Network::new(NetworkSettings::default());
    let port = Port {
        plug: Plug {
            vm: slice.vm.clone(),
            allocation: slice.allocation,
            slot_index: 1,
        },
        bridge: BRIDGE.parse().expect("a name"),
        mac: "02:00:00:00:00:01".parse().expect("an address"),
        ip: Ipv4Addr::new(10, 77, 0, 21),
    };
    network.ensure_port(&port).expect("plugged in");
    assert!(network.is_whole(&port).expect("looked at"));
    network.ensure_no_port(&port.plug).expect("unplugged");
}

fn ssh(slice: &Slice) {
    let slices = Slices::under(Path::new("/"));
    slices.ensure_dir(slice).expect("a directory");
    slices.ensure_keys(slice).expect("keys");
    let ear = Arc::new(Ear(Mutex::new(None)));
    let guests = Guests::new(slices, ear.clone(), "/usr/bin/gpuaas-node-executor".into());
    let guest = Guest {
        slice: slice.clone(),
        user: "ubuntu".parse().expect("a name"),
        ip: Ipv4Addr::new(10, 77, 0, 21),
    };
    // It says who it is before it listens; then nobody answers.
    let refused = guests.look(&guest).expect_err("nobody is there");
    let mut heard = [0; 4];
    let mut end = ear.0.lock().expect("not poisoned").take().expect("dialled");
    end.set_nonblocking(true).expect("set");
    let said = end.read_exact(&mut heard);
    assert!(said.is_ok() && &heard == b"SSH-", "ssh never came so far: {refused}");
}

#[test]
#[ignore = "tools/unit.sh runs it under the executor's unit"]
fn a_slice_can_be_made_under_the_executors_unit() {
    if !Path::new(MARK).exists() {
        println!("not run: this is not the place, tools/unit.sh makes one");
        return;
    }
    executor::sandbox::enter().expect("its own limits too");
    let slice = Slice {
        vm: "ada-vm".parse().expect("a name"),
        allocation: AllocationId::new(),
    };
    image();
    port(&slice);
    if Path::new("/usr/sbin/nft").exists() {
        let network = Ready::under(Path::new("/"))
            .network_state(&[], None)
            .expect("looked at");
        assert!(network.has_nat.is_some(), "the rules cannot be read");
    }
    ssh(&slice);
    println!("lab: a slice can be made under the unit");
}
