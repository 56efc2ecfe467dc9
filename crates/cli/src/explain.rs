//! `gpuaas explain`: the page of a code, from the table that is compiled in. Needs no server and no login.

use model::signal::{Code, nearest};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::Format;
use crate::output::column::{Kind, View, col, extra};
use crate::session::Session;

pub(crate) const VIEW: View = View {
    columns: &[
        col("code", "code", Kind::Text),
        col("owner", "owner", Kind::Text),
        col("meaning", "meaning", Kind::Text),
        extra("recovery", "recovery", Kind::Text),
        extra("retryable", "retryable", Kind::Text),
        extra("http_status", "http_status", Kind::Text),
    ],
    key: "code",
};

#[derive(clap::Args)]
pub(crate) struct Explain {
    /// As it stands in an error's brackets; without it, all codes are listed
    code: Option<String>,
}

impl Explain {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), Failure> {
        let Some(word) = self.code else {
            let items: Vec<Value> = Code::ALL.iter().copied().map(document).collect();
            return session.out.list(&VIEW, &json!({"items": items, "next": null}));
        };
        let code = known(&word)?;
        match session.out.format {
            // The page is prose: there is nothing to cut out of it, so a pipe gets it as it is.
            Format::Table | Format::Tsv if session.out.columns.is_none() => session.out.line(code.explain().trim_end()),
            _ => session.out.record(&VIEW, &document(code)),
        }
    }
}

fn known(word: &str) -> Result<Code, Failure> {
    word.parse().map_err(|_| {
        let failure = Failure::usage(format!("there is no code {word:?}"));
        match nearest(word) {
            Some(code) => failure
                .hint(format!("did you mean {code}?"))
                .detail("nearest", code.as_str()),
            None => failure.hint("gpuaas explain lists them all"),
        }
    })
}

fn document(code: Code) -> Value {
    json!({
        "code": code.as_str(),
        "meaning": code.meaning(),
        "owner": code.owner(),
        "recovery": code.recovery(),
        "retryable": code.retryable(),
        "http_status": (code.status() != 0).then(|| code.status()),
    })
}
