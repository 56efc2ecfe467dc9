//! Whether a list stays quick when there is much of it: a page of fifty over HTTP, of a hundred thousand allocations and
//! ten thousand nodes, against the same page of a thousand of each. Both platforms stand at the same time and are asked
//! in turns, so that both meet the same machine; every page is full on both.

use std::time::{Duration, Instant};

use model::api::Page;
use serde_json::Value;

use super::Place;
use super::sample::Sample;
use super::years::Years;
use crate::figures::{Goal, Report};

const SAMPLES: usize = 400;
const WARM_UP: usize = 20;
const LIMIT: usize = 50;
const GOAL: f64 = 2.0;

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let few = Years::pass(place, "pages-few", 1_000, 1_000).await?;
    let many = Years::pass(place, "pages-many", 100_000, 10_000).await?;
    let mut worst: f64 = 0.0;
    for list in LISTS {
        let [mut small, mut large] = [Sample::default(), Sample::default()];
        let paths = [path_of(&few, list).await?, path_of(&many, list).await?];
        for n in 0..WARM_UP + SAMPLES {
            // Each is first every second time.
            let mut pair = [(&few, &paths[0], &mut small), (&many, &paths[1], &mut large)];
            if n % 2 == 0 {
                pair.reverse();
            }
            for (years, path, sample) in pair {
                let took = page_of(years, list, path).await?;
                if n >= WARM_UP {
                    sample.put(took);
                }
            }
        }
        let (p99, limit) = (large.p(99.0), small.p(99.0));
        worst = worst.max(p99 / limit);
        let name = format!("{}, p99", list.name);
        report.put(&name, p99, "ms", Some(limit), Goal::RatioAtMost(GOAL));
    }
    report.put("the worst of them", worst, "x", None, Goal::None);
    few.stand.end().await?;
    many.stand.end().await?;
    Ok(())
}

/// One list, as somebody asks for it.
#[derive(Clone, Copy)]
struct List {
    name: &'static str,
    path: &'static str,
    /// Not its first page, but one far behind.
    later: bool,
    tenant: bool,
}

const fn list(name: &'static str, path: &'static str, later: bool, tenant: bool) -> List {
    List {
        name,
        path,
        later,
        tenant,
    }
}

const LISTS: [List; 9] = [
    list("allocations", "/v1/allocations?limit=50", false, false),
    list("allocations, a later page", "/v1/allocations?limit=50", true, false),
    list(
        "allocations by state",
        "/v1/allocations?limit=50&state=active",
        false,
        false,
    ),
    list("allocations alive", "/v1/allocations?limit=50&live=true", false, false),
    list(
        "allocations of a project",
        "/v1/allocations?limit=50&project=",
        false,
        false,
    ),
    list("allocations of a tenant", "/v1/allocations?limit=50", false, true),
    list("nodes", "/v1/nodes?limit=50", false, false),
    list("nodes, a later page", "/v1/nodes?limit=50", true, false),
    list("nodes by state", "/v1/nodes?limit=50&state=quarantined", false, false),
];

/// With what it is narrowed to, and the place from which it goes on.
async fn path_of(years: &Years, list: List) -> anyhow::Result<String> {
    let mut path = list.path.to_owned();
    if path.ends_with("project=") {
        path += &years.small.id.to_string();
    }
    if list.later {
        // Four long pages further on.
        let mut next: Option<String> = None;
        for _ in 0..4 {
            let after = next.map(|next| format!("&after={next}")).unwrap_or_default();
            let longer = path.replace("limit=50", "limit=200");
            let page: Page<Value> = years.stand.api.get(&format!("{longer}{after}")).await?;
            next = page.next;
        }
        path += &next.map(|next| format!("&after={next}")).unwrap_or_default();
    }
    Ok(path)
}

async fn page_of(years: &Years, list: List, path: &str) -> anyhow::Result<Duration> {
    let api = if list.tenant { &years.tenant } else { &years.stand.api };
    let began = Instant::now();
    let page: Page<Value> = api.get(path).await?;
    let took = began.elapsed();
    anyhow::ensure!(page.items.len() == LIMIT, "{path}: {} of {LIMIT}", page.items.len());
    Ok(took)
}
