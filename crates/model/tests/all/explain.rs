//! Every code has a page that a person can act on.

use std::collections::BTreeSet;

use model::signal::Code;

use crate::golden;

#[test]
fn the_pages_of_explain_are_the_golden_ones() {
    let pages: Vec<String> = Code::ALL.iter().map(|code| code.explain()).collect();
    golden::holds("explain.txt", &pages.join("\n"));
}

#[test]
fn codes_are_distinct_snake_case_words_named_like_their_variant() {
    let mut seen = BTreeSet::new();
    for code in Code::ALL {
        let word = code.as_str();
        assert!(seen.insert(word), "{word} stands twice");
        let camel: String = word
            .split('_')
            .map(|part| part[..1].to_uppercase() + &part[1..])
            .collect();
        assert_eq!(format!("{code:?}"), camel);
    }
}

#[test]
fn every_text_is_a_sentence_that_ends() {
    for code in Code::ALL {
        for text in [code.meaning(), code.recovery()] {
            assert!(text.ends_with('.'), "{code}: {text}");
            let first = text.chars().next().expect("not empty");
            assert!(first.is_uppercase() || first == '`', "{code}: {text}");
            assert!(!text.contains("  ") && text.len() <= 140, "{code}: {text}");
        }
        assert_eq!(code.meaning().matches(". ").count(), 0, "{code}: one sentence");
    }
}

/// Owners are few, so that everybody can know theirs.
#[test]
fn every_code_has_one_of_the_known_owners() {
    let owners: BTreeSet<&str> = Code::ALL.iter().map(|code| code.owner()).collect();
    let known = [
        "API",
        "PKI",
        "agent build",
        "caller",
        "control plane",
        "edge",
        "enrolment",
        "env networking",
        "env profile",
        "gateway",
        "node owner",
        "node runtime",
        "node-facing endpoint",
        "observability",
        "operator",
        "ops access",
        "provider VM",
        "provisioning",
        "release",
        "web UX",
    ];
    assert_eq!(owners, BTreeSet::from(known));
}

#[test]
fn statuses_are_errors_and_a_refused_caller_is_not_told_to_retry() {
    for code in Code::ALL {
        let status = code.status();
        assert!(status == 0 || (400..600).contains(&status), "{code}");
        match status {
            400 | 401 | 403 | 404 | 405 | 412 | 413 | 421 | 422 | 426 | 428 => {
                assert!(!code.retryable(), "{code}: the same request fails again")
            }
            429 | 500..=599 => assert!(code.retryable(), "{code}"),
            _ => (),
        }
    }
}
