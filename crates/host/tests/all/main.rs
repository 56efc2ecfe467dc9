//! The host's verbs: the same behaviour on the pretend and the real machine, then what only the real one can show, on
//! a generated root directory in namespaces of its own. No test touches an account of the machine it runs on.

mod abuse;
mod accounts;
mod both;
mod devices;
mod disk_abuse;
mod empty;
mod facts;
mod hostile;
mod images;
mod kernel;
mod known;
mod leases;
mod limits;
mod loops;
mod pretend;
mod rom;
mod sanitize;
mod slices;
mod sysfs;
mod tree;
mod unlisted;
mod vfio;
