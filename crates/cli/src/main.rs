//! The program `gpuaas`: hands the process's arguments, variables and streams to the library and leaves with its
//! answer. Everything it can do stands in `lib.rs`.

use std::process::ExitCode;

use cli::Env;

fn main() -> ExitCode {
    // One thread: a command line waits for one answer at a time.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => {
            let exit = runtime.block_on(cli::run(std::env::args_os(), Env::of_process()));
            // A prompt may still be reading the terminal on a thread of its own; nobody waits for it.
            runtime.shutdown_background();
            ExitCode::from(exit)
        }
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}
