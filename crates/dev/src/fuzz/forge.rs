//! The mutator: takes an honest document and makes something of it that nobody signed, or that somebody signed who may
//! not, or that says what may not be said. Seeded; every shot tells how it was made.

use data_encoding::BASE64;
use model::dsse::{self, Signature};
use model::id::{InstallationId, NodeId};
use model::signal::Code;
use model::time::Timestamp;
use serde_json::Value;

use super::bytes;
use super::house::{Document, EPOCH, House, uuid};
use super::tree::roll;
use crate::dice::Dice;

/// One mutated document.
pub(super) struct Shot {
    pub(super) bytes: Vec<u8>,
    pub(super) how: &'static str,
    /// It carries a valid signature, of a key that may not have made it.
    pub(super) wrong_key: bool,
    /// It must be refused even where its signed bytes are the honest ones.
    pub(super) forged: bool,
    /// The only codes that are right for it, where that is known.
    pub(super) codes: &'static [Code],
}

impl Shot {
    pub(super) fn made(how: &'static str, bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            how,
            wrong_key: false,
            forged: false,
            codes: &[],
        }
    }
}

pub(super) struct Forge<'a> {
    pub(super) house: &'a House,
    pub(super) dice: Dice,
}

impl Forge<'_> {
    /// Something made of `document`; `other` is another honest one.
    pub(super) fn shot(&mut self, document: &Document, other: &Document) -> Shot {
        match self.dice.roll(100) {
            0..16 => self.raw(document, other),
            16..40 => self.payload(document, other),
            40..66 => self.wrong_key(document, other),
            66..76 => self.shape(document),
            76..84 => self.signature(document, other),
            84..90 => self.weak_key(document),
            _ => self.joined(document, other),
        }
    }

    fn raw(&mut self, document: &Document, other: &Document) -> Shot {
        let mut bytes = document.envelope.to_bytes();
        bytes::spoil(&mut bytes, &other.envelope.to_bytes(), &mut self.dice);
        Shot::made("raw bytes", bytes)
    }

    fn spoilt_payload(&mut self, document: &Document, other: &Document) -> Vec<u8> {
        match self.dice.chance(60) {
            true => {
                let mut tree = document.tree.clone();
                for _ in 0..1 + self.dice.roll(2) {
                    tree.edit(&mut self.dice);
                }
                tree.text().into_bytes()
            }
            false => {
                let mut payload = document.payload.clone();
                bytes::spoil(&mut payload, &other.payload, &mut self.dice);
                payload
            }
        }
    }

    /// Other content under the old signature, or the old content in another spelling of base64.
    fn payload(&mut self, document: &Document, other: &Document) -> Shot {
        let mut envelope = document.envelope.clone();
        if self.dice.chance(10) {
            let mut text = envelope.payload.clone().into_bytes();
            bytes::spoil(&mut text, other.envelope.payload.as_bytes(), &mut self.dice);
            envelope.payload = String::from_utf8_lossy(&text).into_owned();
            return Shot::made("base64 of the payload", envelope.to_bytes());
        }
        envelope.payload = BASE64.encode(&self.spoilt_payload(document, other));
        Shot::made("payload", envelope.to_bytes())
    }

    /// Honest or spoilt content, well signed by somebody who may not.
    fn wrong_key(&mut self, document: &Document, other: &Document) -> Shot {
        let payload = match self.dice.chance(50) {
            true => document.payload.clone(),
            false => self.spoilt_payload(document, other),
        };
        let strangers = self.house.strangers_to(document);
        let key = strangers[roll(&mut self.dice, strangers.len())];
        let mut envelope = dsse::sign(document.payload_type, &payload, &[key]);
        if self.dice.chance(25) {
            // In the name of the right one.
            envelope.signatures[0].keyid = document.signer.keyid();
            return Shot {
                wrong_key: true,
                forged: true,
                ..Shot::made("wrong key in the right one's name", envelope.to_bytes())
            };
        }
        Shot {
            wrong_key: true,
            forged: true,
            ..Shot::made("wrong key", envelope.to_bytes())
        }
    }

    /// The envelope's own JSON.
    fn shape(&mut self, document: &Document) -> Shot {
        let mut tree = document.envelope_tree.clone();
        for _ in 0..1 + self.dice.roll(2) {
            tree.edit(&mut self.dice);
        }
        Shot::made("shape of the envelope", tree.text().into_bytes())
    }

    /// The signature, its key, and the type it was made for.
    fn signature(&mut self, document: &Document, other: &Document) -> Shot {
        let mut envelope = document.envelope.clone();
        let mut sig = BASE64.decode(envelope.signatures[0].sig.as_bytes()).expect("our own");
        match self.dice.roll(6) {
            0 => bytes::spoil(&mut sig, &[0; 64], &mut self.dice),
            // The same signature to a lenient eye: S plus the order of the group.
            1 => add_order(&mut sig[32..]),
            2 => sig.copy_from_slice(&[0; 64]),
            3 => envelope.payload_type.clone_from(&other.envelope.payload_type),
            4 => envelope.payload_type.push(' '),
            _ => {
                sig = BASE64
                    .decode(other.envelope.signatures[0].sig.as_bytes())
                    .expect("our own")
            }
        }
        let retyped = envelope.payload_type != document.payload_type;
        envelope.signatures[0].sig = BASE64.encode(&sig);
        if !retyped && envelope == document.envelope {
            envelope.payload_type.push('x');
        }
        Shot {
            forged: true,
            ..Shot::made("signature or type", envelope.to_bytes())
        }
    }

    /// A signature that anybody can make for a key of small order.
    fn weak_key(&mut self, document: &Document) -> Shot {
        let key = self.house.weak[roll(&mut self.dice, self.house.weak.len())];
        let mut sig = [0; 64];
        sig[..32].copy_from_slice(self.house.weak[0].as_bytes());
        let mut envelope = document.envelope.clone();
        let mut tree = document.tree.clone();
        tree.set("seq", self.dice.roll(1 << 40) + 41);
        envelope.payload = BASE64.encode(tree.text().as_bytes());
        envelope.signatures = vec![Signature {
            keyid: key.keyid(),
            sig: BASE64.encode(&sig),
        }];
        Shot::made("weak key", envelope.to_bytes())
    }

    /// Parts of two honest envelopes, none of them as they were.
    fn joined(&mut self, document: &Document, other: &Document) -> Shot {
        let (one, two) = (&document.envelope, &other.envelope);
        let mut mixed = one.clone();
        match self.dice.roll(6) {
            0 => mixed.signatures = two.signatures.clone(),
            1 => mixed.payload.clone_from(&two.payload),
            2 => mixed.signatures.extend(two.signatures.clone()),
            3 => mixed.signatures.push(one.signatures[0].clone()),
            4 => mixed.signatures.clear(),
            _ => {
                let mut bytes = one.to_bytes();
                bytes.extend_from_slice(&two.to_bytes());
                return Shot::made("two envelopes", bytes);
            }
        }
        Shot::made("two envelopes", mixed.to_bytes())
    }

    /// A task that the right key signed and that must not run here or now all the same.
    pub(super) fn misdirected(&mut self, document: &Document) -> Shot {
        let now = self.house.now;
        let mut tree = document.tree.clone();
        let mut payload_type = document.payload_type;
        let time = |at: Timestamp| Value::from(at.to_string());
        let (how, codes): (&str, &[Code]) = match self.dice.roll(14) {
            0 => {
                tree.set("node_id", NodeId::from(uuid(&mut self.dice)).to_string());
                ("another node", &[Code::WrongNode])
            }
            1 => {
                let epochs = [0, EPOCH - 1, EPOCH + 1, u64::MAX];
                tree.set("node_epoch", epochs[roll(&mut self.dice, epochs.len())]);
                ("another epoch", &[Code::WrongEpoch])
            }
            2 => {
                tree.set("aud", InstallationId::from(uuid(&mut self.dice)).to_string());
                ("another installation", &[Code::WrongAudience])
            }
            3 => {
                let ago = 1 + i64::try_from(self.dice.roll(1_000_000)).unwrap_or(0);
                tree.set("issued_at", time(now.plus_s(-ago - 600)));
                tree.set("start_by", time(now.plus_s(-ago)));
                ("too late", &[Code::StartByPassed])
            }
            4 => {
                let ahead = 121 + i64::try_from(self.dice.roll(1_000_000)).unwrap_or(0);
                tree.set("issued_at", time(now.plus_s(ahead)));
                tree.set("start_by", time(now.plus_s(ahead + 600)));
                ("too early", &[Code::NotYetValid])
            }
            5 => {
                let life = 901 + i64::try_from(self.dice.roll(315_360_000)).unwrap_or(0);
                tree.set("start_by", time(now.plus_s(life)));
                ("too long a life", &[Code::LifetimeTooLong])
            }
            6 => {
                tree.set("type_version", [0, 2, 9, 4_294_967_295_u32][roll(&mut self.dice, 4)]);
                ("another version", &[Code::UnsupportedType])
            }
            7 => {
                tree.set("task_type", format!("shell.run_{}", self.dice.roll(1000)));
                ("a type that is not compiled in", &[Code::UnsupportedType])
            }
            8 => {
                tree.set("max_runtime_s", 86_401 + self.dice.roll(1 << 30));
                ("too long a run", &[Code::ParamsInvalid])
            }
            9 => {
                tree.set("v", [0, 2, 255][roll(&mut self.dice, 3)]);
                ("another form", &[Code::PayloadMalformed])
            }
            10 => {
                tree.double_a_key(None, &mut self.dice);
                ("a key twice", &[Code::PayloadMalformed])
            }
            11 => {
                tree.add_a_key(None, &mut self.dice);
                ("a key too many", &[Code::PayloadMalformed])
            }
            12 => {
                tree.add_a_key(Some("params"), &mut self.dice);
                ("a parameter too many", &[Code::ParamsInvalid, Code::PayloadMalformed])
            }
            _ => {
                payload_type = [
                    model::outcome::RESULT_TYPE,
                    model::trust::MANIFEST_TYPE,
                    model::intent::INTENT_TYPE,
                    "",
                ][roll(&mut self.dice, 4)];
                ("another kind of document", &[Code::PayloadTypeMismatch])
            }
        };
        let envelope = dsse::sign(payload_type, tree.text().as_bytes(), &[&document.signer]);
        Shot {
            codes,
            forged: true,
            ..Shot::made(how, envelope.to_bytes())
        }
    }
}

/// The order of the group is added to S: a verifier that does not reduce takes both.
fn add_order(s: &mut [u8]) {
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut carry = 0;
    for (byte, add) in s.iter_mut().zip(ORDER) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = (sum & 0xff) as u8;
        carry = sum >> 8;
    }
}
