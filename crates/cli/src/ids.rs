//! From what a person types to an exact id: the whole id, its last six or more characters with or without the kind,
//! or a name. Looked up in the caller's own list, because the API takes exact ids only. Refuses to guess: two that
//! fit are an error that shows both.

use model::id::{AllocationId, KeyId, NodeId, ProjectId, SkuId, SlotId, TaskId, TokenId, UserId};
use model::signal::Code;
use model::state::AllocationState;
use serde_json::Value;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::text;

/// What can be named on a command line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Noun {
    Allocation,
    Key,
    Node,
    Project,
    Sku,
    Slot,
    Task,
    Token,
    User,
}

/// Kinds of ids that a person may hold in the hand, to say clearly which one this is.
const KINDS: [(&str, &str); 13] = [
    ("node", "a node"),
    ("slot", "a slot"),
    ("task", "a task"),
    ("tok", "a token"),
    ("op", "an operation"),
    ("user", "a user"),
    ("alloc", "an allocation"),
    ("proj", "a project"),
    ("sku", "a SKU"),
    ("key", "a key"),
    ("aud", "an audit row"),
    ("sess", "a session"),
    ("enr", "an enrolment"),
];

/// How far back a short id is looked for.
pub(crate) const REACH: usize = 10_000;
pub(crate) const SHORTEST: usize = 6;

impl Noun {
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Allocation => AllocationId::PREFIX,
            Self::Key => KeyId::PREFIX,
            Self::Node => NodeId::PREFIX,
            Self::Project => ProjectId::PREFIX,
            Self::Sku => SkuId::PREFIX,
            Self::Slot => SlotId::PREFIX,
            Self::Task => TaskId::PREFIX,
            Self::Token => TokenId::PREFIX,
            Self::User => UserId::PREFIX,
        }
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Allocation => "allocation",
            Self::Key => "key",
            Self::Node => "node",
            Self::Project => "project",
            Self::Sku => "sku",
            Self::Slot => "slot",
            Self::Task => "task",
            Self::Token => "token",
            Self::User => "user",
        }
    }

    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Allocation => "/v1/allocations",
            Self::Key => "/v1/keys",
            Self::Node => "/v1/nodes",
            Self::Project => "/v1/projects",
            Self::Sku => "/v1/skus",
            Self::Slot => "/v1/slots",
            Self::Task => "/v1/tasks",
            Self::Token => "/v1/tokens",
            Self::User => "/v1/users",
        }
    }

    const fn has_names(self) -> bool {
        match self {
            Self::Allocation | Self::Key | Self::Node | Self::Project | Self::Sku | Self::Token | Self::User => true,
            Self::Slot | Self::Task => false,
        }
    }

    fn parses(self, text: &str) -> bool {
        match self {
            Self::Allocation => text.parse::<AllocationId>().is_ok(),
            Self::Key => text.parse::<KeyId>().is_ok(),
            Self::Node => text.parse::<NodeId>().is_ok(),
            Self::Project => text.parse::<ProjectId>().is_ok(),
            Self::Sku => text.parse::<SkuId>().is_ok(),
            Self::Slot => text.parse::<SlotId>().is_ok(),
            Self::Task => text.parse::<TaskId>().is_ok(),
            Self::Token => text.parse::<TokenId>().is_ok(),
            Self::User => text.parse::<UserId>().is_ok(),
        }
    }
}

/// What was typed, before anybody was asked.
#[derive(Debug, PartialEq, Eq)]
enum Typed<'a> {
    Full,
    /// The last characters of an id, and whether a name could look like this too.
    Tail {
        tail: &'a str,
        or_name: bool,
    },
    Name,
}

fn read<'a>(noun: Noun, typed: &'a str) -> Result<Typed<'a>, Failure> {
    if noun.parses(typed) {
        return Ok(Typed::Full);
    }
    if let Some((kind, tail)) = typed.rsplit_once('_') {
        if kind == noun.prefix() {
            if !is_tail(tail) {
                return Err(Failure::usage(format!(
                    "{:?} is no {} id: after `{kind}_` come at least {SHORTEST} of its last characters",
                    typed,
                    noun.word()
                )));
            }
            return Ok(Typed::Tail { tail, or_name: false });
        }
        if let Some((_, article)) = KINDS
            .iter()
            .find(|(prefix, _)| *prefix == kind)
            .filter(|_| is_tail(tail))
        {
            let message = format!(
                "{} is the id of {article}; a {} is wanted here",
                text::plain(typed),
                noun.word()
            );
            return Err(
                Failure::new(Exit::Usage, Code::IdKindMismatch, message).hint(format!("gpuaas {} list", noun.word()))
            );
        }
    }
    if is_tail(typed) {
        return Ok(Typed::Tail {
            tail: typed,
            or_name: noun.has_names(),
        });
    }
    if noun.has_names() && !typed.is_empty() {
        return Ok(Typed::Name);
    }
    Err(Failure::usage(format!(
        "{typed:?} is no {} id: give it whole, or at least its last {SHORTEST} characters",
        noun.word()
    )))
}

/// Crockford's alphabet in lower case.
fn is_tail(text: &str) -> bool {
    (SHORTEST..=26).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b.is_ascii_lowercase() && !b"ilou".contains(&b)))
}

/// The exact id of what was typed.
pub(crate) async fn resolve(client: &Client, noun: Noun, typed: &str) -> Result<String, Failure> {
    resolve_in(client, noun, noun.path(), typed).await
}

