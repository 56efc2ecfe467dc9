//! What of the process itself cannot be captured: the variables of whoever runs the tests, and the real program.

pub(crate) use outside::{program, update};

#[expect(
    clippy::disallowed_methods,
    reason = "UPDATE=1 is the agreed way to rewrite golden files, and a signal needs a process of its own"
)]
mod outside {
    use std::process::Command;

    pub(crate) fn update() -> bool {
        std::env::var_os("UPDATE").is_some_and(|value| value == "1")
    }

    /// `gpuaas`, with no variables at all.
    pub(crate) fn program() -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_gpuaas"));
        program.env_clear();
        program
    }
}
