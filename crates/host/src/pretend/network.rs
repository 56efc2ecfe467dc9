//! The pretend side of [`Network`]. Every bridge exists unless it is listed as missing.

use std::net::Ipv4Addr;

use model::signal::Code;
use model::value::Name;

use super::{Pretend, State};
use crate::{Error, Network, Plug, Port, Result};

impl Network for Pretend {
    fn check_bridge(&self, bridge: &Name) -> Result<()> {
        self.call("check_bridge", |_, state| check(state, bridge))
    }

    /// There is no such link on the machine that we run on.
    fn address(&self, _: &Name) -> Result<Option<Ipv4Addr>> {
        Ok(None)
    }

    fn ensure_port(&self, port: &Port) -> Result<()> {
        self.act_on("ensure_port", port.plug.vm.as_str(), |state| {
            check(state, &port.bridge)?;
            let foreign = state.slicing.ports.values().find(|other| {
                let same = other.plug.vm == port.plug.vm
                    || other.plug.slot_index == port.plug.slot_index
                    || other.mac == port.mac
                    || other.ip == port.ip;
                same && other.plug.allocation != port.plug.allocation
            });
            if let Some(other) = foreign {
                return Err(Error::Slice {
                    code: Code::VmRefused,
                    subject: port.plug.interface(),
                    why: format!("port, address or name belong to {}", other.plug.allocation),
                });
            }
            state.slicing.ports.insert(port.plug.vm.to_string(), port.clone());
            Ok(())
        })
    }

    fn ensure_no_port(&self, plug: &Plug) -> Result<()> {
        self.act_on("ensure_no_port", plug.vm.as_str(), |state| {
            let ports = &mut state.slicing.ports;
            ports.retain(|vm, port| *vm != plug.vm.as_str() || port.plug.allocation != plug.allocation);
            Ok(())
        })
    }

    fn is_whole(&self, port: &Port) -> Result<bool> {
        self.call("is_whole", |_, state| {
            Ok(state.slicing.ports.get(port.plug.vm.as_str()) == Some(port))
        })
    }

    fn has_port(&self, plug: &Plug) -> Result<bool> {
        self.call("has_port", |_, state| {
            let port = state.slicing.ports.get(plug.vm.as_str());
            Ok(port.is_some_and(|port| port.plug.allocation == plug.allocation))
        })
    }
}

fn check(state: &State, bridge: &Name) -> Result<()> {
    if state.slicing.missing_bridges.contains(bridge.as_str()) {
        return Err(Error::Slice {
            code: Code::SliceBridgeMissing,
            subject: bridge.to_string(),
            why: "the switch has no such bridge".to_owned(),
        });
    }
    Ok(())
}
