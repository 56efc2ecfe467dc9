//! The two documents that outsiders read, made from the route tables.

use base::http::{Info, openapi};
use serde_json::Value;

use crate::routes;

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub fn public() -> Value {
    let info = Info {
        title: "gpuaas",
        version: VERSION,
        description: "What people and their tools can ask of the control plane.",
    };
    openapi(&routes::public_infos(), &info)
}

pub fn node() -> Value {
    let info = Info {
        title: "gpuaas node-facing API",
        version: VERSION,
        description: "What node agents and the platform's own workers say to the control plane. Not for the public: other listeners, other credentials.",
    };
    openapi(&routes::node_infos(), &info)
}
