//! Thousands of hostile texts in every text of every slice task: none of them gets as far as a program.

use serde_json::{Value, json, value::RawValue};

use super::Task;
use crate::signal::Code;

fn slot() -> Value {
    json!({
        "slot_id": "slot_00000000000000000000000004", "slot_index": 0, "pci_address": "0000:18:00.0",
        "fabric_device": "0000:19:00.1", "nvme_device": "nvme-eui.0025385b21404e3d", "nvme_serial": "S6CKNT0W000000",
        "nvme_wwn": "eui.0025385b21404e3d", "nvme_size_bytes": 3_840_755_982_336u64, "numa_node": 0, "vcpu_count": 12,
        "memory_mib": 65_536, "mac_address": "02:11:22:33:44:55", "private_ip": "10.100.0.10",
    })
}

fn honest() -> Vec<(&'static str, Value)> {
    let (allocation, vm, digest) = ("alloc_00000000000000000000000004", "vm-a", "0".repeat(64));
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    let provision = json!({
        "allocation_id": allocation, "vm_name": vm, "default_username": "ubuntu", "image_path": "ubuntu.qcow2",
        "image_sha256": digest, "image_size_bytes": 4096, "image_format": "qcow2",
        "image_url": "https://images.example/u.qcow2", "image_trusted": false, "driver_strategy": "none",
        "ssh_public_keys": [key], "ovs_bridge": "br-slice", "graceful_timeout_seconds": 120,
        "readiness_timeout_seconds": 900, "slots": [slot()],
    });
    let release = json!({
        "allocation_id": allocation, "vm_name": vm, "slots": [slot()], "graceful_timeout_seconds": 120, "wipe": true,
        "release_nonce": digest,
    });
    let power = json!({
        "allocation_id": allocation, "vm_name": vm, "action": "stop", "graceful_timeout_seconds": 120,
    });
    vec![
        ("slice.vm_provision", provision),
        ("slice.vm_release", release),
        ("slice.vm_power", power),
    ]
}

fn parse(task_type: &str, params: &Value) -> Result<Task, (Code, String)> {
    let raw = RawValue::from_string(params.to_string()).expect("JSON");
    Task::parse(task_type, 1, &raw)
}

/// Every text, by its place.
fn texts(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(all) => (0..all.len()).for_each(|n| texts(&all[n], &format!("{at}/{n}"), found)),
        Value::Object(all) => all
            .iter()
            .for_each(|(key, value)| texts(value, &format!("{at}/{key}"), found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn hostile() -> Vec<String> {
    let words = [
        "",
        "x",
        "vm-a",
        "../x",
        "/etc/shadow",
        "https://a@b/",
        "nvme-x",
        "0000:18:00.0",
    ];
    let ends = [
        ";id", "$(id)", "`id`", "|id", "&&id", "\nid", "\r\n", "\0", "'", "\"", "\\", "<a/>", "&amp;", ",x=y",
        " --help", "%s", "*", "?", "{a,b}", "~", "\u{2028}", "\u{202e}", "é", "#", "!!python", ": y", "\t", "=",
        "\u{7f}", " ", "/..",
    ];
    let wrap = |word: &str, end: &str| [format!("{word}{end}"), format!("{end}{word}"), format!("-{word}{end}")];
    let mut all: Vec<String> = Vec::new();
    for word in words {
        all.extend(ends.iter().flat_map(|end| wrap(word, end)));
    }
    for end in ends {
        all.extend((1..44).map(|n| format!("{}{end}", "a".repeat(n))));
    }
    all
}

#[test]
fn abuse_21_shell_characters_in_every_text() {
    let (hostile, mut tried) = (hostile(), 0);
    assert!(hostile.len() >= 2000, "{}", hostile.len());
    for (task_type, params) in honest() {
        parse(task_type, &params).unwrap_or_else(|(_, why)| panic!("{task_type}: {why}"));
        let mut places = Vec::new();
        texts(&params, "", &mut places);
        for place in places {
            // Compared with what a disk says of itself and never handed to anybody; printable, unquoted.
            let only_compared = place.ends_with("/nvme_serial") || place.ends_with("/nvme_wwn");
            // What follows a key is a comment, and is dropped.
            let is_key = place.contains("/ssh_public_keys/");
            for text in &hostile {
                let mut spoiled = params.clone();
                *spoiled.pointer_mut(&place).expect("it is there") = json!(text);
                tried += 1;
                match parse(task_type, &spoiled) {
                    Err((code, _)) => assert_eq!(code, Code::ParamsInvalid, "{place}"),
                    Ok(_) if only_compared => assert!(!text.contains(['\'', '"', '\\', '`', '\n', '\0']), "{text:?}"),
                    Ok(_) => panic!("{task_type} {place} takes {text:?} (key: {is_key})"),
                }
            }
        }
    }
    assert!(tried > 50_000, "{tried}");
}
