//! PostgreSQL's log of statements, read back: entries of several processes between each other, and in each of them
//! transactions from their begin to their commit.

use std::collections::HashMap;

/// One statement; a parameter as the server writes it, none for null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) params: Vec<Option<String>>,
}

/// What was between a begin and its commit.
pub(super) type Transaction = Vec<Statement>;

/// Entries of the log: which process, and what it said; a line that begins with a tab goes on with the one before.
fn entries(log: &str) -> Vec<(String, String)> {
    let mut entries: Vec<(String, String)> = Vec::new();
    for line in log.lines() {
        match (line.strip_prefix('\t'), entries.last_mut()) {
            (Some(more), Some((_, said))) => {
                said.push('\n');
                said.push_str(more);
            }
            _ => {
                let (process, said) = line.split_once(' ').unwrap_or((line, ""));
                entries.push((process.to_owned(), said.trim_start().to_owned()));
            }
        }
    }
    entries
}

pub(super) fn transactions(log: &str) -> Vec<Transaction> {
    let mut open: HashMap<String, Transaction> = HashMap::new();
    let mut ended = Vec::new();
    for (process, said) in entries(log) {
        if let Some(text) = said.strip_prefix("DETAIL:") {
            let params = text
                .trim_start()
                .split_once("arameters: ")
                .map(|(_, list)| params(list));
            if let (Some(params), Some(last)) = (params, open.get_mut(&process).and_then(|all| all.last_mut())) {
                last.params = params;
            }
            continue;
        }
        let Some(text) = said.strip_prefix("LOG:") else {
            continue;
        };
        let text = text.trim_start();
        if let Some(plain) = text.strip_prefix("statement: ") {
            match plain.trim_end_matches(';').to_ascii_lowercase().as_str() {
                "begin" => drop(open.insert(process, Vec::new())),
                "commit" => ended.extend(open.remove(&process)),
                _ => drop(open.remove(&process)),
            }
        } else if let Some((_, sql)) = text.strip_prefix("execute ").and_then(|rest| rest.split_once(": "))
            && let Some(transaction) = open.get_mut(&process)
        {
            transaction.push(Statement {
                sql: sql.to_owned(),
                params: Vec::new(),
            });
        }
    }
    ended
}

/// `$1 = 'it''s', $2 = NULL`
fn params(list: &str) -> Vec<Option<String>> {
    let mut params = Vec::new();
    let mut rest = list;
    while let Some((_, value)) = rest.split_once(" = ") {
        let Some(quoted) = value.strip_prefix('\'') else {
            params.push(None);
            rest = value;
            continue;
        };
        let (mut text, mut chars) = (String::new(), quoted.char_indices().peekable());
        rest = "";
        while let Some((at, c)) = chars.next() {
            if c == '\'' && chars.next_if(|(_, next)| *next == '\'').is_none() {
                rest = &quoted[at + 1..];
                break;
            }
            text.push(c);
        }
        params.push(Some(text));
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_cut_out_of_a_log_whole() {
        let log = "7 LOG:  execute sqlx_s_9: select 'half of one'\n7 LOG:  statement: COMMIT\n\
            7 LOG:  statement: BEGIN\n8 LOG:  statement: BEGIN\n\
            7 LOG:  execute sqlx_s_1: select $1,\n\t  $2\n7 DETAIL:  parameters: $1 = 'it''s a = b, $2', $2 = NULL\n\
            8 LOG:  execute <unnamed>: select 1\n8 LOG:  statement: ROLLBACK\n\
            7 LOG:  execute sqlx_s_2: update x set y = $1\n7 DETAIL:  Parameters: $1 = '{\"a\": 1}'\n7 LOG:  statement: COMMIT\n";
        let said = |text: &str| Some(text.to_owned());
        let statement = |sql: &str, params: Vec<Option<String>>| Statement {
            sql: sql.to_owned(),
            params,
        };
        let whole = vec![
            statement("select $1,\n  $2", vec![said("it's a = b, $2"), None]),
            statement("update x set y = $1", vec![said("{\"a\": 1}")]),
        ];
        assert_eq!(transactions(log), [whole]);
    }
}
