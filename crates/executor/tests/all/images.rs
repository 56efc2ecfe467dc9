//! Images as the executor takes them: from a catalogue that the operators' key has signed, in bytes that it hashes
//! itself, whoever hands them over.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use host::pretend::{Pretend, Profile};
use host::real::Dial;
use model::catalogue::{CATALOGUE_TYPE, Catalogue, CatalogueImage};
use model::digest::Sha256;
use model::dsse::{self, Envelope};
use model::envelope::TaskPayload;
use model::key::SigningKey;
use model::node_api::Progress;
use model::outcome::{Outcome, ResultPayload};
use model::signal::Code;
use model::socket::{self, FromAgent, FromExecutor, WantedImage};
use model::task::Task;
use model::task::slot::Slot;
use model::task::vm_provision::{DriverStrategy, ImageFormat, Params};
use model::value::Name;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::place::{Agent, Place};
use crate::users::KEY;

const BYTES: &[u8] = b"an image that nobody boots";
const POLICY: &str =
    "slice_cidr = \"10.77.0.0/16\"\novs_bridges = [\"br-slices\"]\nimage_hosts = [\"images.example\"]\n";

/// An executor with slots, and an agent that talks to it.
pub(crate) fn stand() -> (Place, Agent) {
    let place = Place::empty(Profile::H100x8);
    std::fs::write(place.dir.join("node.toml"), POLICY).expect("a policy");
    let place = Place::started(place);
    let mut agent = place.connect();
    // From here on it is the one that is spoken to.
    agent.state();
    (place, agent)
}

fn entry() -> CatalogueImage {
    CatalogueImage {
        name: "debian.raw".parse().expect("a name"),
        sha256: Sha256::of(BYTES),
        size_bytes: BYTES.len() as u64,
        format: ImageFormat::Raw,
        virtual_size_bytes: BYTES.len() as u64,
        url: Some("https://images.example/debian.raw".to_owned()),
        default_username: "ada".parse().expect("a name"),
        driver_strategy: DriverStrategy::None,
        added_at: "2026-11-15T10:00:00Z".parse().expect("a time"),
    }
}

fn catalogue(place: &Place, version: u64, images: &[CatalogueImage]) -> Catalogue {
    Catalogue {
        aud: place.house.installation,
        version,
        issued_at: place.house.now(),
        images: images.to_vec(),
    }
}

fn signed(catalogue: &Catalogue, key: &SigningKey) -> Envelope {
    dsse::sign_json(CATALOGUE_TYPE, catalogue, &[key])
}

fn lists(agent: &mut Agent, document: Envelope) -> Result<u64, Code> {
    let catalogue = Box::new(document);
    agent.send(&FromAgent::Catalogue {
        request_id: 5,
        catalogue,
    });
    agent.wait("a word on the catalogue", |said| match said {
        FromExecutor::Catalogued {
            request_id: 5,
            catalogue_version,
        } => Some(Ok(catalogue_version)),
        FromExecutor::Failed {
            request_id: 5, code, ..
        } => Some(Err(code)),
        _ => None,
    })
}

fn slot(pretend: &Pretend) -> Slot {
    let hardware = pretend.snapshot().hardware;
    let gpu = hardware.functions.values().find(|f| f.is_gpu()).expect("a GPU").pci;
    let disk = hardware.disks.values().find(|disk| disk.disk.in_use_by.is_empty());
    let disk = disk.expect("a disk").disk.identity.clone();
    Slot {
        slot_id: uuid::Uuid::from_u128(0x51).into(),
        slot_index: 0,
        pci_address: gpu,
        fabric_device: None,
        nvme_device: disk.by_id,
        nvme_serial: disk.serial,
        nvme_wwn: disk.wwn,
        nvme_size_bytes: disk.size_bytes,
        numa_node: 0,
        vcpu_count: 1,
        memory_mib: 256,
        mac_address: "02:00:00:00:00:51".parse().expect("an address"),
        private_ip: "10.77.0.21".parse().expect("an address"),
    }
}

pub(crate) fn wish(place: &Place) -> Params {
    let image = entry();
    Params {
        allocation_id: uuid::Uuid::from_u128(7).into(),
        vm_name: "ada-vm".parse().expect("a name"),
        default_username: image.default_username,
        image_path: image.name,
        image_sha256: image.sha256,
        image_size_bytes: image.size_bytes,
        image_format: image.format,
        image_url: None,
        image_trusted: false,
        driver_strategy: image.driver_strategy,
        ssh_public_keys: vec![KEY.parse().expect("a key")],
        ovs_bridge: "br-slices".parse().expect("a name"),
        graceful_timeout_seconds: 30,
        readiness_timeout_seconds: 60,
        slots: vec![slot(&place.pretend)],
    }
}

