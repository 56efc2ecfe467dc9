//! A public SSH key as a tenant may give it: type and blob, nothing else. Options (`command=`, `from=`),
//! certificate authorities, second lines and weak RSA do not parse; comments are dropped.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64;

const MAX_TEXT: usize = 8 * 1024;
const MIN_RSA_BITS: usize = 3072;

const TYPES: &[&str] = &[
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// Displays as `type blob`: exactly what is written into `authorized_keys`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SshKey {
    kind: &'static str,
    blob: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SshKeyError {
    #[error("an SSH public key is one line of at most 8 KiB: type, base64, optional comment")]
    Malformed,
    #[error(
        "the key type must come first and be one of ssh-ed25519, ecdsa, ssh-rsa or a security key; options are not accepted"
    )]
    KindRefused,
    #[error("an RSA key needs at least {MIN_RSA_BITS} bits, this one has {bits}")]
    RsaTooShort { bits: usize },
}

impl FromStr for SshKey {
    type Err = SshKeyError;
    fn from_str(text: &str) -> Result<Self, SshKeyError> {
        if text.len() > MAX_TEXT {
            return Err(SshKeyError::Malformed);
        }
        let line = text.trim_end_matches(['\n', '\r', ' ']);
        if line.chars().any(char::is_control) {
            return Err(SshKeyError::Malformed);
        }
        let mut words = line.split(' ').filter(|w| !w.is_empty());
        let kind = words.next().ok_or(SshKeyError::Malformed)?;
        let kind = *TYPES.iter().find(|t| **t == kind).ok_or(SshKeyError::KindRefused)?;
        let body = words.next().ok_or(SshKeyError::Malformed)?;
        let blob = BASE64.decode(body.as_bytes()).map_err(|_| SshKeyError::Malformed)?;
        check_blob(kind, &blob)?;
        Ok(Self { kind, blob })
    }
}

/// The blob names its own type and must hold together to its last byte.
fn check_blob(kind: &str, blob: &[u8]) -> Result<(), SshKeyError> {
    let (inner, mut rest) = field(blob)?;
    if inner != kind.as_bytes() {
        return Err(SshKeyError::Malformed);
    }
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let (value, tail) = field(rest)?;
        fields.push(value);
        rest = tail;
    }
    let well_formed = match (kind, fields.as_slice()) {
        ("ssh-ed25519", [key]) => key.len() == 32,
        ("sk-ssh-ed25519@openssh.com", [key, application]) => key.len() == 32 && !application.is_empty(),
        ("sk-ecdsa-sha2-nistp256@openssh.com", [curve, point, application]) => {
            *curve == b"nistp256" && point.len() == 65 && !application.is_empty()
        }
        ("ssh-rsa", [exponent, modulus]) => {
            let bits = bit_length(modulus);
            if bits < MIN_RSA_BITS {
                return Err(SshKeyError::RsaTooShort { bits });
            }
            bits <= 16384 && bit_length(exponent) >= 2
        }
        (ecdsa, [curve, point]) => match ecdsa.strip_prefix("ecdsa-sha2-") {
            Some("nistp256") => *curve == b"nistp256" && point.len() == 65,
            Some("nistp384") => *curve == b"nistp384" && point.len() == 97,
            Some("nistp521") => *curve == b"nistp521" && point.len() == 133,
            _ => false,
        },
        _ => false,
    };
    if well_formed {
        Ok(())
    } else {
        Err(SshKeyError::Malformed)
    }
}

fn field(bytes: &[u8]) -> Result<(&[u8], &[u8]), SshKeyError> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or(SshKeyError::Malformed)?;
    let length = u32::from_be_bytes(*length) as usize;
    if length > rest.len() {
        return Err(SshKeyError::Malformed);
    }
    Ok(rest.split_at(length))
}

fn bit_length(mpint: &[u8]) -> usize {
    let significant = mpint.iter().skip_while(|b| **b == 0).collect::<Vec<_>>();
    match significant.first() {
        Some(first) => significant.len() * 8 - first.leading_zeros() as usize,
        None => 0,
    }
}

impl fmt::Display for SshKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, BASE64.encode(&self.blob))
    }
}

impl fmt::Debug for SshKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

crate::text_serde!(SshKey, "SshKey", "^[a-z0-9@.-]+ [A-Za-z0-9+/=]+( .*)?$");

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(fields: &[&[u8]]) -> String {
        let mut out = Vec::new();
        for field in fields {
            out.extend_from_slice(&(field.len() as u32).to_be_bytes());
            out.extend_from_slice(field);
        }
        BASE64.encode(&out)
    }

    fn ed25519() -> String {
        format!("ssh-ed25519 {}", blob(&[b"ssh-ed25519", &[7; 32]]))
    }

    #[test]
    fn the_comment_is_dropped() {
        let key: SshKey = format!("{} ada@example", ed25519()).parse().expect("valid");
        assert_eq!(key.to_string(), ed25519());
    }

    #[test]
    fn short_rsa_names_its_length() {
        let modulus = |bytes: usize| [&[0u8][..], &vec![0xff; bytes]].concat();
        let rsa = |bytes| format!("ssh-rsa {}", blob(&[b"ssh-rsa", &[1, 0, 1], &modulus(bytes)]));
        assert_eq!(rsa(256).parse::<SshKey>(), Err(SshKeyError::RsaTooShort { bits: 2048 }));
        assert!(rsa(384).parse::<SshKey>().is_ok());
    }

    /// A key that brings options, a certificate authority, a second line or a megabyte does not parse.
    #[test]
    fn abuse_24_ssh_key_options() {
        let good = ed25519();
        assert!(good.parse::<SshKey>().is_ok());
        let hostile = [
            format!("command=\"id\" {good}"),
            format!("from=\"*\",no-pty {good}"),
            format!("cert-authority {good}"),
            format!("restrict {good}"),
            format!("{good}\n{good}"),
            format!("{good}\r\ncommand=\"id\" {good}"),
            format!("\n{good}"),
            format!("{good} comment\u{0}"),
            format!(
                "ssh-ed25519-cert-v01@openssh.com {}",
                blob(&[b"ssh-ed25519-cert-v01@openssh.com", &[7; 32]])
            ),
            format!("ssh-rsa {}", blob(&[b"ssh-ed25519", &[7; 32]])),
            format!("ssh-ed25519 {}", blob(&[b"ssh-ed25519", &[7; 32], b"extra"])),
            format!("ssh-ed25519 {}", blob(&[b"ssh-ed25519", &[7; 31]])),
            format!("{good} {}", "x".repeat(1024 * 1024)),
            String::new(),
            "ssh-ed25519".to_owned(),
        ];
        for text in hostile {
            assert!(text.parse::<SshKey>().is_err(), "accepted: {:.80}", text);
        }
    }
}
