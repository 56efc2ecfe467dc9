//! Bytes as a bad cable, a bad disk or a patient person would change them: flipped, cut, doubled, moved, joined with
//! another's. Knows nothing of what they mean.

use super::tree::roll;
use crate::dice::Dice;

/// One to three changes; `other` is where foreign bytes come from.
pub(super) fn spoil(bytes: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    for _ in 0..1 + dice.roll(3) {
        once(bytes, other, dice);
    }
}

fn once(bytes: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    let length = bytes.len();
    if length == 0 {
        bytes.extend_from_slice(other);
        return;
    }
    let at = roll(dice, length);
    let end = at + roll(dice, (length - at).min(64) + 1);
    match dice.roll(12) {
        0..4 => bytes[at] ^= 1 << dice.roll(8),
        4 => bytes[at] = [0, 0xff, b'"', b'\\', b'{', b'[', b'=', b'\n', 0x80][roll(dice, 9)],
        5 => bytes.truncate(at),
        6 => drop(bytes.drain(at..end)),
        7 => {
            let part = bytes[at..end].to_vec();
            drop(bytes.splice(at..at, part));
        }
        8 => bytes.swap(at, end.min(length - 1)),
        9 => bytes.extend_from_slice(other),
        10 => {
            let from = roll(dice, other.len());
            let foreign = &other[from..other.len().min(from + end - at)];
            drop(bytes.splice(at..end, foreign.iter().copied()));
        }
        _ => bytes.insert(at, u8::try_from(dice.roll(256)).unwrap_or(0)),
    }
}

/// The text with one character changed, still text.
pub(super) fn nearly(text: &str, dice: &mut Dice) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    if !chars.is_empty() {
        let at = roll(dice, chars.len());
        chars[at] = char::from_u32(u32::from(chars[at]) ^ (1 << dice.roll(5))).unwrap_or('?');
    }
    chars.into_iter().collect()
}
