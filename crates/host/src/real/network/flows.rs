//! What a guest's port may do, as flows. Everything a guest sends goes to the host or nowhere, never to another port;
//! everything not named is dropped. They are written before the port exists, so that there is no moment without them.

use std::net::Ipv4Addr;

use model::digest::Sha256;
use model::value::{Ipv4Cidr, Name};

use crate::Port;

/// Nothing there is for guests: this host, local links, private networks, groups, and what is reserved.
const CLOSED: [&str; 11] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
];

pub(crate) const TELEMETRY: u16 = 9110;
const DNS: u16 = 53;
/// The flow by which an answer to all gets to the one that asked last: from the host, of DHCP, for seconds only.
const ANSWER: &str = "table=0,hard_timeout=4,priority=110,in_port=65534,eth_dst=ff:ff:ff:ff:ff:ff,eth_type=0x800,nw_proto=17,\
    udp_src=67,udp_dst=68,output:NXM_OF_IN_PORT[]";
const SSH: u16 = 22;

/// What the flows of a port depend on besides the port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The bridge's own address: DHCP, DNS and telemetry are there.
    pub gateway: Option<Ipv4Addr>,
    /// Every address of this host.
    pub own: Vec<Ipv4Addr>,
    /// Closed networks that local policy opens to guests.
    pub reachable: Vec<Ipv4Cidr>,
}

/// By which all flows of a VM are found again.
pub fn cookie(vm: &Name) -> u64 {
    let digest = Sha256::of(format!("gpuaas port {vm}").as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest.as_bytes()[..8]);
    // All ones would mean every flow there is.
    u64::from_be_bytes(bytes) >> 1
}

/// How the switch is asked for them.
pub(super) fn all_of(vm: &Name) -> String {
    format!("cookie={:#x}/-1", cookie(vm))
}

/// The flows of a port, and before them, in the same file, the order to forget whatever has their cookie.
pub(super) fn instead(port: &Port, around: &Surroundings) -> String {
    format!("delete {}\n{}", all_of(&port.plug.vm), flows(port, around))
}

/// One flow per line, the most particular first.
pub fn flows(port: &Port, around: &Surroundings) -> String {
    let Port { mac, ip, .. } = port;
    let (number, cookie) = (port.plug.number(), cookie(&port.plug.vm));
    let mut lines = Vec::new();
    let mut flow = |priority: u32, matches: String, actions: &str| {
        lines.push(format!(
            "cookie={cookie:#018x},priority={priority},{matches},actions={actions}"
        ));
    };
    // A frame with a VLAN's tag is an IP packet to the switch all the same, and to the host in another network.
    let from = format!("in_port={number},vlan_tci=0x0000/0x1fff,dl_src={mac}");
    // Asking for its address, before it has one and after. Whoever wants the answer sent to all is for a moment the one
    // who hears what is.
    flow(
        400,
        format!("{from},udp,nw_src=0.0.0.0,nw_dst=255.255.255.255,tp_src=68,tp_dst=67"),
        &format!("learn({ANSWER}),LOCAL"),
    );
    if let Some(gateway) = around.gateway {
        let to = format!("nw_src={ip},nw_dst={gateway}");
        flow(
            400,
            format!("{from},arp,arp_spa={ip},arp_sha={mac},arp_tpa={gateway}"),
            "LOCAL",
        );
        flow(400, format!("{from},udp,{to},tp_src=68,tp_dst=67"), "LOCAL");
        flow(400, format!("{from},udp,{to},tp_dst={DNS}"), "LOCAL");
        flow(400, format!("{from},tcp,{to},tp_dst={DNS}"), "LOCAL");
        flow(400, format!("{from},tcp,{to},tp_dst={TELEMETRY}"), "LOCAL");
        // Answers to our own ssh; without ACK nothing can be begun from there.
        flow(400, format!("{from},tcp,{to},tp_src={SSH},tcp_flags=+ack"), "LOCAL");
    }
    for own in &around.own {
        flow(300, format!("in_port={number},ip,nw_dst={own}"), "drop");
    }
    for open in &around.reachable {
        flow(200, format!("{from},ip,nw_src={ip},nw_dst={open}"), "LOCAL");
    }
    for closed in CLOSED {
        flow(150, format!("in_port={number},ip,nw_dst={closed}"), "drop");
    }
    flow(100, format!("{from},ip,nw_src={ip}"), "LOCAL");
    flow(50, format!("in_port={number}"), "drop");
    // To the guest, from the host alone.
    flow(
        100,
        format!("in_port=LOCAL,vlan_tci=0x0000/0x1fff,dl_dst={mac},ip,nw_dst={ip}"),
        &format!("output:{number}"),
    );
    flow(
        100,
        format!("in_port=LOCAL,vlan_tci=0x0000/0x1fff,arp,arp_tpa={ip}"),
        &format!("output:{number}"),
    );
    flow(90, format!("dl_dst={mac}"), "drop");
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plug;

    #[test]
    fn the_old_ones_go_by_the_first_line_of_the_file_that_brings_the_new_ones() {
        let port = Port {
            plug: Plug {
                vm: "ada".parse().expect("a name"),
                allocation: model::id::AllocationId::new(),
                slot_index: 3,
            },
            bridge: "br-slices".parse().expect("a name"),
            mac: "02:00:00:00:00:03".parse().expect("an address"),
            ip: Ipv4Addr::new(10, 77, 0, 13),
        };
        let around = Surroundings::default();
        let told = instead(&port, &around);
        let (first, rest) = told.split_once('\n').expect("lines");
        assert_eq!(first, format!("delete cookie={:#x}/-1", cookie(&port.plug.vm)));
        assert_eq!(rest, flows(&port, &around));
        // They have the cookie by which they go.
        let own = format!("cookie={:#018x},", cookie(&port.plug.vm));
        assert!(rest.lines().all(|line| line.starts_with(&own)), "{rest}");
    }
}
