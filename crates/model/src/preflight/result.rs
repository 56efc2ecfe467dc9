//! What is known of one hop after it was judged, and the words that say why.

use super::fault::Fault;

/// The outcome at one hop. The default is that nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopResult {
    /// It works; `warning` names what will soon not.
    Pass {
        warning: Option<Fault>,
    },
    Fail(Fault),
    NotEvaluated(Skip),
}

impl HopResult {
    pub const PASS: HopResult = HopResult::Pass { warning: None };

    /// The word in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            HopResult::Pass { .. } => "pass",
            HopResult::Fail(_) => "fail",
            HopResult::NotEvaluated(_) => "not_evaluated",
        }
    }

    pub const fn fault(self) -> Option<Fault> {
        match self {
            HopResult::Fail(fault) => Some(fault),
            HopResult::Pass { .. } | HopResult::NotEvaluated(_) => None,
        }
    }

    pub const fn passed(self) -> bool {
        matches!(self, HopResult::Pass { .. })
    }
}

words! {
    /// Why a hop was not judged.
    Skip {
        NotApplicable = "not_applicable",
        NotRequested = "not_requested",
        NoNodeAccess = "no_node_access",
        StaleEvidence = "stale_evidence",
        UpstreamFailed = "upstream_failed",
        EdgeAuthRequired = "edge_auth_required",
        Forbidden = "forbidden",
        ApiUnreachableFromHere = "api_unreachable_from_here",
        DeadlineExceeded = "deadline_exceeded",
    }
}

impl Skip {
    /// Nobody asked, so no answer is missing. Any other reason leaves a hole in the verdict.
    pub const fn expected(self) -> bool {
        matches!(self, Skip::NotApplicable | Skip::NotRequested)
    }
}

words! {
    /// Why a hop failed. Which reason may stand with which signal at which hop is said in
    /// [`Signal`](super::Signal)'s table, and nowhere else.
    Reason {
        NotFound = "not_found",
        NotActive = "not_active",
        Unbound = "unbound",
        OtherNode = "other_node",
        WriteFailed = "write_failed",
        ExecFormat = "exec_format",
        Missing = "missing",
        AgentIncompatible = "agent_incompatible",
        NotRunning = "not_running",
        CrashLoop = "crash_loop",
        JournalCorrupt = "journal_corrupt",
        DnsFailed = "dns_failed",
        TcpTimeout = "tcp_timeout",
        TcpRefused = "tcp_refused",
        NotGpuaas = "not_gpuaas",
        EdgeRateLimited = "edge_rate_limited",
        ServerCertUntrusted = "server_cert_untrusted",
        ServerCertExpired = "server_cert_expired",
        ServerNameMismatch = "server_name_mismatch",
        CertExpired = "cert_expired",
        CertRevoked = "cert_revoked",
        CertUntrusted = "cert_untrusted",
        ClientCertNotSeen = "client_cert_not_seen",
        WrongNode = "wrong_node",
        NotClaimed = "not_claimed",
        SignatureRefused = "signature_refused",
        NodeLacksTaskType = "node_lacks_task_type",
        ClockSkew = "clock_skew",
        NodeQuarantined = "node_quarantined",
        NoResult = "no_result",
        ResultRejected = "result_rejected",
        Silent = "silent",
        NeverSeen = "never_seen",
        Unauthenticated = "unauthenticated",
        Forbidden = "forbidden",
        AllocationNotActive = "allocation_not_active",
        SessionStoreUnavailable = "session_store_unavailable",
        ConnectFailed = "connect_failed",
        HttpStatus = "http_status",
        UpgradeStripped = "upgrade_stripped",
        SubprotocolMissing = "subprotocol_missing",
        TokenRefused = "token_refused",
        NoAnswer = "no_answer",
        UrlMismatch = "url_mismatch",
        ClientCertUntrusted = "client_cert_untrusted",
        ClientCertExpired = "client_cert_expired",
        ClientCertRevoked = "client_cert_revoked",
        TaskSucceeded = "task_succeeded",
        NoStream = "no_stream",
        StreamLate = "stream_late",
        UserMissing = "user_missing",
        ShellFailed = "shell_failed",
        PtyDenied = "pty_denied",
        PtyTimeout = "pty_timeout",
        NoFrame = "no_frame",
        NotRendered = "not_rendered",
        FreeBytes = "free_bytes",
        UsedPercent = "used_percent",
        Connect = "connect",
        Auth = "auth",
        ResetBeforeBanner = "reset_before_banner",
        GuestAgentDown = "guest_agent_down",
    }
}

impl Reason {
    /// As part of a sentence for a tenant.
    pub fn phrase(self) -> String {
        self.as_str().replace('_', " ")
    }
}
