//! What stands in a slot's way: the object, the cause, and the command against it. The same thing is said once, however
//! many slots it concerns.

use serde_json::Value;

use crate::failure::Failure;
use crate::output::{Format, Out, text};

fn list_at<'a>(document: &'a Value, place: &str) -> &'a [Value] {
    document
        .get(place)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// Blockers and warnings of these, each once.
pub(crate) fn show(out: &mut Out, documents: &[Value]) -> Result<(), Failure> {
    for (place, word) in [("blockers", "blocked by"), ("warnings", "warning")] {
        let mut said: Vec<&Value> = Vec::new();
        for obstacle in documents.iter().flat_map(|document| list_at(document, place)) {
            if !said.contains(&obstacle) {
                said.push(obstacle);
                one(out, place, word, obstacle)?;
            }
        }
    }
    Ok(())
}

fn one(out: &mut Out, place: &str, word: &str, obstacle: &Value) -> Result<(), Failure> {
    let field = |name: &str| text::plain(obstacle.get(name).and_then(Value::as_str).unwrap_or_default());
    match out.format {
        Format::Json | Format::Name => Ok(()),
        Format::Tsv => {
            let [code, subject, detail, fix] = ["code", "subject", "detail", "fix"].map(field);
            let kind = place.trim_end_matches('s');
            out.line(&format!("{kind}\t{code}\t{subject}\t{detail}\t{fix}"))
        }
        Format::Table => {
            out.line(&format!(
                "  {word} {} on {}: {}",
                field("code"),
                field("subject"),
                field("detail")
            ))?;
            out.line(&format!("    fix: {}", field("fix")))
        }
    }
}
