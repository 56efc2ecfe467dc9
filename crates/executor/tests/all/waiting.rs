//! A task whose VM is just being made whole says that it waits for that, and goes on afterwards.

use std::net::Ipv4Addr;
use std::sync::Arc;

use host::{Network, Plug, Port, Result};
use model::outcome::Outcome;
use model::socket::FromExecutor;
use model::task::vm_power::{Action, Params as Switch};
use model::task::vm_provision::Params;
use model::task::{Task, vm_power};
use model::value::Name;

use crate::gate::Gate;
use crate::images::{stand, wish};

impl Network for Gate {
    fn check_bridge(&self, bridge: &Name) -> Result<()> {
        self.pass("check_bridge").check_bridge(bridge)
    }
    fn address(&self, bridge: &Name) -> Result<Option<Ipv4Addr>> {
        self.pass("address").address(bridge)
    }
    fn ensure_port(&self, port: &Port) -> Result<()> {
        self.pass("ensure_port").ensure_port(port)
    }
    fn ensure_no_port(&self, plug: &Plug) -> Result<()> {
        self.pass("ensure_no_port").ensure_no_port(plug)
    }
    fn has_port(&self, plug: &Plug) -> Result<bool> {
        self.pass("has_port").has_port(plug)
    }
    fn is_whole(&self, port: &Port) -> Result<bool> {
        self.pass("is_whole").is_whole(port)
    }
}

/// Whatever becomes of the test, nobody stands before the gate when the executor is waited for.
struct Opens(Arc<Gate>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.open();
    }
}

#[test]
fn a_task_that_waits_for_the_upkeep_says_so() {
    let (mut place, mut agent) = stand();
    let params = Params {
        image_trusted: true,
        ..wish(&place)
    };
    let made = agent.run(&place, &place.house.payload(&Task::VmProvision(params.clone())));
    assert_eq!(made.outcome, Outcome::Succeeded, "{:?} {:?}", made.code, made.detail);
    place.stop().expect("a clean end");
    place.pretend.reboot().expect("starts");
    // The host has forgotten the port; making it again takes until somebody opens.
    let gate = Gate::before("ensure_port", &place.pretend);
    place.host = Some(host::Host {
        network: Arc::clone(&gate) as Arc<dyn Network>,
        ..place.pretend.host()
    });
    place.serve();
    let _opens = Opens(Arc::clone(&gate));
    gate.reached();
    let mut agent = place.connect();
    let payload = place.house.payload(&Task::VmPower(Switch {
        allocation_id: params.allocation_id,
        vm_name: params.vm_name,
        action: Action::Start,
        graceful_timeout_seconds: 30,
    }));
    agent.offer_good(&place, &payload);
    agent.wait("that it waits", |said| match said {
        FromExecutor::Progress { task } => (task.phase == "waits_for_upkeep").then_some(()),
        _ => None,
    });
    gate.open();
    let result = place.open(&agent.done(payload.task_id));
    assert_eq!(
        result.outcome,
        Outcome::Succeeded,
        "{:?} {:?}",
        result.code,
        result.detail
    );
    let output: vm_power::Output = serde_json::from_str(result.output.expect("told").get()).expect("typed");
    assert_eq!(output.power, vm_power::Power::Running);
}
