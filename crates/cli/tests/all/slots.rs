//! Slots and phases as a stranger reads them: what stands in the way, by name, and what to type against it.

use serde_json::{Value, json};

use crate::server::{Answer, Asked, Server};
use crate::town::{Home, gpuaas, node, page, task};

const SLOT: &str = "slot_0000000000000000000000000g";

fn blocker() -> Value {
    json!({"code": "vfio_group_not_viable", "subject": "0000:18:00.1", "detail": "on snd_hda_intel", "fix": "bind it to vfio-pci"})
}

fn slot(blockers: &[Value]) -> Value {
    json!({
        "id": SLOT, "node_name": "sim-a", "simulated": true, "slot_index": 3, "state": "candidate",
        "state_since": "2026-01-01T00:00:00.000Z", "pci_address": "0000:18:00.0", "nvme_serial": "S6CKNT0W000003",
        "nvme_size_bytes": 3_840_000_000_000_u64, "numa_node": 0, "blockers": blockers, "warnings": [],
        "waiting": {"reason": "an operator has to approve it", "since": "2026-01-01T00:00:00.000Z", "verb": "gpuaas slot approve X"},
    })
}

async fn server(blockers: &[Value]) -> Server {
    let slot = slot(blockers);
    Server::start(move |asked: &Asked, _| match asked.path.as_str() {
        path if path.starts_with("/v1/nodes") => Answer::Json(200, page(&[node("sim-a")], None)),
        path if path.starts_with("/v1/slots?") => Answer::Json(200, page(std::slice::from_ref(&slot), None)),
        _ => Answer::Json(200, slot.clone()),
    })
    .await
}

#[tokio::test]
async fn what_stands_in_the_way_is_said_with_what_to_do() {
    let home = Home::new();
    let server = server(&[blocker()]).await;
    let said = gpuaas(&["slot", "show", SLOT])
        .at(&server.url)
        .on_a_terminal()
        .run(&home)
        .await;
    assert_eq!(said.exit, 0, "{}", said.err);
    assert!(said.out.contains("sim-a (SIMULATED)"), "{}", said.out);
    let told = "  blocked by vfio_group_not_viable on 0000:18:00.1: on snd_hda_intel\n    fix: bind it to vfio-pci\n";
    assert!(said.out.contains(told), "{}", said.out);
    let said = gpuaas(&["slot", "show", SLOT]).at(&server.url).run(&home).await;
    let line = "blocker\tvfio_group_not_viable\t0000:18:00.1\ton snd_hda_intel\tbind it to vfio-pci\n";
    assert!(said.out.ends_with(line), "{}", said.out);
}

#[tokio::test]
async fn all_of_a_node_are_approved_but_what_is_blocked() {
    let home = Home::new();
    for (blockers, posts) in [(vec![], 1), (vec![blocker()], 0)] {
        let server = server(&blockers).await;
        let said = gpuaas(&["slot", "approve", "--node", "sim-a"])
            .at(&server.url)
            .run(&home)
            .await;
        assert_eq!(said.exit, 0, "{}", said.err);
        let asked = server.asked();
        let approved: Vec<&Asked> = asked.iter().filter(|asked| asked.method == "POST").collect();
        assert_eq!(approved.len(), posts);
        assert!(
            approved
                .iter()
                .all(|asked| asked.path == format!("/v1/slots/{SLOT}/approve"))
        );
        assert_eq!(
            said.err.contains("1 of 1 candidates are blocked"),
            posts == 0,
            "{}",
            said.err
        );
    }
    let server = server(&[]).await;
    let said = gpuaas(&["slot", "approve"]).at(&server.url).run(&home).await;
    assert_eq!(said.exit, 2, "{}", said.err);
}

#[tokio::test]
async fn people_see_who_has_a_slot_and_scripts_count_the_columns_they_know() {
    let home = Home::new();
    let mut taken = slot(&[]);
    taken["allocation_id"] = json!("alloc_0000000000000000000000000g");
    let server = Server::start(move |_: &Asked, _| Answer::Json(200, page(std::slice::from_ref(&taken), None))).await;
    let list = || gpuaas(&["slot", "list"]).at(&server.url);
    let said = list().on_a_terminal().run(&home).await;
    assert!(
        said.out.contains("ALLOCATION_ID") && said.out.contains("alloc_00000g"),
        "{}",
        said.out
    );
    let said = list().run(&home).await;
    assert_eq!(said.out.split('\t').nth(5), Some("0000:18:00.0"), "{}", said.out);
}

