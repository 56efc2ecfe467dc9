//! The executor as an agent meets it: a real socket, a real journal, a pretend host.

mod abuse;
mod crash;
mod enrolment;
mod house;
mod place;
mod proofs;
mod protocol;
mod sandbox;
mod users;
