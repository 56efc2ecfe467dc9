//! Every metric of the control plane in one list: name, kind, help. A name that is not listed is a compile error for
//! its user, because users name the constants here. `gpuaas_<noun>_<what>_<unit>`.

use std::sync::OnceLock;
use std::time::Duration;

use ::metrics::{counter, describe_counter, describe_gauge, describe_histogram, histogram};
use http::StatusCode;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::http::RouteInfo;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
}

macro_rules! metrics {
    ($($constant:ident $name:literal $kind:ident $help:literal)*) => {
        $(#[doc = $help] pub const $constant: &str = $name;)*
        pub const METRICS: &[Metric] = &[$(Metric { name: $name, kind: Kind::$kind, help: $help },)*];
    };
}

metrics! {
    HTTP_REQUESTS "gpuaas_http_requests_total" Counter "Requests answered, by route and status."
    HTTP_REQUEST_SECONDS "gpuaas_http_request_duration_seconds" Histogram "Time from the first byte of a request to its answer, by route."
    HTTP_RATE_LIMITED "gpuaas_http_rate_limited_total" Counter "Requests refused for coming too often, by kind of subject."
    HTTP_STREAMS_ENDED "gpuaas_http_streams_ended_total" Counter "Streams of events that were ended from this side, by code."
    AUTH_FAILURES "gpuaas_auth_failures_total" Counter "Requests refused for their credentials, by code."
    AUDIT_UNSEALED_SECONDS "gpuaas_audit_unsealed_age_seconds" Gauge "Age of the oldest audit row that is known to wait for its place in the chain, or was just added to it; 0 when there is none."
    AUDIT_SEALED "gpuaas_audit_sealed_total" Counter "Audit rows added to the chain by this process."
    AUDIT_SUPPRESSED "gpuaas_audit_suppressed_total" Counter "Refusals that were repeated too often to be written down, by action and code."
    DATABASE_USES "gpuaas_database_uses_total" Counter "Times this process took a connection to the database to use it."
    OUTBOX_UNSTAMPED_SECONDS "gpuaas_outbox_unstamped_age_seconds" Gauge "Age of the oldest event when it was last given its sequence number; 0 when there was none."
    OUTBOX_STAMPED "gpuaas_outbox_stamped_total" Counter "Events given their sequence number by this process."
    POSTGRES_RESTARTS "gpuaas_postgres_restarts_total" Counter "Times the managed PostgreSQL had to be started again."
}

static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Installs the recorder. Calling it twice is calling it once; crates with metrics of their own pass their lists.
pub fn install(lists: &[&[Metric]]) {
    RECORDER.get_or_init(|| {
        let seconds = Matcher::Suffix("_seconds".to_owned());
        let buckets = [0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 30.0];
        let builder = PrometheusBuilder::new().set_buckets_for_metric(seconds, &buckets);
        match builder.map(PrometheusBuilder::install_recorder) {
            Ok(Ok(handle)) => Some(handle),
            Ok(Err(error)) | Err(error) => {
                tracing::warn!(%error, "metrics are off");
                None
            }
        }
    });
    for metric in lists.iter().copied().chain([METRICS]).flatten() {
        match metric.kind {
            Kind::Counter => describe_counter!(metric.name, metric.help),
            Kind::Gauge => describe_gauge!(metric.name, metric.help),
            Kind::Histogram => describe_histogram!(metric.name, metric.help),
        }
    }
}

/// The text that Prometheus reads; empty before `install`.
pub fn render() -> String {
    RECORDER
        .get()
        .and_then(Option::as_ref)
        .map(PrometheusHandle::render)
        .unwrap_or_default()
}

pub(crate) fn request(route: &RouteInfo, status: StatusCode, took: Duration) {
    let name = format!("{} {}", route.method, route.path);
    counter!(HTTP_REQUESTS, "route" => name.clone(), "status" => status.as_u16().to_string()).increment(1);
    histogram!(HTTP_REQUEST_SECONDS, "route" => name).record(took.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_says_noun_what_and_unit() {
        for metric in METRICS {
            let words: Vec<&str> = metric.name.split('_').collect();
            assert!(words[0] == "gpuaas" && words.len() >= 4, "{}", metric.name);
            let unit = words[words.len() - 1];
            match metric.kind {
                Kind::Counter => assert_eq!(unit, "total", "{}", metric.name),
                Kind::Gauge | Kind::Histogram => assert!(
                    ["seconds", "bytes", "ratio", "count"].contains(&unit),
                    "{}",
                    metric.name
                ),
            }
            assert!(metric.help.ends_with('.'), "{}", metric.name);
        }
    }

    #[test]
    fn what_is_counted_is_shown() {
        install(&[]);
        counter!(AUDIT_SEALED).increment(3);
        assert!(render().contains("# HELP gpuaas_audit_sealed_total"));
    }
}
