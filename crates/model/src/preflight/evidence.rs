//! Which evidence from a node may still be used. Old evidence is not wrong, it is silent: using
//! it would report yesterday's health.

use super::observation::ApiDial;
use super::result::Skip;

words! {
    /// Who brought an observation.
    Source {
        Api = "api",
        Ssh = "ssh",
        File = "file",
        AgentReport = "agent_report",
        Cli = "cli",
        Gateway = "gateway",
    }
}

const FILE_SECONDS: u64 = 15 * 60;
const REPORT_SECONDS: u64 = 90;
const EDGE_LIMITED_SECONDS: u64 = 15 * 60;

/// May node evidence of this age still speak? A silent node's own report is void, because it
/// tells how things were before the silence; except when it says that an edge told it to slow
/// down, which explains the silence.
pub fn usable(source: Source, age_seconds: u64, heartbeat_failed: bool, api: Option<ApiDial>) -> Result<(), Skip> {
    let fresh = match source {
        Source::AgentReport if api == Some(ApiDial::EdgeRateLimited) => age_seconds <= EDGE_LIMITED_SECONDS,
        Source::AgentReport => age_seconds <= REPORT_SECONDS && !heartbeat_failed,
        Source::File => age_seconds <= FILE_SECONDS,
        // Made while somebody waited for it.
        Source::Api | Source::Ssh | Source::Cli | Source::Gateway => true,
    };
    if fresh { Ok(()) } else { Err(Skip::StaleEvidence) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_ages_by_its_source() {
        let ok = Some(ApiDial::Answered);
        let stale = Err(Skip::StaleEvidence);
        assert_eq!(usable(Source::AgentReport, 90, false, ok), Ok(()));
        assert_eq!(usable(Source::AgentReport, 91, false, ok), stale);
        assert_eq!(usable(Source::File, 900, true, ok), Ok(()));
        assert_eq!(usable(Source::File, 901, false, ok), stale);
        assert_eq!(usable(Source::Ssh, 86_400, true, ok), Ok(()));
    }

    #[test]
    fn silence_voids_the_report_unless_an_edge_caused_it() {
        let edge = Some(ApiDial::EdgeRateLimited);
        assert!(usable(Source::AgentReport, 5, true, None).is_err());
        assert_eq!(usable(Source::AgentReport, 900, true, edge), Ok(()));
        assert!(usable(Source::AgentReport, 901, true, edge).is_err());
    }
}
