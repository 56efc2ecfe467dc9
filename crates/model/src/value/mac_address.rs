//! Hardware addresses of guests: unicast, in one spelling; and the one that belongs to a slot for good.

use std::fmt;
use std::str::FromStr;

use crate::digest::Sha256;
use crate::id::NodeId;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddress([u8; 6]);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a MAC address of a guest is six pairs of lower hex, unicast and not zero")]
pub struct MacAddressError;

impl MacAddress {
    /// `02:` and five bytes of SHA-256(`node_id|slot_index`): the same slot always has the same one.
    pub fn of_slot(node: NodeId, slot_index: u32) -> Self {
        let digest = Sha256::of(format!("{node}|{slot_index}").as_bytes());
        let [a, b, c, d, e, ..] = *digest.as_bytes();
        Self([2, a, b, c, d, e])
    }

    pub const fn bytes(self) -> [u8; 6] {
        self.0
    }
}

impl FromStr for MacAddress {
    type Err = MacAddressError;
    fn from_str(text: &str) -> Result<Self, MacAddressError> {
        let mut bytes = [0; 6];
        let mut pairs = text.split(':');
        for byte in &mut bytes {
            let pair = pairs.next().ok_or(MacAddressError)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| MacAddressError)?;
        }
        let mac = Self(bytes);
        // No second spelling, nobody's group address, not the address of nobody.
        if mac.to_string() == text && bytes[0] & 1 == 0 && bytes != [0; 6] {
            Ok(mac)
        } else {
            Err(MacAddressError)
        }
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

crate::text_serde!(MacAddress, "MacAddress", "^[0-9a-f][02468ace](:[0-9a-f]{2}){5}$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_its_address() {
        let node: NodeId = "node_00000000000000000000000000".parse().expect("a node");
        let mac = MacAddress::of_slot(node, 3);
        assert_eq!(mac, MacAddress::of_slot(node, 3));
        assert_ne!(mac, MacAddress::of_slot(node, 4));
        let digest = Sha256::of(b"node_00000000000000000000000000|3").to_string();
        assert_eq!(mac.to_string().replace(':', ""), format!("02{}", &digest[..10]));
        assert_eq!(mac.to_string().parse(), Ok(mac));
    }

    #[test]
    fn one_spelling_and_unicast_only() {
        for bad in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:00:00",
            "02:00:00:00:00:0",
            "02:00:00:00:00:0G",
            "02:AB:00:00:00:00",
            "01:00:5e:00:00:01",
            "ff:ff:ff:ff:ff:ff",
            "00:00:00:00:00:00",
            "02:00:00:00:00:+1",
        ] {
            assert_eq!(bad.parse::<MacAddress>(), Err(MacAddressError), "{bad:?}");
        }
    }
}
