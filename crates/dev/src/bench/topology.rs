//! A whole discovery, without journal and signature: every file of a generated tree of kernel files read, everything
//! paired and checked. A host with eight GPUs, and one with as many devices as a discovery takes; then, without reading
//! files, how the cost of pairing and checking grows, beside n log n.

use std::time::{Duration, Instant};

use anyhow::Context;
use executor::SlicePolicy;
use host::Host;
use host::pretend::{Hardware, Pretend, Profile, tree, vast};
use model::id::NodeId;

use super::Place;
use super::sample::Sample;
use crate::figures::{Goal, Report};

const SAMPLES: usize = 40;
/// Each GPU of the vast machine comes with seven more devices.
const DEVICES_PER_GPU: u32 = 8;
const NUMA_NODES: u32 = 64;

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let place = place.clone();
    let measured = tokio::task::spawn_blocking(move || -> anyhow::Result<_> {
        let usual = from_files(
            &place,
            "h100x8",
            &Pretend::in_memory(Profile::H100x8).snapshot().hardware,
        )?;
        let large = from_files(&place, "vast", &vast(128, NUMA_NODES))?;
        let growth = [16, 32, 64, 128].map(|gpus| (gpus * DEVICES_PER_GPU, in_memory(gpus)));
        Ok((usual, large, growth))
    });
    let (usual, large, growth) = measured.await??;
    report.put("8 GPUs, p50", usual.p(50.0), "ms", None, Goal::None);
    report.put("8 GPUs, p99", usual.p(99.0), "ms", None, Goal::AtMost(50.0));
    report.put(
        "1024 devices, 64 NUMA nodes, p50",
        large.p(50.0),
        "ms",
        None,
        Goal::None,
    );
    report.put(
        "1024 devices, 64 NUMA nodes, p99",
        large.p(99.0),
        "ms",
        None,
        Goal::AtMost(1000.0),
    );
    let mut least = None;
    for (devices, took) in growth {
        let took = took?.p(1.0);
        let (first, base) = *least.get_or_insert((devices, took));
        report.put(
            &format!("{devices} devices without files, least"),
            took,
            "ms",
            None,
            Goal::None,
        );
        if devices > first {
            let limit = n_log_n(devices) / n_log_n(first);
            let name = format!("growth from {first} to {devices} devices");
            report.put(&name, took / base, "x", Some(limit), Goal::RatioAtMost(1.0));
        }
    }
    Ok(())
}

fn n_log_n(n: u32) -> f64 {
    f64::from(n) * f64::from(n).log2()
}

fn policy() -> anyhow::Result<SlicePolicy> {
    Ok(SlicePolicy {
        cidr: Some("10.0.0.0/16".parse()?),
        bridges: vec!["br-slices".parse()?],
    })
}

fn from_files(place: &Place, name: &str, hardware: &Hardware) -> anyhow::Result<Sample> {
    let root = place.scratch.join(format!("topology-{name}"));
    std::fs::create_dir_all(&root)?;
    let sample = tree::grow(hardware, &root)
        .context("grow a tree")
        .and_then(|()| sample(&Host::real_under(&root), name));
    std::fs::remove_dir_all(&root)?;
    sample
}

fn in_memory(gpus: u32) -> anyhow::Result<Sample> {
    let machine = Pretend::in_memory(Profile::Cpu);
    machine.meddle(|state| state.hardware = vast(gpus, NUMA_NODES));
    sample(&machine.host(), &gpus.to_string())
}

fn sample(host: &Host, name: &str) -> anyhow::Result<Sample> {
    let (node, policy) = (NodeId::new(), policy()?);
    let mut sample = Sample::default();
    for _ in 0..SAMPLES {
        let began = Instant::now();
        let output = executor::discover(host, node, &policy).map_err(|fail| anyhow::anyhow!("{fail:?}"))?;
        let took: Duration = began.elapsed();
        let summary = &output.candidate_summary;
        // A discovery that finds nothing is quick and worthless.
        anyhow::ensure!(summary.slots > 0 && summary.blockers.is_empty(), "{name}: {summary:?}");
        sample.put(took);
    }
    Ok(sample)
}
