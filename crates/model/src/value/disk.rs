//! Which disk is meant: its name, and beside it what only that disk can answer. Names lie (a device may carry another
//! disk's number after a reboot), so nobody writes to a disk that is known by name alone.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DiskId;

/// What a disk says of itself: a serial number or a world-wide name. Printable ASCII without quotes or backslashes,
/// up to 160 characters, no blank at either end.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Serial(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a serial number is 1 to 160 printable ASCII characters without quotes")]
pub struct SerialError;

impl Serial {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Serial {
    type Err = SerialError;
    fn from_str(text: &str) -> Result<Self, SerialError> {
        let printable = |b: u8| (b' '..=b'~').contains(&b) && !matches!(b, b'"' | b'\'' | b'\\' | b'`');
        let fits = (1..=160).contains(&text.len()) && text.bytes().all(printable);
        if fits && text.trim() == text {
            Ok(Self(text.to_owned()))
        } else {
            Err(SerialError)
        }
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

crate::text_serde!(Serial, "Serial", "^[!#-&(-Z^_a-~\\]\\[ -]{1,160}$");

/// All four must be equal, or it is another disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskIdentity {
    pub by_id: DiskId,
    pub serial: Serial,
    pub wwn: Serial,
    pub size_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_number_is_plain_text() {
        for good in [
            "S6CKNT0W",
            "eui.0025385b21404321",
            "nvme.144d-5336-00000001",
            "PHLJ 0001",
        ] {
            assert!(good.parse::<Serial>().is_ok(), "{good}");
        }
        let long = "x".repeat(161);
        for bad in ["", " a", "a ", "a\nb", "a\"b", "a`b", "a\\b", "é", &long] {
            assert_eq!(bad.parse::<Serial>(), Err(SerialError), "{bad:?}");
        }
    }
}
