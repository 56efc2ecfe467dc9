//! The report's shape: every key always there, for operators and for tenants.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::*;
use crate::id::{AllocationId, NodeId, PreflightId};
use crate::time::Timestamp;

const AT: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn report(seen: &Observations, ids: Ids) -> Report {
    let mut detail = Map::new();
    detail.insert("url".into(), json!("https://node-api.gpuaas.test"));
    let look = Look {
        source: Source::Ssh,
        observed_at: AT,
        duration_ms: 7,
        detail,
    };
    let run = Run {
        preflight_id: PreflightId::from(Uuid::nil()),
        correlation_id: Uuid::nil(),
        tool_version: "0.1.0".into(),
        profile: Some("demo".into()),
        started_at: AT,
        duration_ms: 1,
        ids,
        disk: match &seen.disk {
            Seen::Seen(disk) => Some(disk.clone()),
            Seen::Not(_) => None,
        },
        looks: BTreeMap::from([(Hop::NodeRuntimeApiReachability, look)]),
        limits: Limits::default(),
    };
    Report::new(run, &found(seen))
}

fn full_ids() -> Ids {
    let text = |word: &str| Some(word.to_owned());
    Ids {
        allocation_id: Some(AllocationId::from(Uuid::nil())),
        node_id: Some(NodeId::from(Uuid::nil())),
        correlation_id: Some(Uuid::nil()),
        session_id: None,
        node_hostname: text("canary-host"),
        provider: text("canary-provider"),
        private_ip: text("canary-ip"),
        api_url: text("canary-api"),
        terminal_url: text("canary-terminal"),
    }
}

/// Paths of all keys; rows of a list count once.
fn keys(value: &Value, path: &str, into: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let path = format!("{path}.{key}");
                into.push(path.clone());
                keys(inner, &path, into);
            }
        }
        Value::Array(rows) => rows.iter().take(1).for_each(|row| keys(row, path, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

#[test]
fn every_key_is_there_even_when_nothing_is_known() {
    let report = serde_json::to_value(report(&Observations::default(), Ids::default())).unwrap();
    let mut found = Vec::new();
    keys(&report, "", &mut found);
    let mut wanted = Vec::new();
    let example = json!({
        "schema": "", "preflight_id": "", "correlation_id": "", "tool_version": "", "profile": "",
        "started_at": "", "duration_ms": 1, "verdict": "", "complete": false,
        "first_failed_hop": null, "cause": null, "signals": [], "warnings": [],
        "status": {"node_agent": "", "terminal": ""},
        "ids": {
            "allocation_id": "", "node_id": "", "correlation_id": "", "session_id": null,
            "node_hostname": "", "provider": "", "private_ip": "", "api_url": "", "terminal_url": ""
        },
        "disk": {
            "path": "/", "used_percent": 41, "free_bytes": 1, "diagnostic_path": "", "writable": true
        },
        "hops": [{
            "n": "1", "hop": "", "result": "pass", "signal": null, "reason": null, "source": "",
            "observed_at": "", "duration_ms": 1, "detail": {}
        }],
        "side_checks": [{"check": "", "result": "", "signal": null, "reason": ""}],
        "limits": {"heartbeat_stale_seconds": 50}
    });
    keys(&example, "", &mut wanted);
    let missing: Vec<_> = wanted.iter().filter(|key| !found.contains(key)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    assert_eq!(report["hops"].as_array().map(Vec::len), Some(13));
    assert_eq!(report["hops"][0]["reason"], "api_unreachable_from_here");
}

#[test]
fn the_cause_says_whose_job_it_is_and_what_to_do() {
    let mut seen = healthy();
    seen.heartbeat = Seen::Seen(Heartbeat::AgeSeconds(90));
    seen.api = Seen::Seen(ApiDial::TcpTimeout);
    let report = serde_json::to_value(report(&seen, full_ids())).unwrap();
    assert_eq!(report["schema"], "gpuaas.preflight.v1");
    assert_eq!(report["verdict"], "failed");
    assert_eq!(report["first_failed_hop"], "node_heartbeat");
    assert_eq!(
        report["cause"],
        json!({
            "signal": "node_agent_api_unreachable",
            "hop": "node_runtime_api_reachability",
            "reason": "tcp_timeout",
            "owner": Code::NodeAgentApiUnreachable.owner(),
            "recovery": Code::NodeAgentApiUnreachable.recovery(),
        })
    );
    assert_eq!(
        report["status"],
        json!({"node_agent": "api_unreachable", "terminal": "browser_ws_ready"})
    );
    let row = &report["hops"][3];
    assert_eq!(row["n"], "4a");
    assert_eq!((&row["result"], &row["source"]), (&json!("fail"), &json!("ssh")));
    assert_eq!(report["hops"][5]["reason"], "upstream_failed");
}

#[test]
fn a_tenant_gets_the_same_keys_and_nothing_of_the_machine() {
    let operator = report(&healthy(), full_ids());
    let tenant = serde_json::to_value(operator.clone().for_tenant()).unwrap();
    let text = tenant.to_string();
    for secret in ["canary", "node-api.gpuaas.test", "/var/lib", "node_00"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    assert_eq!(tenant["ids"]["allocation_id"], json!(operator.ids.allocation_id));
    assert_eq!(tenant["disk"]["free_bytes"], Value::Null);
    assert!(tenant["disk"].as_object().is_some_and(|disk| disk.len() == 5));
}

#[test]
fn a_report_can_be_read_back() {
    let mut seen = healthy();
    seen.startup = Seen::Seen(Startup::UserMissing);
    seen.ops_access = Seen::Seen(OpsAccess::Auth);
    let report = report(&seen, full_ids());
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
}

#[test]
fn observations_travel_as_json_and_unknown_ones_are_refused() {
    let json = serde_json::to_string(&healthy()).unwrap();
    assert_eq!(serde_json::from_str::<Observations>(&json).unwrap(), healthy());
    let strange = json.replace("\"bound\"", "\"teleported\"");
    assert!(serde_json::from_str::<Observations>(&strange).is_err());
    let extra = json.replacen('{', "{\"hint\":1,", 1);
    assert!(serde_json::from_str::<Observations>(&extra).is_err());
}
