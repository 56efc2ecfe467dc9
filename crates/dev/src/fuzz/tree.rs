//! JSON as an attacker writes it: an ordered tree of texts in which keys may come twice, numbers may be of any size
//! and leaves need not be JSON at all. Edited in one place at a time and written out as it is.

use serde_json::Value;

use crate::dice::Dice;

#[derive(Clone, Debug)]
pub(super) enum Tree {
    /// Written as it is.
    Leaf(String),
    Array(Vec<Tree>),
    /// Keys as they are written, quotes included.
    Object(Vec<(String, Tree)>),
}

/// Values that have broken somebody's parser.
const NASTY: [&str; 38] = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-1",
    "1",
    "2",
    "1.0",
    "0.1",
    "1e2",
    "1e400",
    "-1e400",
    "1E-400",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "00",
    "+1",
    "0x10",
    "NaN",
    "Infinity",
    "\"\"",
    "\"0\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\\udfff\\ud800\"",
    "\"\u{202e}evil\u{2066}\"",
    "\"../../etc/shadow\"",
    "\"root\"",
    "\"-rf\"",
    "[]",
    "{}",
];

const KEYS: [&str; 8] = [
    "\"\"",
    "\"x\"",
    "\"__proto__\"",
    "\"\\u0000\"",
    "\"params\"",
    "\"signatures\"",
    "\"alg\"",
    "\"NODE_ID\"",
];

impl Tree {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Value>(bytes).ok().map(Self::of)
    }

    fn of(value: Value) -> Self {
        match value {
            Value::Array(items) => Self::Array(items.into_iter().map(Self::of).collect()),
            Value::Object(fields) => Self::Object(
                fields
                    .into_iter()
                    .map(|(key, value)| (Value::String(key).to_string(), Self::of(value)))
                    .collect(),
            ),
            leaf => Self::Leaf(leaf.to_string()),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Leaf(text) => out.push_str(text),
            Self::Array(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    out.push_str(if n > 0 { "," } else { "" });
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(fields) => {
                out.push('{');
                for (n, (key, value)) in fields.iter().enumerate() {
                    out.push_str(if n > 0 { "," } else { "" });
                    out.push_str(key);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Changes one place, anywhere.
    pub(super) fn edit(&mut self, dice: &mut Dice) {
        let deeper = match self {
            Self::Leaf(_) => None,
            Self::Array(items) => pick(items, dice),
            Self::Object(fields) => pick(fields, dice).map(|(_, value)| value),
        };
        match deeper {
            Some(child) if dice.chance(70) => child.edit(dice),
            _ => self.spoil(dice),
        }
    }

    fn spoil(&mut self, dice: &mut Dice) {
        match self {
            Self::Object(fields) if dice.chance(80) => spoil_fields(fields, dice),
            Self::Array(items) if dice.chance(60) => spoil_items(items, dice),
            _ => *self = replaced(self, dice),
        }
    }

    /// A key that is already there comes again, at the top, or below the one of this name.
    pub(super) fn double_a_key(&mut self, below: Option<&str>, dice: &mut Dice) {
        self.at(
            below,
            |fields, dice| {
                if let Some((key, value)) = pick(fields, dice).cloned() {
                    fields.insert(roll(dice, fields.len() + 1), (key, value));
                }
            },
            dice,
        );
    }

    /// A key that nobody knows.
    pub(super) fn add_a_key(&mut self, below: Option<&str>, dice: &mut Dice) {
        self.at(
            below,
            |fields, dice| {
                let key = format!("\"x{}\"", dice.roll(1000));
                fields.insert(roll(dice, fields.len() + 1), (key, nasty(dice)));
            },
            dice,
        );
    }

    fn at(&mut self, below: Option<&str>, act: impl Fn(&mut Vec<(String, Tree)>, &mut Dice), dice: &mut Dice) {
        let Self::Object(fields) = self else { return };
        match below {
            None => act(fields, dice),
            Some(name) => {
                let name = Value::from(name).to_string();
                let child = fields.iter_mut().find(|(key, _)| *key == name);
                if let Some((_, Self::Object(inner))) = child {
                    act(inner, dice);
                }
            }
        }
    }

    /// The value of a field at the top.
    pub(super) fn set(&mut self, name: &str, value: impl Into<Value>) {
        let Self::Object(fields) = self else { return };
        let (name, value) = (Value::from(name).to_string(), Self::of(value.into()));
        match fields.iter_mut().find(|(key, _)| *key == name) {
            Some(field) => field.1 = value,
            None => fields.push((name, value)),
        }
    }
}

fn spoil_fields(fields: &mut Vec<(String, Tree)>, dice: &mut Dice) {
    let count = fields.len();
    match (dice.roll(7), count) {
        (0, 1..) => {
            fields.remove(roll(dice, count));
        }
        (1, 1..) => {
            let doubled = fields[roll(dice, count)].clone();
            fields.insert(roll(dice, count + 1), doubled);
        }
        (2, 1..) => {
            let key = fields[roll(dice, count)].0.clone();
            fields.insert(roll(dice, count + 1), (key, nasty(dice)));
        }
        (3, 1..) => {
            let at = roll(dice, count);
            fields[at].0 = fields[at].0.to_uppercase();
        }
        (4, 2..) => {
            let (a, b) = (roll(dice, count), roll(dice, count));
            let kept = fields[a].1.clone();
            fields[a].1 = std::mem::replace(&mut fields[b].1, kept);
        }
        (5, 1..) => {
            let at = roll(dice, count);
            fields[at].1 = replaced(&fields[at].1, dice);
        }
        _ => {
            let key = KEYS[roll(dice, KEYS.len())].to_owned();
            fields.insert(roll(dice, count + 1), (key, nasty(dice)));
        }
    }
}

fn spoil_items(items: &mut Vec<Tree>, dice: &mut Dice) {
    let count = items.len();
    match (dice.roll(4), count) {
        (0, 1..) => {
            items.remove(roll(dice, count));
        }
        (1, 1..) => {
            let doubled = items[roll(dice, count)].clone();
            items.insert(roll(dice, count + 1), doubled);
        }
        (2, _) => items.clear(),
        _ => items.insert(roll(dice, count + 1), nasty(dice)),
    }
}

/// Something else in its place: of another type, at a limit, too deep, too long, or nearly the same.
fn replaced(old: &Tree, dice: &mut Dice) -> Tree {
    match dice.roll(100) {
        0 => Tree::Leaf(format!("\"{}\"", "A".repeat(1 << (10 + dice.roll(9))))),
        1 => {
            let depth = 1 << (5 + dice.roll(10));
            Tree::Leaf(format!("{}{}", "[".repeat(depth), "]".repeat(depth)))
        }
        2..15 => Tree::Array(vec![old.clone()]),
        15..25 => Tree::Object(vec![("\"x\"".to_owned(), old.clone())]),
        25..40 => Tree::Leaf(Value::from(old.text()).to_string()),
        40..60 => Tree::Leaf(super::bytes::nearly(&old.text(), dice)),
        _ => nasty(dice),
    }
}

fn nasty(dice: &mut Dice) -> Tree {
    Tree::Leaf(NASTY[roll(dice, NASTY.len())].to_owned())
}

fn pick<'a, T>(items: &'a mut [T], dice: &mut Dice) -> Option<&'a mut T> {
    let at = roll(dice, items.len());
    items.get_mut(at)
}

/// An index.
pub(super) fn roll(dice: &mut Dice, sides: usize) -> usize {
    usize::try_from(dice.roll(sides as u64)).unwrap_or(0)
}
