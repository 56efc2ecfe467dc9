//! The executor as an agent meets it: a real socket, a real journal, a pretend host.

mod abuse;
mod crash;
mod enrolment;
mod gate;
mod house;
mod images;
mod keys;
mod lab;
mod place;
mod proofs;
mod protocol;
mod refusals;
mod running;
mod sandbox;
mod time;
mod topology;
mod users;
mod waiting;
mod wiping;
