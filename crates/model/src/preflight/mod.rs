//! Preflight.
