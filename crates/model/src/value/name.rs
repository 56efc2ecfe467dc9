//! Account and machine names: what every tool on a host takes for one plain word.

use std::fmt;
use std::str::FromStr;

/// `[a-z][a-z0-9-]{0,30}` and none of the names that belong to the host or to us.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("a name is a letter and up to 30 more of a-z, 0-9 and -")]
    Malformed,
    #[error("this name is reserved")]
    Reserved,
}

const RESERVED: &[&str] = &["root", "alloc", "qemu"];
const RESERVED_PREFIXES: &[&str] = &["gpuaas", "libvirt"];

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        let mut bytes = text.bytes();
        let head = bytes.next().is_some_and(|b| b.is_ascii_lowercase());
        let tail = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !head || !tail || text.len() > 31 {
            return Err(NameError::Malformed);
        }
        if RESERVED.contains(&text) || RESERVED_PREFIXES.iter().any(|p| text.starts_with(p)) {
            return Err(NameError::Reserved);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

crate::text_serde!(Name, "Name", "^[a-z][a-z0-9-]{0,30}$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_words_are_names() {
        for good in ["a", "ada", "t-1", "abcdefghijklmnopqrstuvwxyz01234"] {
            assert!(good.parse::<Name>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "1a",
            "A",
            "a_b",
            "a.b",
            "a/b",
            "a b",
            "a\n",
            "a;b",
            "ä",
            "abcdefghijklmnopqrstuvwxyz012345",
        ] {
            assert_eq!(bad.parse::<Name>(), Err(NameError::Malformed), "{bad:?}");
        }
        for reserved in ["root", "alloc", "qemu", "gpuaas", "gpuaas-x", "libvirt-qemu"] {
            assert_eq!(reserved.parse::<Name>(), Err(NameError::Reserved), "{reserved}");
        }
    }
}