/// The same, looked up in a list of its own.
pub(crate) async fn resolve_in(client: &Client, noun: Noun, list: &str, typed: &str) -> Result<String, Failure> {
    let (tail, name) = match read(noun, typed)? {
        Typed::Full => return Ok(typed.to_owned()),
        Typed::Tail { tail, or_name } => (Some(tail), or_name.then_some(typed)),
        Typed::Name => (None, Some(typed)),
    };
    let list = client.list(list, &[], REACH).await?;
    let items = list
        .get("items")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    match pick(noun, items, tail, name).as_slice() {
        [one] => Ok(id_of(one).to_owned()),
        [] => {
            let seen = if list.get("next").is_some_and(Value::is_string) {
                format!(" among the newest {REACH}")
            } else {
                String::new()
            };
            Err(Failure::new(
                Exit::NotFound,
                Code::NotFound,
                format!("no {} {typed:?}{seen}", noun.word()),
            )
            .hint(format!("gpuaas {} list", noun.word())))
        }
        several => Err(ambiguous(noun, typed, several)),
    }
}

/// `node_k3v9q2 (gpu-7)`: whoever typed a name sees what it stands for.
pub(crate) fn named(document: &Value) -> String {
    let word = |place: &str| text::plain(document.get(place).and_then(Value::as_str).unwrap_or_default());
    let id = text::short_id(&word("id"));
    match word("name") {
        name if name.is_empty() => id,
        name => format!("{id} ({name})"),
    }
}

/// The id of what has exactly this name and is not gone.
pub(crate) async fn by_name(client: &Client, noun: Noun, name: &str) -> Result<Option<String>, Failure> {
    let list = client.list(noun.path(), &[], REACH).await?;
    let items = list
        .get("items")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    match pick(noun, items, None, Some(name)).as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(id_of(one).to_owned()).filter(|_| !is_removed(one))),
        several => Err(ambiguous(noun, name, several)),
    }
}

fn pick<'a>(noun: Noun, items: &'a [Value], tail: Option<&str>, name: Option<&str>) -> Vec<&'a Value> {
    let by_tail = |item: &Value| tail.is_some_and(|tail| id_of(item).ends_with(tail));
    let fits = |item: &&Value| {
        by_tail(item) || name.is_some_and(|name| item.get("name").and_then(Value::as_str) == Some(name))
    };
    let all: Vec<&Value> = items.iter().filter(fits).collect();
    // A removed node gives its name free, and so does an allocation that has ended; whoever has it now is meant.
    let gone = |item: &Value| is_removed(item) || (!by_tail(item) && has_ended(noun, item));
    let present: Vec<&Value> = all.iter().copied().filter(|item| !gone(item)).collect();
    if present.is_empty() { all } else { present }
}

fn id_of(item: &Value) -> &str {
    item.get("id").and_then(Value::as_str).unwrap_or_default()
}

fn is_removed(item: &Value) -> bool {
    item.get("state").and_then(Value::as_str) == Some("removed")
}

fn has_ended(noun: Noun, item: &Value) -> bool {
    let state = item.get("state").and_then(Value::as_str).unwrap_or_default();
    matches!(noun, Noun::Allocation) && state.parse().is_ok_and(AllocationState::is_end)
}

fn ambiguous(noun: Noun, typed: &str, several: &[&Value]) -> Failure {
    let shown = several.iter().take(10).map(|item| {
        let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
        format!("{} {name}", id_of(item)).trim_end().to_owned()
    });
    let candidates: Vec<String> = shown.collect();
    let message = format!(
        "{typed:?} fits {} {}s: {}",
        several.len(),
        noun.word(),
        candidates.join(", ")
    );
    Failure::new(Exit::Usage, Code::IdAmbiguous, message).detail("candidates", candidates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_understood_before_anybody_is_asked() {
        let full = NodeId::new().to_string();
        assert_eq!(read(Noun::Node, &full).expect("an id"), Typed::Full);
        assert_eq!(
            read(Noun::Node, "node_k3v9q2").expect("a tail"),
            Typed::Tail {
                tail: "k3v9q2",
                or_name: false
            }
        );
        assert_eq!(
            read(Noun::Node, "k3v9q2").expect("a tail"),
            Typed::Tail {
                tail: "k3v9q2",
                or_name: true
            }
        );
        assert_eq!(
            read(Noun::Task, "k3v9q2").expect("a tail"),
            Typed::Tail {
                tail: "k3v9q2",
                or_name: false
            }
        );
        assert_eq!(read(Noun::Node, "sim-a").expect("a name"), Typed::Name);
        assert_eq!(read(Noun::Token, "my_laptop").expect("a name"), Typed::Name);
    }

    #[test]
    fn the_wrong_kind_is_said_clearly() {
        let failure = read(Noun::Node, &TaskId::new().to_string()).expect_err("a task");
        assert_eq!((failure.exit, failure.code.as_str()), (Exit::Usage, "id_kind_mismatch"));
        assert!(failure.message.contains("the id of a task"), "{}", failure.message);
        assert!(
            read(Noun::Node, "task_k3v9q2")
                .expect_err("a task")
                .message
                .contains("a node is wanted")
        );
    }

    #[test]
    fn too_little_is_refused() {
        for (noun, typed) in [
            (Noun::Node, "node_k3v9q"),
            (Noun::Node, "node_ILOU99"),
            (Noun::Task, "sim-a"),
            (Noun::Node, ""),
        ] {
            assert_eq!(read(noun, typed).expect_err("too little").exit, Exit::Usage, "{typed}");
        }
    }
}
