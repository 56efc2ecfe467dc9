//! An IPv4 network as local policy names it: base address and prefix length, with no bits beyond the prefix.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ipv4Cidr {
    base: Ipv4Addr,
    prefix: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a network is written a.b.c.d/n, n from 8 to 30, with no bits set beyond n")]
pub struct Ipv4CidrError;

/// Below the first slot's address there is room for the bridge, DNS and whatever else the host keeps there.
const FIRST_SLOT: u32 = 10;

impl Ipv4Cidr {
    pub const fn base(self) -> Ipv4Addr {
        self.base
    }

    pub const fn prefix(self) -> u8 {
        self.prefix
    }

    pub fn contains(self, address: Ipv4Addr) -> bool {
        let host_bits = 32 - u32::from(self.prefix);
        u32::from(address) >> host_bits == u32::from(self.base) >> host_bits
    }

    /// Base + 10 + index. None where the network has no such address, or it would be the broadcast address.
    pub fn of_slot(self, slot_index: u32) -> Option<Ipv4Addr> {
        let size = 1u32 << (32 - u32::from(self.prefix));
        let offset = slot_index.checked_add(FIRST_SLOT).filter(|offset| *offset < size - 1)?;
        Some(Ipv4Addr::from(u32::from(self.base) + offset))
    }
}

impl FromStr for Ipv4Cidr {
    type Err = Ipv4CidrError;
    fn from_str(text: &str) -> Result<Self, Ipv4CidrError> {
        let (base, prefix) = text.split_once('/').ok_or(Ipv4CidrError)?;
        let base: Ipv4Addr = base.parse().map_err(|_| Ipv4CidrError)?;
        let prefix: u8 = prefix.parse().map_err(|_| Ipv4CidrError)?;
        if !(8..=30).contains(&prefix) {
            return Err(Ipv4CidrError);
        }
        let network = Self { base, prefix };
        let beyond = u32::from(base) & ((1 << (32 - u32::from(prefix))) - 1);
        if beyond == 0 && network.to_string() == text {
            Ok(network)
        } else {
            Err(Ipv4CidrError)
        }
    }
}

impl fmt::Display for Ipv4Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

impl fmt::Debug for Ipv4Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

crate::text_serde!(Ipv4Cidr, "Ipv4Cidr", "^[0-9]{1,3}(\\.[0-9]{1,3}){3}/[0-9]{1,2}$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_addresses_until_the_network_ends() {
        let network: Ipv4Cidr = "10.77.4.0/28".parse().expect("a network");
        assert_eq!(network.of_slot(0), Some(Ipv4Addr::new(10, 77, 4, 10)));
        assert_eq!(network.of_slot(4), Some(Ipv4Addr::new(10, 77, 4, 14)));
        assert_eq!(network.of_slot(5), None, "the broadcast address");
        assert_eq!(network.of_slot(u32::MAX), None);
        assert!(network.contains(Ipv4Addr::new(10, 77, 4, 15)) && !network.contains(Ipv4Addr::new(10, 77, 4, 16)));
        for bad in [
            "10.0.0.1/24",
            "10.0.0.0",
            "10.0.0.0/31",
            "10.0.0.0/7",
            "10.0.0.0/024",
            "x/8",
            "10.0.0.0/-1",
        ] {
            assert_eq!(bad.parse::<Ipv4Cidr>(), Err(Ipv4CidrError), "{bad}");
        }
    }
}
