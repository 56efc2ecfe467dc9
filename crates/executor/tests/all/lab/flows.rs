//! Flows of a port that is made again while its guest talks: whoever looks, at whichever moment, finds all of them.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};

use host::real::{self, Network as Real};
use host::{Network, Plug, Port};
use model::id::AllocationId;

use super::ground::BRIDGE;
use super::{in_a_lab, run};

#[test]
fn flows_that_are_set_anew_are_never_missing() {
    in_a_lab(|ground| {
        let network = Real::new(ground.network.clone());
        let port = Port {
            plug: Plug {
                vm: "vm-1".parse().expect("a name"),
                allocation: AllocationId::new(),
                slot_index: 1,
            },
            bridge: BRIDGE.parse().expect("a name"),
            mac: "02:00:00:00:00:01".parse().expect("an address"),
            ip: Ipv4Addr::new(10, 77, 0, 21),
        };
        let own = format!("cookie={:#x}/-1", real::cookie(&port.plug.vm));
        let count = || {
            let all = run("ovs-ofctl", &["dump-flows", BRIDGE, &own]);
            all.lines().filter(|line| line.contains("actions=")).count()
        };
        network.ensure_port(&port).expect("plugged in");
        let (all, done) = (count(), AtomicBool::new(false));
        assert!(all > 10, "{all}");
        let (least, looks) = std::thread::scope(|scope| {
            let looker = scope.spawn(|| {
                let (mut least, mut looks) = (all, 0);
                while !done.load(Ordering::Relaxed) {
                    least = least.min(count());
                    looks += 1;
                }
                (least, looks)
            });
            for _ in 0..20 {
                network.ensure_port(&port).expect("made again");
            }
            done.store(true, Ordering::Relaxed);
            looker.join().expect("no panic")
        });
        assert!(looks >= 20, "it was looked only {looks} times");
        assert_eq!(least, all, "at one of {looks} looks");
        network.ensure_no_port(&port.plug).expect("unplugged");
    });
}
