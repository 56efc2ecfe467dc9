//! A code as text: printed, parsed, in JSON and in schemas, always the same snake_case word.

use std::fmt;
use std::str::FromStr;

use super::Code;

/// A word that is no code of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown code {0:?}")]
pub struct UnknownCode(pub String);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Code {
    type Err = UnknownCode;

    fn from_str(word: &str) -> Result<Self, UnknownCode> {
        Code::ALL
            .iter()
            .copied()
            .find(|code| code.as_str() == word)
            .ok_or_else(|| UnknownCode(word.to_owned()))
    }
}

// A pattern and not a list of words: a code added in the next release must not break a client
// that was generated from this one.
crate::text_serde!(Code, "Code", "^[a-z][a-z0-9_]*$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_text_and_json() {
        for &code in Code::ALL {
            assert_eq!(code.to_string().parse(), Ok(code));
            let json = serde_json::to_string(&code).unwrap();
            assert_eq!(json, format!("{:?}", code.as_str()));
            assert_eq!(serde_json::from_str::<Code>(&json).unwrap(), code);
        }
    }

    #[test]
    fn other_words_are_refused() {
        for word in ["", "Disk_full", "disk_full ", "no_such_code"] {
            assert_eq!(word.parse::<Code>(), Err(UnknownCode(word.to_owned())));
        }
        assert!(serde_json::from_str::<Code>("7").is_err());
    }

    #[test]
    fn a_code_is_padded_in_tables() {
        assert_eq!(format!("{:<10}|", Code::Stuck), "stuck     |");
    }
}
