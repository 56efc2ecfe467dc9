//! The address of a PCI function as the kernel writes it, and only so: one text per function.

use std::fmt;
use std::str::FromStr;

/// `dddd:bb:dd.f`, lower hex; a domain beyond four digits (a controller's own bus) is written without leading zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pci {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a PCI address is dddd:bb:dd.f in lower hex")]
pub struct PciError;

impl Pci {
    /// None where a device or function number is too large.
    pub const fn new(domain: u32, bus: u8, device: u8, function: u8) -> Option<Self> {
        if device > 31 || function > 7 {
            return None;
        }
        Some(Self {
            domain,
            bus,
            device,
            function,
        })
    }

    /// Do both belong to one physical device, as a GPU's display and audio functions do?
    pub fn same_device(self, other: Self) -> bool {
        (self.domain, self.bus, self.device) == (other.domain, other.bus, other.device)
    }
}

impl FromStr for Pci {
    type Err = PciError;
    fn from_str(text: &str) -> Result<Self, PciError> {
        let (rest, function) = text.rsplit_once('.').ok_or(PciError)?;
        let mut parts = rest.split(':');
        let (domain, bus, device) = (parts.next(), parts.next(), parts.next());
        let (Some(domain), Some(bus), Some(device), None) = (domain, bus, device, parts.next()) else {
            return Err(PciError);
        };
        let byte = |text| u8::from_str_radix(text, 16).map_err(|_| PciError);
        let domain = u32::from_str_radix(domain, 16).map_err(|_| PciError)?;
        let pci = Self::new(domain, byte(bus)?, byte(device)?, byte(function)?).ok_or(PciError)?;
        // No second spelling: no capitals, signs or missing zeros.
        if pci.to_string() == text {
            Ok(pci)
        } else {
            Err(PciError)
        }
    }
}

impl fmt::Display for Pci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

impl fmt::Debug for Pci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

crate::text_serde!(Pci, "Pci", "^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\\.[0-7]$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_per_function() {
        for good in ["0000:17:00.0", "ffff:ff:1f.7", "10000:01:00.0"] {
            assert_eq!(good.parse::<Pci>().map(|pci| pci.to_string()), Ok(good.to_owned()));
        }
        for bad in [
            "",
            "0000:17:00",
            "17:00.0",
            "0000:17:20.0",
            "0000:17:00.8",
            "0000:AB:00.0",
            "00000:17:00.0",
            "+000:17:00.0",
            "0000:17:00.0\n",
            "../0000:17:00.0",
            "0000:17:00.00",
            "0000:17:00.0:1",
        ] {
            assert_eq!(bad.parse::<Pci>(), Err(PciError), "{bad:?}");
        }
    }
}
