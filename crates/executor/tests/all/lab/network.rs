//! Guests that lie about who they are, and guests that pry. An interface of the switch's own stands for a guest's: it
//! has the guest's port and flows, and is moved into a network of its own, where it is the guest's to use.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use host::real::Network as Real;
use host::{Network, Plug, Port};
use model::id::AllocationId;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::ground::{BRIDGE, GATEWAY, Ground};
use super::{in_a_lab, run};

/// One repeated packet longer than a connection takes that is let through.
const SOON: Duration = Duration::from_millis(1300);
const PATIENCE: Duration = Duration::from_secs(10);

/// A guest without a VM: what it can do is what its port lets it.
struct Impostor {
    name: String,
    port: Port,
}

impl Impostor {
    fn plug_in(network: &Real, slot_index: u32) -> Self {
        let port = Port {
            plug: Plug {
                vm: format!("vm-{slot_index}").parse().expect("a name"),
                allocation: AllocationId::new(),
                slot_index,
            },
            bridge: BRIDGE.parse().expect("a name"),
            mac: format!("02:00:00:00:00:{slot_index:02x}").parse().expect("an address"),
            ip: Ipv4Addr::new(10, 77, 0, 20 + u8::try_from(slot_index).expect("small")),
        };
        let name = format!("guest{slot_index}");
        run("ip", &["netns", "add", &name]);
        let (interface, mac) = (port.plug.interface(), port.mac.to_string());
        // In the place of the interface that a VM would bring to life. (A pair of virtual links would not do: it leaves
        // checksums unfinished, and a switch outside the kernel does not finish them.)
        let number = format!("ofport_request={}", port.plug.number());
        let owner = format!("external_ids:gpuaas-allocation={}", port.plug.allocation);
        let set = ["--", "set", "interface", &interface, "type=internal", &number, &owner];
        run(
            "ovs-vsctl",
            &[&["--timeout=20", "add-port", BRIDGE, &interface], &set[..]].concat(),
        );
        network.ensure_port(&port).expect("plugged in");
        network.ensure_port(&port).expect("asking twice is asking once");
        run("ip", &["link", "set", &interface, "netns", &name]);
        let guest = Self { name, port };
        guest.ip(&["link", "set", &interface, "name", "eth0"]);
        guest.ip(&["link", "set", "eth0", "address", &mac]);
        guest.ip(&["addr", "add", &format!("{}/24", guest.port.ip), "dev", "eth0"]);
        guest.ip(&["link", "set", "eth0", "up"]);
        guest.ip(&["route", "add", "default", "via", GATEWAY]);
        guest
    }

    fn ip(&self, args: &[&str]) {
        run("ip", &[&["-n", self.name.as_str()], args].concat());
    }

    /// Done in the guest's network.
    fn does<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let space = File::open(format!("/run/netns/{}", self.name)).expect("its network");
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                use std::os::fd::AsFd;
                move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).expect("inside");
                act()
            });
            inside.join().expect("no panic")
        })
    }

    fn connects(&self, address: &str, port: u16) -> bool {
        self.within(PATIENCE, address, port)
    }

    fn is_kept_from(&self, address: &str, port: u16) -> bool {
        !self.within(SOON, address, port)
    }

    fn within(&self, wait: Duration, address: &str, port: u16) -> bool {
        let to = SocketAddr::new(address.parse().expect("an address"), port);
        self.does(|| TcpStream::connect_timeout(&to, wait).is_ok())
    }

    /// Goes by this address from now on.
    fn calls_itself(&self, address: &str) {
        self.ip(&["addr", "flush", "dev", "eth0"]);
        self.ip(&["addr", "add", &format!("{address}/24"), "dev", "eth0"]);
        self.ip(&["route", "replace", "default", "via", GATEWAY]);
        run("ip", &["neigh", "flush", "dev", BRIDGE]);
    }
}

fn listen(address: &str, port: u16) -> TcpListener {
    TcpListener::bind((address, port)).unwrap_or_else(|error| panic!("{address}:{port}: {error}"))
}

