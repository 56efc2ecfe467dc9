//! No core dumps: keys and tokens live in this process's memory, and a core is a file that anybody may pick up.

use rustix::process::{Resource, Rlimit, setrlimit};

/// For this process and whatever it starts.
pub fn forbid() -> std::io::Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    Ok(setrlimit(Resource::Core, none)?)
}
