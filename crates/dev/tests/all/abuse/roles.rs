//! Every role on every node-facing route. The role stands in the certificate; a route hears the roles it lists and
//! nobody else, and what is no certificate of ours does not get as far as a route.

use base::auth::Role;
use base::http::{Access, RouteInfo};
use dev::town::Town;
use fleet::certificate::Ca;
use model::id::TaskId;
use model::signal::Code;
use rcgen::KeyPair;
use wire::http::{Client, Response};

use super::foreign_node::{call, filled};
use super::{audited, process, refused, snapshot};
use crate::EXE;
use crate::puppet::{Puppet, csr, get, node_door};

const TABLES: [&str; 3] = ["task", "node", "intent"];

#[tokio::test(flavor = "multi_thread")]
async fn abuse_41_roles() {
    let town = Town::still(EXE).await;
    let node = Puppet::awake(&town, "node").await;
    node.claim().await;
    let before = snapshot(&town, &TABLES).await;
    for role in Role::ALL {
        every_route(&town, &node, *role).await;
    }
    assert_eq!(snapshot(&town, &TABLES).await, before, "no refused call did anything");
    wrong_listener(&node).await;
    not_ours(&town, &node).await;
    never_recorded(&town, &node).await;
    town.end().await;
}

async fn every_route(town: &Town, node: &Puppet, role: Role) {
    // A node's certificate names the node; one that only says `node` is nobody's.
    let client = process(town, role).await;
    let task = TaskId::new();
    let (mut passed, mut stopped) = (0, 0);
    for route in control::routes::node_infos() {
        let Access::Roles(roles) = route.access else {
            continue;
        };
        let path = filled(&route, node.id(), task);
        let answer = call(&client, &route, &path).await;
        if roles.contains(&role) && role != Role::Node {
            past_the_gate(&answer, &route);
            passed += 1;
            continue;
        }
        let error = refused(&answer, Code::RoleForbidden);
        stopped += 1;
        if role != Role::Node {
            let row = audited(town, &error).await;
            assert_eq!(
                (row.actor_kind.as_str(), row.actor_id.as_str()),
                ("role", format!("{role}/one").as_str())
            );
            assert_eq!(row.target_id, format!("{} {}", route.method, route.path));
        } else if stopped == 1 {
            assert_eq!(audited(town, &error).await.action, "certificate.use");
        }
    }
    let workers = [Role::ProvisioningWorker, Role::AppRuntimeWorker, Role::BillingWorker];
    // Workers ask for tasks; every process that runs apart may renew what it shows.
    let expected = match role {
        Role::Node | Role::Api => (0, 12),
        role if workers.contains(&role) => (2, 10),
        _ => (1, 11),
    };
    assert_eq!((passed, stopped), expected, "{role}");
    if role == Role::Node {
        the_node_itself(town, node).await;
    }
}

/// A real node's certificate: its own routes open, the workers' do not.
async fn the_node_itself(town: &Town, node: &Puppet) {
    for route in control::routes::node_infos() {
        let Access::Roles(roles) = route.access else {
            continue;
        };
        let answer = call(&node.inside, &route, &filled(&route, node.id(), TaskId::new())).await;
        if roles.contains(&Role::Node) {
            past_the_gate(&answer, &route);
        } else {
            let row = audited(town, &refused(&answer, Code::RoleForbidden)).await;
            assert_eq!(row.actor_id, node.id().to_string());
        }
    }
}

/// An empty body gets no further than its handler; that it gets there is the point.
#[track_caller]
fn past_the_gate(answer: &Response, route: &RouteInfo) {
    let gate = [Code::RoleForbidden, Code::Unauthenticated, Code::CertUnknown];
    let stopped = answer.error().is_some_and(|error| gate.contains(&error.code));
    assert!(
        !stopped && !answer.status.is_server_error(),
        "{}: {answer:?}",
        route.path
    );
}

/// Each listener has its own routes and no others.
async fn wrong_listener(node: &Puppet) {
    let (mut outside, mut inside) = (0, 0);
    for route in control::routes::node_infos() {
        let path = filled(&route, node.id(), TaskId::new());
        let client = match route.access {
            Access::Roles(_) => {
                outside += 1;
                &node.outside
            }
            Access::Public => {
                inside += 1;
                &node.inside
            }
            Access::Scopes(_) => panic!("{}: people do not call here", route.path),
        };
        refused(&call(client, &route, &path).await, Code::RouteNotFound);
    }
    assert_eq!(
        (outside, inside),
        (12, 2),
        "only enrolment and renewal are open to strangers"
    );
}

/// What the handshake itself refuses: no certificate, a device's, one of another CA.
async fn not_ours(town: &Town, node: &Puppet) {
    let roots = &node.answer.working.ca_bundle;
    let url = &town.platform.node_url;
    let now = town.db.clock().now();
    let dir = town.dir().join("foreign");
    std::fs::create_dir(&dir).expect("a directory");
    Ca::create(&dir, true, now).expect("a CA");
    let foreign = Ca::load(&dir).expect("a CA");
    let name = node.uri().parse().expect("a name");
    let forged = foreign.issue_working(&csr(&node.keys.working, None), &name, 3600, now);
    let forged = forged.expect("a foreign CA signs anything").pem;
    let bare = wire::tls::client_config(None, &wire::pem::certificates(roots).expect("roots")).expect("TLS");
    for (what, client) in [
        ("no certificate", Client::builder(url).expect("a URL").tls(bare).build()),
        (
            "a device certificate",
            node_door(url, &node.answer.device_chain, &node.keys.device, roots),
        ),
        ("a foreign CA's", node_door(url, &forged, &node.keys.working, roots)),
    ] {
        let answer = client.get(&node.path("ping")).send().await;
        let error = answer.err().unwrap_or_else(|| panic!("{what} was answered"));
        assert!(
            format!("{error:?}").to_lowercase().contains("alert"),
            "{what}: {error:?}"
        );
    }
    let own = get(&node.inside, &node.path("ping")).await;
    assert!(own.status.is_success(), "{own:?}");
}

/// Signed by our own CA, as whoever stole its key would, but never recorded.
async fn never_recorded(town: &Town, node: &Puppet) {
    let fleet = town.fleet().await;
    let key = KeyPair::generate().expect("a key");
    let name = node.uri().parse().expect("a name");
    let issued = fleet
        .ca
        .issue_working(&csr(&key, None), &name, 3600, town.db.clock().now());
    let client = node_door(
        &town.platform.node_url,
        &issued.expect("ours").pem,
        &key,
        &fleet.ca.bundle_pem(),
    );
    let answer = get(&client, &node.path("ping")).await;
    let row = audited(town, &refused(&answer, Code::CertUnknown)).await;
    assert_eq!((row.action.as_str(), row.actor_id), ("certificate.use", node.uri()));
}