/// Somewhere behind the host: a public address and private ones.
fn outside() {
    run("ip", &["netns", "add", "outside"]);
    run(
        "ip",
        &[
            "link", "add", "up0", "type", "veth", "peer", "name", "eth0", "netns", "outside",
        ],
    );
    run("ip", &["addr", "add", "198.51.100.1/24", "dev", "up0"]);
    run("ip", &["link", "set", "up0", "up"]);
    for address in [
        "198.51.100.2/24",
        "10.200.0.1/24",
        "192.168.7.1/24",
        "169.254.169.254/32",
    ] {
        run("ip", &["-n", "outside", "addr", "add", address, "dev", "eth0"]);
    }
    run("ip", &["-n", "outside", "link", "set", "eth0", "up"]);
    run(
        "ip",
        &["-n", "outside", "route", "add", "10.77.0.0/24", "via", "198.51.100.1"],
    );
    for network in ["10.200.0.0/24", "192.168.7.0/24", "169.254.169.254/32"] {
        run("ip", &["route", "add", network, "via", "198.51.100.2"]);
    }
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("forwarding");
}

fn network(ground: &Ground) -> Real {
    Real::new(ground.network.clone())
}

#[test]
fn abuse_33_guest_pries() {
    in_a_lab(|ground| {
        let network = network(ground);
        outside();
        let (guest, other) = (Impostor::plug_in(&network, 1), Impostor::plug_in(&network, 2));
        let behind = Impostor {
            name: "outside".to_owned(),
            port: guest.port.clone(),
        };
        let doors = behind.does(|| [80, 22].map(|port| listen("0.0.0.0", port)));
        let own: Vec<TcpListener> = [22, 80, 9110].map(|port| listen("0.0.0.0", port)).into();
        let peer = other.does(|| listen("0.0.0.0", 80));
        let names: SocketAddr = format!("{GATEWAY}:53").parse().expect("an address");
        assert!(TcpStream::connect_timeout(&names, PATIENCE).is_ok(), "names are served");
        assert!(guest.connects("198.51.100.2", 80), "the outside is there for it");
        assert!(guest.connects(GATEWAY, 53), "and names");
        assert!(guest.connects(GATEWAY, 9110), "and its telemetry");
        for (address, port) in [
            (GATEWAY, 22),
            (GATEWAY, 80),
            ("198.51.100.1", 80),   // the host by its other address
            ("198.51.100.1", 9110), // not even there
            ("10.200.0.1", 80),
            ("192.168.7.1", 80),
            ("169.254.169.254", 80),
            ("10.77.0.22", 80), // the other guest
        ] {
            assert!(guest.is_kept_from(address, port), "{address}:{port}");
        }
        assert!(TcpStream::connect_timeout(&"10.77.0.22:80".parse().expect("an address"), SOON).is_err());
        // The doors are open; it is the port that lets nobody through.
        assert!(behind.connects("198.51.100.1", 80));
        for address in ["10.200.0.1:80", "192.168.7.1:80", "169.254.169.254:80"] {
            let to: SocketAddr = address.parse().expect("an address");
            assert!(TcpStream::connect_timeout(&to, PATIENCE).is_ok(), "{address}");
        }
        drop((doors, own, peer));
        for guest in [guest, other] {
            network.ensure_no_port(&guest.port.plug).expect("unplugged");
            network
                .ensure_no_port(&guest.port.plug)
                .expect("asking twice is asking once");
            assert!(!network.has_port(&guest.port.plug).expect("look"));
        }
        assert_eq!(
            run("ovs-ofctl", &["--no-stats", "dump-flows", BRIDGE]).trim(),
            "priority=0 actions=NORMAL"
        );
    });
}

#[test]
fn abuse_32_guest_lies_about_who_it_is() {
    in_a_lab(|ground| {
        let network = network(ground);
        let (guest, other) = (Impostor::plug_in(&network, 1), Impostor::plug_in(&network, 2));
        let door = listen(GATEWAY, 9110);
        assert!(
            guest.connects(GATEWAY, 9110) && other.connects(GATEWAY, 9110),
            "as themselves"
        );
        for (address, whose) in [
            ("10.77.0.22", "another guest's"),
            ("10.77.0.99", "nobody's"),
            (GATEWAY, "the host's"),
        ] {
            guest.calls_itself(address);
            assert!(guest.is_kept_from(GATEWAY, 9110), "with {whose} address");
            assert!(guest.is_kept_from("10.77.0.22", 9110), "with {whose} address");
        }
        guest.calls_itself("10.77.0.21");
        guest.ip(&["link", "set", "eth0", "address", &other.port.mac.to_string()]);
        assert!(
            guest.is_kept_from(GATEWAY, 9110),
            "with another guest's hardware address"
        );
        guest.ip(&["link", "set", "eth0", "address", &guest.port.mac.to_string()]);
        guest.calls_itself("10.77.0.21");
        assert!(guest.connects(GATEWAY, 9110), "and again as itself");
        // A router's or DHCP server's word of its own is heard by nobody: no flow leads from one port to another.
        let flows = run("ovs-ofctl", &["--no-stats", "--no-names", "dump-flows", BRIDGE]);
        let from = format!("in_port={}", guest.port.plug.number());
        let ways: Vec<&str> = flows.lines().filter(|line| line.contains(&from)).collect();
        let only_local =
            |line: &&str| line.ends_with("actions=LOCAL") || line.ends_with(",LOCAL") || line.ends_with("actions=drop");
        assert!(ways.len() > 10 && ways.iter().all(only_local), "{flows}");
        let last = ways
            .iter()
            .any(|line| line.contains("priority=50") && line.ends_with("actions=drop"));
        assert!(last, "everything else, IPv6 too, ends there: {flows}");
        assert!(other.connects(GATEWAY, 9110), "the other one noticed nothing");
        drop(door);
        for guest in [guest, other] {
            network.ensure_no_port(&guest.port.plug).expect("unplugged");
        }
    });
}