fn payload(place: &Place, params: Params) -> TaskPayload {
    place.house.payload(&Task::VmProvision(params))
}

/// Ends without having touched anything.
fn refused(place: &Place, agent: &mut Agent, params: Params) -> Code {
    let before = place.pretend.snapshot();
    let result: ResultPayload = agent.run(place, &payload(place, params));
    assert_eq!(result.outcome, Outcome::Failed, "{:?}", result.detail);
    assert_eq!(place.pretend.snapshot(), before, "nothing was touched");
    assert!(result.proofs.expect("proofs").disk_untouched);
    result.code.expect("a code")
}

fn wanted(agent: &mut Agent) -> WantedImage {
    agent.wait("an image is wanted", |said| match said {
        FromExecutor::ImageWanted { image } => Some(image),
        _ => None,
    })
}

fn wanted_guest(agent: &mut Agent) -> (u64, Name, Ipv4Addr) {
    agent.wait("a guest is wanted", |said| match said {
        FromExecutor::GuestWanted { want, vm, address } => Some((want, vm, address)),
        _ => None,
    })
}

fn settled(agent: &mut Agent) -> Sha256 {
    agent.wait("it is settled", |said| match said {
        FromExecutor::ImageSettled { sha256 } => Some(sha256),
        _ => None,
    })
}

/// A message with as many descriptors as these.
fn hand_over(agent: &Agent, message: &FromAgent, fds: &[BorrowedFd<'_>]) {
    let frame = socket::encode(message).expect("a message");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(fds));
    let sent = sendmsg(
        agent.stream(),
        &[IoSlice::new(&frame)],
        &mut control,
        SendFlags::empty(),
    );
    assert_eq!(sent.expect("connected"), frame.len(), "a small frame goes at once");
}

fn bytes(place: &Place, bytes: &[u8]) -> File {
    let path = place.dir.join("staged");
    let mut file = File::create_new(&path).expect("a file");
    file.write_all(bytes).expect("written");
    let again = File::open(&path).expect("opens");
    std::fs::remove_file(path).expect("removed");
    again
}

fn image() -> FromAgent {
    FromAgent::Image {
        sha256: Sha256::of(BYTES),
    }
}

#[test]
fn what_the_operators_have_listed_is_fetched_hashed_and_used() {
    let (mut place, mut agent) = stand();
    let key = place.house.catalogue_key.clone();
    let first = signed(&catalogue(&place, 1, &[entry()]), &key);
    assert_eq!(agent.state().catalogue_version, Some(0));
    assert_eq!(lists(&mut agent, first.clone()), Ok(1));
    assert_eq!(lists(&mut agent, first), Ok(1), "asking twice is asking once");
    // It outlives the process.
    place.restart();
    let mut agent = place.connect();
    assert_eq!(agent.state().catalogue_version, Some(1));

    let task = payload(&place, wish(&place));
    agent.offer_good(&place, &task);
    let want = wanted(&mut agent);
    assert_eq!((want.sha256, want.size_bytes), (Sha256::of(BYTES), BYTES.len() as u64));
    assert_eq!(want.url, None, "the control plane has it");
    // An agent that comes later hears of it, too.
    let mut agent = place.connect();
    agent.send(&FromAgent::Hello { request_id: 1 });
    assert_eq!(wanted(&mut agent), want);
    hand_over(&agent, &image(), &[bytes(&place, BYTES).as_fd()]);
    let result = place.open(&agent.done(task.task_id));
    assert_eq!(
        result.outcome,
        Outcome::Succeeded,
        "{:?} {:?}",
        result.code,
        result.detail
    );
    assert!(place.pretend.snapshot().slicing.store.contains(&Sha256::of(BYTES)));
}

#[test]
fn how_much_of_an_image_has_come_is_told_while_its_task_waits() {
    let (place, mut agent) = stand();
    let listed = signed(&catalogue(&place, 1, &[entry()]), &place.house.catalogue_key);
    assert_eq!(lists(&mut agent, listed), Ok(1));
    let task = payload(&place, wish(&place));
    agent.offer_good(&place, &task);
    let sha256 = wanted(&mut agent).sha256;
    let of_bytes = BYTES.len() as u64;
    // The last of them is a lie.
    for (said, done_bytes) in [(7, 7), (9, 9), (u64::MAX, of_bytes)] {
        let other = Sha256::of(b"another");
        agent.send(&FromAgent::ImageMoved {
            sha256: other,
            done_bytes: 1,
        });
        agent.send(&FromAgent::ImageMoved {
            sha256,
            done_bytes: said,
        });
        let moved = agent.wait("it has moved", |said| match said {
            FromExecutor::Progress { task } => task.progress.map(|progress| (task.phase, progress)),
            _ => None,
        });
        assert_eq!(
            moved,
            ("image_stat_download".to_owned(), Progress { done_bytes, of_bytes })
        );
    }
    let held = agent.state().tasks;
    assert_eq!(held[0].progress.map(|seen| seen.done_bytes), Some(of_bytes));
    hand_over(&agent, &image(), &[bytes(&place, BYTES).as_fd()]);
    let next = agent.wait("another phase", |said| match said {
        FromExecutor::Progress { task } if task.phase != "image_stat_download" => Some(task),
        _ => None,
    });
    assert_eq!(next.progress, None, "it was that phase's");
    let result = place.open(&agent.done(task.task_id));
    assert_eq!(result.outcome, Outcome::Succeeded, "{:?}", result.detail);
}