#[tokio::test]
async fn a_proof_is_shown_with_what_was_found_and_who_signed_it() {
    let home = Home::new();
    let wipe = json!({
        "slot_id": SLOT, "kind": "wipe", "subject": "S6CKNT0W000003", "clean": true, "at": "2026-01-01T00:00:01.000Z",
        "task_id": "task_0000000000000000000000000g", "op_id": "op_0000000000000000000000000g", "signed_by": "0a1b2c3d",
        "proof": {
            "method": "overwrite", "tool_rc": 0, "verdict": "clean", "markers_planted": 1026, "markers_found": 0,
            "signatures_found": 0, "read_back_bytes": 1_u64 << 40, "size_bytes": 1_u64 << 40, "blocks_not_zero": 0,
            "started_at": "2026-01-01T00:00:00.000Z", "ended_at": "2026-01-01T00:00:01.000Z", "nonce": "d29e",
            "nvme_device": "nvme-X", "wwn": "eui.6e",
        },
    });
    let list = page(std::slice::from_ref(&wipe), None);
    let server = Server::start(move |_: &Asked, _| Answer::Json(200, list.clone())).await;
    let said = gpuaas(&["slot", "proof", SLOT])
        .at(&server.url)
        .on_a_terminal()
        .run(&home)
        .await;
    for wanted in [
        "wipe of S6CKNT0W000003: clean, proved ",
        "overwrite in 1.0s, exit 0",
        "1026 written before, 0 found afterwards",
        "1024 GiB of 1024 GiB",
        "the executor's key 0a1b2c3d, as task_00000g",
    ] {
        assert!(said.out.contains(wanted), "{wanted} in {}", said.out);
    }
    let said = gpuaas(&["slot", "proof", SLOT]).at(&server.url).run(&home).await;
    assert_eq!(
        said.out,
        "wipe\tS6CKNT0W000003\ttrue\t2026-01-01T00:00:01.000Z\ttask_0000000000000000000000000g\n"
    );
}

#[tokio::test]
async fn a_discovery_ends_with_slots_and_blockers() {
    let home = Home::new();
    let mut ended = task("succeeded", 5);
    ended["task_type"] = json!("slice.topology_discover");
    ended["output"] = json!({
        "candidate_slots": [{"slot_index": 0, "pci_address": "0000:18:00.0", "nvme_serial": "S6CKNT0W000000",
            "nvme_size_bytes": 3_840_000_000_000_u64, "fabric_device": null, "numa_node": 1, "private_ip": "10.77.0.10", "schedulable": false}],
        "candidate_summary": {"slots": 1, "schedulable": 0, "blockers": [blocker()], "warnings": []},
    });
    let server = Server::start(move |asked: &Asked, _| match asked.path.as_str() {
        path if path.ends_with("/discover") => Answer::Json(202, ended.clone()),
        _ => Answer::Json(200, page(&[node("sim-a")], None)),
    })
    .await;
    let said = gpuaas(&["node", "discover", "sim-a"]).at(&server.url).run(&home).await;
    assert_eq!(said.exit, 0, "{}", said.err);
    let line = "0\t0000:18:00.0\tS6CKNT0W000000\t3840000000000\t\t1\t10.77.0.10\tfalse\nblocker\tvfio_group_not_viable";
    assert!(said.out.contains(line), "{}", said.out);
    assert!(
        said.err.contains("0 of 1 slots could be rented out, 1 blockers"),
        "{}",
        said.err
    );
}

#[tokio::test]
async fn phases_stand_in_their_order_with_their_times() {
    let home = Home::new();
    let mut shown = task("started", 4);
    shown["task_type"] = json!("slice.vm_provision");
    shown["phases"] = json!([
        {"name": "lease_acquire", "state": "done", "took_ms": 3},
        {"name": "image_stat_download", "state": "running", "took_ms": null,
         "progress": {"done_bytes": 3 << 20, "of_bytes": 300 << 20}, "within_s": 7200,
         "since": "2020-01-01T00:00:00Z", "deadline_at": "2020-01-01T02:00:00Z"},
        {"name": "performance_probe", "state": "waiting", "took_ms": null},
    ]);
    let server = Server::start(move |_: &Asked, _| Answer::Json(200, shown.clone())).await;
    let words = ["task", "show", "task_0000000000000000000000000g"];
    let said = gpuaas(&words).at(&server.url).on_a_terminal().run(&home).await;
    let table = "  1/3 lease_acquire            ✓            3ms\n  2/3 image_stat_download      … now    3 MiB of 300 MiB for ";
    let rest = said.out.split(table).nth(1).expect("the phases");
    // How old it is by now is the clock's affair.
    assert!(
        rest.ends_with("d, 2h at most\n  3/3 performance_probe        ·\n"),
        "{}",
        said.out
    );
    let said = gpuaas(&words).at(&server.url).run(&home).await;
    assert!(
        said.out.ends_with(
            "phase\t1\tlease_acquire\tdone\t3\t\t\t\t\nphase\t2\timage_stat_download\trunning\t\t3145728\t314572800\t2020-01-01T00:00:00Z\t2020-01-01T02:00:00Z\nphase\t3\tperformance_probe\twaiting\t\t\t\t\t\n"
        ),
        "{}",
        said.out
    );
}
