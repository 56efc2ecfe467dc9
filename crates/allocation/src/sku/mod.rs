//! The catalogue: what can be rented, in which shape, with which images, at which price.

pub mod image;
pub mod routes;
pub mod store;