#[test]
fn a_torn_image_is_fetched_once_more_and_a_wrong_one_refused() {
    let (place, mut agent) = stand();
    let listed = signed(&catalogue(&place, 1, &[entry()]), &place.house.catalogue_key);
    assert_eq!(lists(&mut agent, listed), Ok(1));
    let mut wrong = BYTES.to_vec();
    wrong[3] ^= 1;
    let longer = [BYTES, b"and more"].concat();
    for (second, code) in [(BYTES, None), (longer.as_slice(), Some(Code::ImageDigestMismatch))] {
        place.pretend.meddle(|state| state.slicing.store.clear());
        let mut params = wish(&place);
        params.allocation_id = uuid::Uuid::new_v4().into();
        let before = place.pretend.snapshot();
        let task = payload(&place, params);
        agent.offer_good(&place, &task);
        wanted(&mut agent);
        hand_over(&agent, &image(), &[bytes(&place, &wrong).as_fd()]);
        assert_eq!(settled(&mut agent), Sha256::of(BYTES), "what was fetched is of no use");
        wanted(&mut agent);
        hand_over(&agent, &image(), &[bytes(&place, second).as_fd()]);
        let result = place.open(&agent.done(task.task_id));
        assert_eq!(result.code, code, "{:?}", result.detail);
        if code.is_some() {
            assert_eq!(place.pretend.snapshot(), before, "nothing was touched");
            break;
        }
        // Takes the VM away again, for the next round.
        place.pretend.meddle(|state| *state = before);
    }
}

#[test]
fn abuse_17_catalogues_of_others_and_old_ones_count_for_nothing() {
    let (place, mut agent) = stand();
    let key = place.house.catalogue_key.clone();
    assert_eq!(refused(&place, &mut agent, wish(&place)), Code::ImageNotListed);

    let good = catalogue(&place, 3, &[entry()]);
    let mut abroad = good.clone();
    abroad.aud = model::id::InstallationId::new();
    let mut doubled = good.clone();
    doubled.images.push(entry());
    let mut torn = signed(&good, &key);
    torn.signatures.clear();
    let forged = [
        signed(&good, &SigningKey::generate()),
        // What signs tasks, or who signs tasks, signs no images.
        signed(&good, place.house.key(model::trust::Purpose::Slice)),
        signed(&abroad, &key),
        signed(&doubled, &key),
        dsse::sign_json(model::trust::MANIFEST_TYPE, &good, &[&key]),
        torn,
    ];
    let attacks = forged.len();
    let codes: Vec<_> = forged.into_iter().map(|document| lists(&mut agent, document)).collect();
    assert_eq!(codes, vec![Err(Code::CatalogueRejected); attacks]);
    assert_eq!(refused(&place, &mut agent, wish(&place)), Code::ImageNotListed);

    // Once removed it stays removed, however the old list is told again.
    assert_eq!(lists(&mut agent, signed(&good, &key)), Ok(3));
    assert_eq!(lists(&mut agent, signed(&catalogue(&place, 4, &[]), &key)), Ok(4));
    assert_eq!(lists(&mut agent, signed(&good, &key)), Err(Code::CatalogueRejected));
    let same_number = signed(&catalogue(&place, 4, &[entry()]), &key);
    assert_eq!(lists(&mut agent, same_number), Err(Code::CatalogueRejected));
    assert_eq!(refused(&place, &mut agent, wish(&place)), Code::ImageNotListed);

    // Another digest, size or format under a listed name is another image.
    assert_eq!(
        lists(&mut agent, signed(&catalogue(&place, 5, &[entry()]), &key)),
        Ok(5)
    );
    let spoil: [fn(&mut Params); 4] = [
        |wish| wish.image_sha256 = Sha256::of(b"another"),
        |wish| wish.image_size_bytes += 1,
        |wish| wish.image_format = ImageFormat::Qcow2,
        |wish| wish.image_path = "other.raw".parse().expect("a name"),
    ];
    for spoil in spoil {
        let mut params = wish(&place);
        spoil(&mut params);
        assert_eq!(refused(&place, &mut agent, params), Code::ImageNotListed);
    }
}

