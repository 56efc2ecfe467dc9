//! `gpuaas completion`: a script for the shell, made from the same grammar that parses.

use clap::ValueEnum;

use crate::failure::Failure;
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "For this shell only:  source <(gpuaas completion bash)")]
pub(crate) struct Completion {
    /// Yours
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Completion {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), Failure> {
        let shell = match self.shell {
            Shell::Bash => clap_complete::Shell::Bash,
            Shell::Zsh => clap_complete::Shell::Zsh,
            Shell::Fish => clap_complete::Shell::Fish,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut crate::grammar(), "gpuaas", &mut script);
        session.out.line(String::from_utf8_lossy(&script).trim_end())
    }
}
