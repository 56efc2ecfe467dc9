//! Golden files: compared byte by byte, rewritten by `UPDATE=1 cargo test`, read by a person.

use std::path::Path;

/// Holds `actual` against `tests/golden/<name>`, or writes it there when asked to.
pub(crate) fn holds(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    #[expect(
        clippy::disallowed_methods,
        reason = "UPDATE is the one switch of the tests, and there is no config to read it"
    )]
    let update = std::env::var_os("UPDATE").is_some_and(|value| value == "1");
    if update {
        std::fs::write(&path, actual).expect("golden files can be written");
        return;
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = golden
        .lines()
        .zip(actual.lines())
        .position(|(golden, actual)| golden != actual)
        .unwrap_or(golden.lines().count().min(actual.lines().count()));
    assert!(
        golden == actual,
        "{name} differs from line {}; `UPDATE=1 cargo test` rewrites it:\n  golden {:?}\n  actual {:?}",
        differs + 1,
        golden.lines().nth(differs),
        actual.lines().nth(differs),
    );
}