#[test]
fn abuse_19_only_hosts_of_local_policy_are_asked_for_images() {
    let (place, mut agent) = stand();
    let key = place.house.catalogue_key.clone();
    let mut version = 0;
    for url in [
        "https://169.254.169.254/latest/meta-data",
        "https://images.example:8443/debian.raw",
        "https://images.example.evil.example/debian.raw",
        "https://localhost/debian.raw",
    ] {
        version += 1;
        let mut image = entry();
        image.url = Some(url.to_owned());
        let listed = signed(&catalogue(&place, version, &[image]), &key);
        assert_eq!(lists(&mut agent, listed), Ok(version), "operators may list it");
        let mut params = wish(&place);
        params.image_url = Some(url.to_owned());
        assert_eq!(refused(&place, &mut agent, params), Code::ImageSourceRefused, "{url}");
        // And the task cannot name another place than the one that was listed.
        let mut params = wish(&place);
        params.image_url = Some("https://images.example/debian.raw".to_owned());
        assert_eq!(refused(&place, &mut agent, params), Code::ImageNotListed);
    }
}

#[test]
fn what_an_agent_hands_over_unasked_or_twice_is_closed() {
    let (place, mut agent) = stand();
    let listed = signed(&catalogue(&place, 1, &[entry()]), &place.house.catalogue_key);
    assert_eq!(lists(&mut agent, listed), Ok(1));
    let file = bytes(&place, BYTES);
    let (mut ours, theirs) = UnixStream::pair().expect("two ends");
    ours.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    for _ in 0..20 {
        // Nobody has asked; and three at once.
        hand_over(&agent, &image(), &[file.as_fd(), theirs.as_fd(), theirs.as_fd()]);
        hand_over(&agent, &FromAgent::Guest { want: 99 }, &[theirs.as_fd()]);
        hand_over(&agent, &FromAgent::Hello { request_id: 2 }, &[theirs.as_fd()]);
    }
    drop(theirs);
    agent.state();
    let end = ours.read(&mut [0]).expect("the other end is closed everywhere");
    assert_eq!(end, 0);
    // The wish is one thing, and what is said of it another.
    let task = payload(&place, wish(&place));
    agent.offer_good(&place, &task);
    wanted(&mut agent);
    agent.send(&image());
    let result = place.open(&agent.done(task.task_id));
    assert_eq!(result.code, Some(Code::ImageUnavailable), "{:?}", result.detail);
}

#[test]
fn a_task_that_waits_for_an_image_can_be_cancelled_and_outlives_a_restart() {
    let (mut place, mut agent) = stand();
    let listed = signed(&catalogue(&place, 1, &[entry()]), &place.house.catalogue_key);
    assert_eq!(lists(&mut agent, listed), Ok(1));
    let before = place.pretend.snapshot();
    let task = payload(&place, wish(&place));
    agent.offer_good(&place, &task);
    wanted(&mut agent);
    place.restart();
    let mut agent = place.connect();
    wanted(&mut agent);
    agent.send(&FromAgent::Cancel { task_id: task.task_id });
    let result = place.open(&agent.done(task.task_id));
    assert_eq!(
        (result.outcome, result.code),
        (Outcome::Cancelled, Some(Code::TaskCancelled))
    );
    assert_eq!(place.pretend.snapshot(), before);
    assert!(result.proofs.expect("proofs").disk_untouched);
}

#[test]
fn a_guest_is_connected_to_by_the_agent() {
    let (place, mut agent) = stand();
    let errands = place.errands.clone();
    let (vm, address) = ("ada-vm".parse().expect("a name"), Ipv4Addr::new(10, 77, 0, 21));
    let dialled = std::thread::spawn(move || [errands.dial(&vm, address), errands.dial(&vm, address)]);
    let (first, vm, to) = wanted_guest(&mut agent);
    assert_eq!((vm.as_str(), to), ("ada-vm", address));
    let (mut ours, theirs) = UnixStream::pair().expect("two ends");
    hand_over(&agent, &FromAgent::Guest { want: first }, &[theirs.as_fd()]);
    // A wish may be said again, to an agent that has just come.
    let second = loop {
        let (want, ..) = wanted_guest(&mut agent);
        if want != first {
            break want;
        }
    };
    let detail = "connection refused".to_owned();
    agent.send(&FromAgent::GuestFailed { want: second, detail });
    let [socket, failed] = dialled.join().expect("no panic");
    let mut socket = UnixStream::from(socket.expect("a connection"));
    socket.write_all(b"SSH-2.0").expect("open");
    let mut heard = [0; 7];
    ours.read_exact(&mut heard).expect("the same connection");
    assert_eq!(&heard, b"SSH-2.0");
    assert_eq!(failed.expect_err("nobody listens").code(), Code::GuestNotReady);
}
