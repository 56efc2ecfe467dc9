//! Names of files, never paths; and the name of a disk below `/dev/disk/by-id`, which is one of them.

use std::fmt;
use std::str::FromStr;

const MAX: usize = 128;

/// `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileName(String);

/// A [`FileName`] that begins with `nvme-`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DiskId(FileName);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileNameError {
    #[error("a file name is a letter or digit and up to 127 more of A-Z, a-z, 0-9, '.', '_' and '-'; never a path")]
    Malformed,
    #[error("a disk is named as in /dev/disk/by-id, and begins with nvme-")]
    NotADisk,
}

impl FileName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl DiskId {
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for FileName {
    type Err = FileNameError;
    fn from_str(text: &str) -> Result<Self, FileNameError> {
        let head = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let fits = text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if head && fits && text.len() <= MAX {
            Ok(Self(text.to_owned()))
        } else {
            Err(FileNameError::Malformed)
        }
    }
}

impl FromStr for DiskId {
    type Err = FileNameError;
    fn from_str(text: &str) -> Result<Self, FileNameError> {
        let name: FileName = text.parse()?;
        match text.strip_prefix("nvme-") {
            Some(rest) if !rest.is_empty() => Ok(Self(name)),
            Some(_) | None => Err(FileNameError::NotADisk),
        }
    }
}

macro_rules! shows_as_text {
    ($name:ident, $title:literal, $pattern:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        crate::text_serde!($name, $title, $pattern);
    };
}
shows_as_text!(FileName, "FileName", "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$");
shows_as_text!(DiskId, "DiskId", "^nvme-[A-Za-z0-9._-]{1,123}$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_a_path() {
        for good in ["a", "9", "debian-12.qcow2", "A_b-c.d"] {
            assert!(good.parse::<FileName>().is_ok(), "{good}");
        }
        let long = "x".repeat(129);
        for bad in [
            "", ".", "..", ".hidden", "-rf", "a/b", "/a", "a\0b", "a b", "a\n", "ä", &long,
        ] {
            assert_eq!(bad.parse::<FileName>(), Err(FileNameError::Malformed), "{bad:?}");
        }
        assert!("nvme-Samsung_SSD_S1".parse::<DiskId>().is_ok());
        for bad in ["nvme-", "nvme0n1", "wwn-0x5", "nvme-../sda", "nvme-a/b"] {
            assert!(bad.parse::<DiskId>().is_err(), "{bad:?}");
        }
    }
}
