//! What somebody does to a host by hand, on a real switch and beside a real VM: it is seen, and what was promised to
//! stand is made again; a VM that was stopped is not started behind its tenant's back, and is told of.

use std::fs;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use host::real::Network as Real;
use host::{Network, Plug, Port};
use model::held::{HeldPayload, HeldPower};
use model::id::AllocationId;
use model::socket::{FromAgent, FromExecutor};
use model::task::vm_provision::Params;

use super::ground::{BRIDGE, Ground, ROOT};
use super::{in_a_lab, run};
use crate::place::{Agent, Place};

/// Several times what it takes at most.
const PATIENCE: Duration = Duration::from_secs(120);

/// Those that stay: the one for an answer of DHCP's goes by itself.
fn flows() -> Vec<String> {
    let all = run("ovs-ofctl", &["--no-stats", "dump-flows", BRIDGE]);
    let stay = all.lines().filter(|line| !line.contains(" hard_timeout="));
    let mut lines: Vec<String> = stay.map(|line| line.trim().to_owned()).collect();
    lines.sort();
    lines
}

#[test]
fn a_port_that_somebody_has_changed_is_seen_and_made_again() {
    in_a_lab(|ground| {
        let network = Real::new(ground.network.clone());
        let allocation = AllocationId::new();
        let port = |slot_index: u32, ip| Port {
            plug: Plug {
                vm: format!("vm-{slot_index}").parse().expect("a name"),
                allocation,
                slot_index,
            },
            bridge: BRIDGE.parse().expect("a name"),
            mac: format!("02:00:00:00:00:{slot_index:02x}").parse().expect("an address"),
            ip,
        };
        let (ours, beside) = (
            port(1, Ipv4Addr::new(10, 77, 0, 21)),
            port(2, Ipv4Addr::new(10, 77, 0, 22)),
        );
        for port in [&ours, &beside] {
            network.ensure_port(port).expect("plugged in");
        }
        let before = flows();
        let cookie = before.iter().find(|line| line.contains("nw_src=10.77.0.21"));
        let cookie = cookie
            .and_then(|line| line.split(',').next())
            .expect("a cookie")
            .to_owned();
        let (hosts, interface) = (format!("{ROOT}/hosts/vm-1"), ours.plug.interface());
        let line = fs::read_to_string(&hosts).expect("its address");
        let ofctl = |verb: &str, what: &str| drop(run("ovs-ofctl", &[verb, BRIDGE, what]));
        let spoil: [(&str, &dyn Fn()); 7] = [
            ("what is for everybody is for it", &|| {
                drop(run("ovs-ofctl", &["mod-port", BRIDGE, "1001", "flood"]));
            }),
            ("flows are gone", &|| ofctl("del-flows", &format!("{cookie}/-1,udp"))),
            ("as many, that lead elsewhere", &|| {
                ofctl("mod-flows", &format!("{cookie}/-1,tcp,actions=NORMAL"));
            }),
            ("one more", &|| {
                ofctl(
                    "add-flow",
                    &format!("{cookie},priority=999,in_port=1001,actions=NORMAL"),
                );
            }),
            ("no address", &|| fs::remove_file(&hosts).expect("removed")),
            ("another address", &|| {
                fs::write(&hosts, line.replace("10.77.0.21", "10.77.0.29")).expect("written");
            }),
            ("pulled out", &|| {
                drop(run("ovs-vsctl", &["del-port", BRIDGE, &interface]))
            }),
        ];
        for (what, spoil) in spoil {
            assert!(network.is_whole(&ours).expect("looked at"), "before: {what}");
            spoil();
            assert!(!network.is_whole(&ours).expect("looked at"), "{what}");
            assert!(network.is_whole(&beside).expect("looked at"), "the other one: {what}");
            network.ensure_port(&ours).expect("made again");
            assert_eq!(flows(), before, "{what}");
            assert_eq!(fs::read_to_string(&hosts).expect("its address"), line, "{what}");
        }
        for port in [ours, beside] {
            network.ensure_no_port(&port.plug).expect("unplugged");
        }
    });
}

/// As the executor signs it.
fn power(place: &Place, agent: &mut Agent, params: &Params) -> HeldPower {
    agent.send(&FromAgent::Held { request_id: 77 });
    let envelope = agent.wait("what is held", |said| match said {
        FromExecutor::Held { envelope, .. } => Some(envelope),
        _ => None,
    });
    let key = place.result_public.expect("enrolled");
    let list = HeldPayload::open(&envelope, &key).expect("signed by this executor");
    let held = list.holds.slices.iter();
    let held = held.filter(|held| held.allocation_id == params.allocation_id);
    held.map(|held| held.power).next().expect("it is held")
}

/// Beside a VM that stands, with the executor's own upkeep. Leaves it switched off.
pub(super) fn mends(ground: &Ground, place: &Place, agent: &mut Agent, params: &Params) {
    assert_eq!(power(place, agent, params), HeldPower::Running);
    let (before, hosts) = (flows(), format!("{ROOT}/hosts/{}", params.vm_name));
    let line = fs::read_to_string(&hosts).expect("its address");
    let ports = || run("ovs-vsctl", &["list-ports", BRIDGE]).trim().to_owned();
    let port = ports();
    let vm = params.vm_name.as_str();
    run("virsh", &["-c", &ground.machines.uri, "destroy", vm]);
    run("ovs-vsctl", &["del-port", BRIDGE, &port]);
    run("ovs-ofctl", &["del-flows", BRIDGE, "udp"]);
    fs::remove_file(&hosts).expect("removed");
    assert!(flows() != before && ports().is_empty(), "it was done");
    let began = Instant::now();
    while flows() != before || ports() != port || fs::read_to_string(&hosts).ok().as_ref() != Some(&line) {
        assert!(began.elapsed() < PATIENCE, "{:?} {:?}", flows(), ports());
        std::thread::park_timeout(Duration::from_millis(200));
    }
    println!("lab: put back after {} ms", began.elapsed().as_millis());
    assert_eq!(power(place, agent, params), HeldPower::Off, "it is told of");
    let state = run("virsh", &["-c", &ground.machines.uri, "domstate", vm]);
    assert_eq!(state.trim(), "shut off", "and stays as it is");
}
