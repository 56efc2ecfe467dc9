//! Numbers of guests from the guest's own program to the slot's page.

use std::net::Ipv4Addr;
use std::sync::Arc;

use agent::telemetry::{Book, Limits, serve};
use dev::children::{Program, spawn};
use fleet::telemetry;
use model::digest::Sha256;
use model::id::AllocationId;
use model::telemetry::{GuestNumbers, GuestSample, PATH, Registered, TelemetryRequest};
use tokio::net::TcpListener;
use wire::stop::Stop;

use super::renter::Renter;
use super::*;
use crate::abuse::{audited, refused as was_refused};

fn sample(allocation_id: AllocationId, cpu_pct: u32) -> GuestSample {
    let numbers = GuestNumbers {
        uptime_s: 1,
        cpu_pct: Some(cpu_pct),
        memory_total_mib: None,
        memory_used_mib: None,
        gpus: Vec::new(),
    };
    GuestSample { allocation_id, numbers }
}

#[tokio::test]
async fn a_node_speaks_for_its_own_guests_only() {
    let town = town().await;
    let (puppet, other) = (Puppet::of_slices(&town, "a").await, Puppet::of_slices(&town, "b").await);
    puppet.in_service(&town).await;
    let fleet = town.fleet().await;
    let renter = Renter::new(&fleet);
    let rented = renter.reserves(1).await.expect("a slot");
    let id = rented[0].slot_id;
    let told = TelemetryRequest {
        samples: vec![sample(renter.allocation, 42)],
    };
    let answer = puppet.post("telemetry", &told).await;
    assert!(answer.status.is_success(), "{answer:?}");
    let shown = slot(&town, id).await.telemetry.expect("shown");
    assert_eq!(shown.numbers.cpu_pct, Some(42));
    // Another node has never had that allocation; and of two, one that is foreign spoils both.
    let forged = TelemetryRequest {
        samples: vec![sample(renter.allocation, 1)],
    };
    let error = was_refused(&other.post("telemetry", &forged).await, Code::TelemetryRefused);
    assert_eq!(audited(&town, &error).await.action, "node.telemetry");
    let mixed = TelemetryRequest {
        samples: vec![sample(renter.allocation, 2), sample(AllocationId::new(), 3)],
    };
    was_refused(&puppet.post("telemetry", &mixed).await, Code::TelemetryRefused);
    assert_eq!(slot(&town, id).await.telemetry, Some(shown));
    let (pool, later) = (fleet.app.db.bookkeeping(), fleet.app.clock.now().plus_s(60));
    let forget = async |before| telemetry::forget(pool, before).await.expect("a pass");
    assert_eq!(
        forget(later).await,
        0,
        "a guest that is there is not forgotten, however long it is silent"
    );
    // Once the slot is given back there is nobody to show it to.
    let told_at = slot(&town, id).await.telemetry.expect("shown").at;
    renter.gives_back().await;
    assert_eq!(slot(&town, id).await.telemetry, None);
    assert_eq!(forget(told_at).await, 0, "too young");
    assert_eq!(forget(later).await, 1);
    town.end().await;
}

/// What first boot installs, run as it is against the real door.
#[tokio::test]
async fn the_guests_own_program_is_understood() {
    let python = "/usr/bin/python3";
    if !std::path::Path::new(python).exists() {
        println!("not run: there is no {python}");
        return;
    }
    let dir = std::env::temp_dir().join(format!("telemetry-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let (program, token) = (dir.join("telemetry.py"), dir.join("token"));
    std::fs::write(&program, host::real::GUEST_PROGRAM).expect("written");
    std::fs::write(&token, "a-secret\n").expect("written");
    let (book, stop) = (Arc::new(Book::default()), Stop::new());
    book.set(vec![Registered {
        allocation_id: AllocationId::new(),
        vm_name: "a-vm".parse().expect("a name"),
        address: Ipv4Addr::LOCALHOST,
        token_sha256: Sha256::of(b"a-secret"),
    }]);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let url = format!("http://{}{PATH}", listener.local_addr().expect("an address"));
    let limits = Limits {
        // Its machine may be slow.
        deadline: std::time::Duration::from_secs(20),
        ..Limits::default()
    };
    let door = tokio::spawn(serve(listener, book.clone(), limits, stop.clone()));
    let log = dir.join("log");
    let path = |path: &std::path::Path| path.display().to_string();
    let asked = Program {
        exe: python.into(),
        args: vec![path(&program), url, path(&token)],
        log: log.clone(),
    };
    let mut child = spawn(&asked).expect("starts");
    let ran = tokio::task::spawn_blocking(move || child.wait());
    let status = ran.await.expect("waited for").expect("ended");
    let said = std::fs::read_to_string(&log).unwrap_or_default();
    assert!(status.success(), "{said}");
    let kept = book.take();
    assert_eq!(kept.len(), 1);
    assert!(kept[0].numbers.memory_total_mib.is_some_and(|mib| mib > 0));
    stop.trigger();
    door.await.expect("stops");
    std::fs::remove_dir_all(&dir).expect("removable");
}
