//! `gpuaas-dev bench`: how fast, with the limit that was measured in the same run. Each bench is a module with one
//! `run`, stands on its own ground (durable database, real TLS, real signatures) and takes it away afterwards. One
//! that cannot run says `not run` and why, and counts as missed; none of them retries until a figure looks well.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;

use crate::figures::Report;

mod allocation_create;
mod bare;
mod disk;
mod event_latency;
mod executor_start;
mod foreign;
mod guest;
mod images;
mod log;
mod lot;
mod pages;
mod pgbench;
mod provision;
mod puppet;
mod renter;
mod revocation;
mod round_trip;
pub mod sample;
mod scale;
mod slice_overhead;
mod slices;
mod socket;
pub mod stand;
mod start_latency;
mod tape;
mod tenants;
mod topology;
mod wipe;
mod years;

/// Every bench there is. A new one adds its line here and to `Bench::run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bench {
    /// Tasks asked for, signed, claimed and landed per second, against what pgbench commits
    RoundTrip,
    /// From asking for a task to its handler's start, on an idle platform
    StartLatency,
    /// From revoking a certificate to the refusal on its live connection
    Revocation,
    /// From exec to the answer on its socket
    ExecutorStart,
    /// What ten thousand nodes that wait cost one api process
    Scale,
    /// From looking at a host's devices to its slots and all that stands in their way
    Topology,
    /// From a commit to a reader of events at another replica
    EventLatency,
    /// Giving a disk back, against what dd takes for the same device
    Wipe,
    /// What a provision costs besides the host's own work, against as many syncs of the disk
    Provision,
    /// An image verified, and written to a disk, against plain qemu-img and what a core can hash
    Images,
    /// Whether it takes longer to be told that something is somebody else's than that it does not exist
    Foreign,
    /// Renting something over the public API, against the same statements run by nobody
    AllocationCreate,
    /// What the control plane adds to the making of a slice, against the commits on its way
    SliceOverhead,
    /// A page of fifty of a hundred thousand, against one of a thousand
    Pages,
}

impl Bench {
    /// Also the name of its file of figures.
    pub const fn as_str(self) -> &'static str {
        match self {
            Bench::RoundTrip => "round_trip",
            Bench::StartLatency => "start_latency",
            Bench::Revocation => "revocation",
            Bench::ExecutorStart => "executor_start",
            Bench::Scale => "scale",
            Bench::Topology => "topology",
            Bench::EventLatency => "event_latency",
            Bench::Wipe => "wipe",
            Bench::Provision => "provision",
            Bench::Images => "images",
            Bench::Foreign => "foreign",
            Bench::AllocationCreate => "allocation_create",
            Bench::SliceOverhead => "slice_overhead",
            Bench::Pages => "pages",
        }
    }

    async fn run(self, place: &Place) -> anyhow::Result<Report> {
        let mut report = Report::new(self.as_str());
        match self {
            Bench::RoundTrip => round_trip::run(place, &mut report).await?,
            Bench::StartLatency => start_latency::run(place, &mut report).await?,
            Bench::Revocation => revocation::run(place, &mut report).await?,
            Bench::ExecutorStart => executor_start::run(place, &mut report).await?,
            Bench::Scale => scale::run(place, &mut report).await?,
            Bench::Topology => topology::run(place, &mut report).await?,
            Bench::EventLatency => event_latency::run(place, &mut report).await?,
            Bench::Wipe => wipe::run(place, &mut report).await?,
            Bench::Provision => provision::run(place, &mut report).await?,
            Bench::Images => images::run(place, &mut report).await?,
            Bench::Foreign => foreign::run(place, &mut report).await?,
            Bench::AllocationCreate => allocation_create::run(place, &mut report).await?,
            Bench::SliceOverhead => slice_overhead::run(place, &mut report).await?,
            Bench::Pages => pages::run(place, &mut report).await?,
        }
        Ok(report)
    }
}

/// What a bench is given.
#[derive(Clone, Debug)]
pub struct Place {
    /// Beside the release build's other programs.
    pub exe: PathBuf,
    /// On a real disk: what is measured there is whether it is waited for.
    pub scratch: PathBuf,
    /// How large a crowd is.
    pub nodes: u64,
}

impl Place {
    /// Another program of the same build.
    pub fn program(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.exe.with_file_name(name);
        anyhow::ensure!(path.exists(), "{} is not built", path.display());
        Ok(path)
    }
}

/// Runs these, or all, one after the other; figures go to `<out>/<name>.json`.
pub async fn run(benches: &[Bench], place: &Place, out: &Path) -> anyhow::Result<ExitCode> {
    let all = Bench::value_variants();
    let mut held = true;
    for bench in if benches.is_empty() { all } else { benches } {
        println!();
        match bench.run(place).await {
            Ok(report) => {
                report.write(out)?;
                held &= report.ok();
            }
            Err(error) => {
                println!("not run: {}: {error:#}", bench.as_str());
                held = false;
            }
        }
    }
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
