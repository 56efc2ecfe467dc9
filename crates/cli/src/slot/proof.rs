//! `gpuaas slot proof` for people: what was done to the device, what was looked for afterwards and what was found, and
//! whose key has signed it. Every figure is the executor's; nothing is concluded here.

use serde_json::Value;

use crate::failure::Failure;
use crate::output::column::{bytes, find, time_at};
use crate::output::{Out, table, text};

pub(super) fn show(out: &mut Out, document: &Value) -> Result<(), Failure> {
    let items = document.get("items").and_then(Value::as_array);
    let items = items.map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        return out.note("none: its node has signed nothing about it yet");
    }
    for (at, proof) in items.iter().enumerate() {
        if at > 0 {
            out.line("")?;
        }
        one(out, proof)?;
    }
    Ok(())
}

fn one(out: &mut Out, row: &Value) -> Result<(), Failure> {
    let age = time_at(row, "at").map(|at| text::age(out.now().since_ms(at)));
    let verdict = match row.get("clean").and_then(Value::as_bool) {
        Some(true) => "clean",
        _ => "NOT clean",
    };
    let subject = match word(row, "subject") {
        subject if subject.is_empty() => String::new(),
        subject => format!(" of {subject}"),
    };
    let age = age.unwrap_or_default();
    out.line(&format!("{}{subject}: {verdict}, proved {age} ago", word(row, "kind")))?;
    let proof = find(row, "proof");
    let mut pairs = match word(row, "kind").as_str() {
        "wipe" => wipe(&proof),
        "reset" => reset(&proof),
        _ => vec![("said", text::plain(&proof.to_string()))],
    };
    let key = word(row, "signed_by");
    let key = if key.is_empty() {
        String::new()
    } else {
        format!("the executor's key {key}, ")
    };
    pairs.push((
        "signed by",
        format!("{key}as {}", text::short_id(&word(row, "task_id"))),
    ));
    pairs.retain(|(_, value)| !value.is_empty());
    let page = table::pairs(&pairs);
    page.lines().try_for_each(|line| out.line(&format!("  {line}")))
}

fn word(row: &Value, place: &str) -> String {
    match find(row, place) {
        Value::Null => String::new(),
        Value::String(text) => text::plain(&text),
        other => text::plain(&other.to_string()),
    }
}

fn size(row: &Value, place: &str) -> String {
    find(row, place).as_u64().map(bytes).unwrap_or_default()
}

fn wipe(proof: &Value) -> Vec<(&'static str, String)> {
    let word = |place: &str| word(proof, place);
    let ends = time_at(proof, "started_at").zip(time_at(proof, "ended_at"));
    let took = ends.map(|(from, to)| format!(" in {}", text::span(to.since_ms(from))));
    let method = format!(
        "{}{}, exit {}",
        word("method"),
        took.unwrap_or_default(),
        word("tool_rc")
    );
    let markers = format!(
        "{} written before, {} found afterwards",
        word("markers_planted"),
        word("markers_found")
    );
    // After a lost key bytes are anything: then only the markers' places are looked at.
    let (read, not_zero) = match find(proof, "read_back_bytes").as_u64() {
        Some(0) => (
            "only where the markers were: the method leaves no zeros to look for".to_owned(),
            String::new(),
        ),
        _ => (
            format!("{} of {}", size(proof, "read_back_bytes"), size(proof, "size_bytes")),
            format!("{} blocks that should be", word("blocks_not_zero")),
        ),
    };
    vec![
        ("verdict", word("verdict")),
        ("method", method),
        ("when", format!("{} to {}", word("started_at"), word("ended_at"))),
        ("markers", markers),
        (
            "signatures",
            format!(
                "{} of partition tables, file systems and the like found",
                word("signatures_found")
            ),
        ),
        ("read back", read),
        ("not zero", not_zero),
        ("disk", format!("{}, {}", word("nvme_device"), word("wwn"))),
        ("nonce", word("nonce")),
    ]
}

fn reset(proof: &Value) -> Vec<(&'static str, String)> {
    let word = |place: &str| word(proof, place);
    let yes = |place: &str| find(proof, place).as_bool() == Some(true);
    let said = |yes: bool, good: &str, bad: &str| if yes { good.to_owned() } else { bad.to_owned() };
    let vbios = match word("vbios_sha256") {
        sum if sum.is_empty() => "none that can be read".to_owned(),
        sum => format!(
            "{sum}{}",
            said(
                yes("vbios_compared"),
                ", as before the tenant",
                ", compared with nothing"
            )
        ),
    };
    vec![
        (
            "method",
            format!(
                "{}, answer {}, kernel {}",
                word("reset_method"),
                word("rc"),
                word("kernel_version")
            ),
        ),
        (
            "after it",
            format!(
                "{}, power {}, driver {}",
                said(yes("config_readable"), "answers", "does NOT answer"),
                word("power_state"),
                word("driver")
            ),
        ),
        ("vbios", vbios),
        (
            "memory",
            said(
                yes("memory_overwritten"),
                "overwritten",
                "not overwritten: what happens to it is what the reset does",
            ),
        ),
    ]
}
