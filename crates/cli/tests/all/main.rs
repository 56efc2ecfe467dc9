//! The command line from outside: arguments and variables in, streams and an exit code out, against a server of
//! canned answers. The real server stands in the tests of `dev`.

mod allocations;
mod audit;
mod config;
mod destructive;
mod errors;
mod help;
mod ids;
mod interrupt;
mod once;
mod output;
mod prices;
mod probe;
mod process;
mod projects;
mod sale;
mod server;
mod slots;
mod told;
mod town;
mod versions;
