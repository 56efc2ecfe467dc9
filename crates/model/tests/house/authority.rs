//! What is compiled in is authority. The root half of a node has no code that talks to a network, the
//! network half none that touches the machine, and no control plane process can contain either.

use crate::graph::graph;
use crate::tree;

/// Crates that open network connections: names, or beginnings of names ending in `*`.
const NETWORK: &str = "
    tokio tokio-* mio socket2 async-std async-io async-net smol polling libp2p libp2p-* zmq
    hyper hyper-* h2 h3 h3-* quinn quinn-* axum axum-* tower tower-* warp actix-* tonic tonic-*
    reqwest ureq ureq-* isahc curl curl-* attohttpc minreq tiny_http rouille tungstenite
    rustls rustls-native-certs rustls-platform-verifier native-tls openssl openssl-* russh russh-* ssh2 hickory-* trust-dns-* rtnetlink
    sqlx sqlx-* postgres redis async-nats nats
";

fn is_network(name: &str) -> bool {
    NETWORK.split_whitespace().any(|deny| match deny.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == deny,
    })
}

fn assert_none(of: &str, deny: impl Fn(&str) -> bool) {
    if !graph().our_names().contains(of) {
        return; // comes with a later crate
    }
    let linked = graph().linked_into(of);
    let wrong: Vec<&str> = linked.iter().map(|p| p.name.as_str()).filter(|n| deny(n)).collect();
    assert!(wrong.is_empty(), "{of} links {wrong:?}");
}

#[test]
fn the_executor_links_no_network_crate() {
    assert_none("executor", is_network);
    assert_none("executor", |name| ["wire", "base", "agent", "vetting"].contains(&name));
}

/// The check above can fail: the agent does link them.
#[test]
fn a_network_crate_would_be_seen() {
    let linked = graph().linked_into("agent");
    assert!(
        linked.iter().any(|p| is_network(&p.name)),
        "the agent has lost its network"
    );
}

/// Without a crate there is still the standard library.
#[test]
fn the_root_half_does_not_name_the_standard_sockets() {
    let words = ["TcpStream", "TcpListener", "UdpSocket", "ToSocketAddrs"];
    let mut wrong = Vec::new();
    for file in tree::rust_files() {
        if file.ships() && file.is_in_crate(&["executor", "host", "steps", "model"]) {
            let found = words.iter().filter(|w| file.text.contains(**w));
            wrong.extend(found.map(|w| format!("{}: {w}", file.path)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_control_plane_crate_can_touch_a_machine() {
    for of in [
        "base",
        "fleet",
        "money",
        "allocation",
        "live",
        "apps",
        "control",
        "temporal",
        "cli",
    ] {
        assert_none(of, |name| ["host", "executor", "vetting"].contains(&name));
    }
}

#[test]
fn the_agent_has_no_hands() {
    assert_none("agent", |name| {
        ["host", "executor", "vetting", "base", "steps"].contains(&name)
    });
}

#[test]
fn one_crypto_provider() {
    for package in graph().ours() {
        assert_none(&package.name, |name| {
            ["ring", "openssl-sys", "native-tls"].contains(&name)
        });
    }
}
