//! An Ed25519 key pair in the form that OpenSSH reads: made here, so that no program and no temporary file sees it.

use data_encoding::BASE64;
use model::key::SigningKey;

const TYPE: &str = "ssh-ed25519";
const LINE: usize = 70;

pub(super) struct KeyPair {
    /// PEM.
    pub(super) private: String,
    /// Type and blob.
    pub(super) public: String,
}

impl KeyPair {
    pub(super) fn from_seed(seed: [u8; 32]) -> Self {
        let public = *SigningKey::from_seed(seed).public().as_bytes();
        let mut blob = Vec::new();
        string(&mut blob, TYPE.as_bytes());
        string(&mut blob, &public);
        let mut secret = Vec::new();
        // The two numbers only show a wrong passphrase; there is none.
        secret.extend_from_slice(&[0; 8]);
        secret.extend_from_slice(&blob);
        string(&mut secret, &[seed, public].concat());
        string(&mut secret, b"gpuaas");
        let pad = (1u8..).take((8 - secret.len() % 8) % 8);
        secret.extend(pad);
        let mut file = b"openssh-key-v1\0".to_vec();
        string(&mut file, b"none");
        string(&mut file, b"none");
        string(&mut file, b"");
        file.extend_from_slice(&1u32.to_be_bytes());
        string(&mut file, &blob);
        string(&mut file, &secret);
        let text = BASE64.encode(&file);
        let lines: Vec<&str> = (0..text.len())
            .step_by(LINE)
            .map(|at| &text[at..text.len().min(at + LINE)])
            .collect();
        let private = format!(
            "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----\n",
            lines.join("\n")
        );
        let public = format!("{TYPE} {}", BASE64.encode(&blob));
        Self { private, public }
    }
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::KeyPair;

    /// The same pair as `ssh-keygen -y` says; the blob of RFC 8032's first test key.
    #[test]
    fn the_public_half_fits_the_private_one() {
        let seed = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44, 0x49,
            0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
        ];
        let pair = KeyPair::from_seed(seed);
        assert_eq!(
            pair.public,
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea"
        );
        assert!(pair.private.lines().all(|line| line.len() <= 70), "{}", pair.private);
    }
}
