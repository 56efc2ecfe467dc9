//! Interfaces and addresses of the host, as the kernel's own tables have them.

use std::fs;
use std::net::Ipv4Addr;

use model::value::Name;

use crate::Result;
use crate::error::Doing;

pub(super) fn has_interface(name: &str) -> Result<bool> {
    let path = "/proc/thread-self/net/dev";
    let list = fs::read_to_string(path).doing(|| format!("read {path}"))?;
    let named = |line: &str| line.split_once(':').is_some_and(|(found, _)| found.trim() == name);
    Ok(list.lines().any(named))
}

/// Every address that the kernel answers to, from its own table: no program, no socket.
pub(super) fn own_addresses() -> Result<Vec<Ipv4Addr>> {
    let path = "/proc/thread-self/net/fib_trie";
    let trie = fs::read_to_string(path).doing(|| format!("read {path}"))?;
    let mut found = Vec::new();
    let mut last = None;
    for line in trie.lines() {
        if let Some((_, rest)) = line.split_once("|-- ") {
            last = rest.trim().parse::<Ipv4Addr>().ok();
        } else if line.contains("/32 host LOCAL") {
            found.extend(last);
        }
    }
    found.sort();
    found.dedup();
    found.retain(|address| !address.is_loopback());
    Ok(found)
}

/// The bridge's own address: the local one inside the network that is routed through it.
pub(super) fn address_of(bridge: &Name) -> Result<Option<Ipv4Addr>> {
    let path = "/proc/thread-self/net/route";
    let routes = fs::read_to_string(path).doing(|| format!("read {path}"))?;
    let own = own_addresses()?;
    let hex = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::swap_bytes);
    for line in routes.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, to, gateway, .., mask, _, _, _] = fields[..] else {
            continue;
        };
        let (Some(to), Some(mask)) = (hex(to), hex(mask)) else {
            continue;
        };
        if name == bridge.as_str() && gateway == "00000000" && mask != 0 {
            return Ok(own.into_iter().find(|address| u32::from(*address) & mask == to));
        }
    }
    Ok(None)
}