/// How many frames this guest has been handed.
fn handed(guest: &Impostor) -> u64 {
    let counts = guest.does(|| std::fs::read_to_string("/proc/thread-self/net/dev").expect("counts"));
    let own = counts.lines().find_map(|line| line.trim().strip_prefix("eth0:"));
    let frames = own.and_then(|own| own.split_whitespace().nth(1)?.parse().ok());
    frames.unwrap_or_else(|| panic!("{counts}"))
}

/// Asks for an address, as a client that has none does; what it is given is not used.
fn asks_for_an_address(guest: &Impostor, options: &[&str]) {
    let client = [
        "netns",
        "exec",
        &guest.name,
        "busybox",
        "udhcpc",
        "-i",
        "eth0",
        "-n",
        "-q",
        "-f",
        "-t",
        "8",
        "-T",
        "1",
        "-s",
        "/bin/true",
    ];
    run("ip", &[&client[..], options].concat());
}

#[test]
fn what_the_host_says_to_all_is_heard_by_no_guest_but_the_one_that_asked() {
    in_a_lab(|ground| {
        let network = network(ground);
        let (guest, other) = (Impostor::plug_in(&network, 1), Impostor::plug_in(&network, 2));
        for guest in [&guest, &other] {
            // What the switch says of an interface that is elsewhere by now is not asked here.
            let desc = run("ovs-ofctl", &["dump-ports-desc", BRIDGE]);
            let number = format!(" {}(", guest.port.plug.number());
            let own = desc
                .split(&number)
                .nth(1)
                .expect("a port")
                .lines()
                .nth(1)
                .expect("a line");
            assert!(own.contains("NO_FLOOD"), "{desc}");
        }
        let before = [handed(&guest), handed(&other)];
        let everybody = UdpSocket::bind((GATEWAY, 0)).expect("a socket");
        everybody.set_broadcast(true).expect("may");
        for to in ["10.77.0.255:9", "224.0.0.251:5353"] {
            everybody.send_to(b"everybody", to).expect("sent");
        }
        // Nobody has this address; whoever has it would be asked for.
        TcpStream::connect_timeout(&"10.77.0.99:9".parse().expect("an address"), SOON).expect_err("nobody");
        assert_eq!([handed(&guest), handed(&other)], before);
        if std::path::Path::new("/usr/bin/busybox").exists() {
            guest.ip(&["addr", "flush", "dev", "eth0"]);
            let heard = handed(&other);
            asks_for_an_address(&guest, &[]);
            asks_for_an_address(&guest, &["-B"]);
            assert_eq!(handed(&other), heard, "an answer to all is the asking guest's alone");
            other.ip(&["addr", "flush", "dev", "eth0"]);
            asks_for_an_address(&other, &["-B"]);
        } else {
            println!("not run: busybox is not installed");
        }
        // A removed reservation is forgotten, because the one that reads them is found and told.
        let log = || std::fs::read_to_string("/run/dnsmasq.log").expect("a log");
        let read = log().matches("cleared cache").count();
        for guest in [guest, other] {
            network.ensure_no_port(&guest.port.plug).expect("unplugged");
        }
        let until = std::time::Instant::now() + PATIENCE;
        while log().matches("cleared cache").count() == read {
            assert!(std::time::Instant::now() < until, "never told:\n{}", log());
            std::thread::park_timeout(Duration::from_millis(50));
        }
    });
}
