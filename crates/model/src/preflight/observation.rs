//! What somebody saw at each hop, before anyone judged it. Whoever looks fills in exactly what
//! was seen; what was not seen stays `Not` with its reason, and no default is a success.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::result::Skip;
use crate::signal::Code;

/// Something seen, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Seen<T> {
    Seen(T),
    Not(Skip),
}

/// Everything known of one chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Observations {
    pub binding: Seen<Binding>,
    pub heartbeat: Seen<Heartbeat>,
    pub disk: Seen<Disk>,
    pub api: Seen<ApiDial>,
    pub recovery: Recovery,
    pub roundtrip: Seen<Roundtrip>,
    pub mint: Seen<Mint>,
    pub public_route: Seen<PublicRoute>,
    pub upgrade: Seen<Upgrade>,
    pub delivery: Seen<Delivery>,
    pub terminal: Seen<TerminalDial>,
    pub stream: Seen<Stream>,
    pub startup: Seen<Startup>,
    pub ops_access: Seen<OpsAccess>,
}

/// Nothing was seen: the control plane did not answer, the node let nobody in, and nobody asked
/// for the rest.
impl Default for Observations {
    fn default() -> Self {
        let no_api = Skip::ApiUnreachableFromHere;
        let no_node = Skip::NoNodeAccess;
        let not_asked = Skip::NotRequested;
        Observations {
            binding: Seen::Not(no_api),
            heartbeat: Seen::Not(no_api),
            disk: Seen::Not(no_node),
            api: Seen::Not(no_node),
            recovery: Recovery {
                process: Seen::Not(no_node),
                build: Seen::Not(no_api),
                auth: Seen::Not(no_api),
            },
            roundtrip: Seen::Not(no_api),
            mint: Seen::Not(no_api),
            public_route: Seen::Not(not_asked),
            upgrade: Seen::Not(not_asked),
            delivery: Seen::Not(not_asked),
            terminal: Seen::Not(no_node),
            stream: Seen::Not(not_asked),
            startup: Seen::Not(not_asked),
            ops_access: Seen::Not(not_asked),
        }
    }
}

words! {
    /// Hop 1: the allocation, against the node that was named.
    Binding {
        Bound = "bound",
        NotFound = "not_found",
        NotActive = "not_active",
        Unbound = "unbound",
        OtherNode = "other_node",
    }
}

/// Hop 2: the node's last authenticated request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Heartbeat {
    NeverSeen,
    AgeSeconds(u64),
}

/// Hop 3: the fuller of the root and state file systems, and a small durable write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    pub path: String,
    pub used_percent: u32,
    pub free_bytes: u64,
    /// Where the write was tried.
    pub diagnostic_path: Option<String>,
    /// The write went through, to the disk.
    pub writable: bool,
    /// The agent takes no new tasks because of this disk.
    pub claims_paused: bool,
}

words! {
    /// Hop 4a: the API, dialled from the node at its node-facing URL.
    ApiDial {
        Answered = "answered",
        NotGpuaas = "not_gpuaas",
        EdgeRateLimited = "edge_rate_limited",
        DnsFailed = "dns_failed",
        TcpTimeout = "tcp_timeout",
        TcpRefused = "tcp_refused",
        ServerCertUntrusted = "server_cert_untrusted",
        ServerCertExpired = "server_cert_expired",
        ServerNameMismatch = "server_name_mismatch",
    }
}

impl ApiDial {
    /// Judges an HTTP answer by its status and its `gpuaas-service` header. What lacks the header
    /// came from an edge; an edge that says "too much" is told apart from a wrong server.
    pub fn answered(status: u16, service: Option<&str>) -> ApiDial {
        match (service, status) {
            (Some("api"), _) => ApiDial::Answered,
            (None, 403 | 429 | 503) => ApiDial::EdgeRateLimited,
            (_, _) => ApiDial::NotGpuaas,
        }
    }
}

/// Hop 4b: the agent itself. Each part is seen by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    /// On the node: the process lock and the last exit.
    pub process: Seen<Process>,
    /// In the control plane: the version handshake.
    pub build: Seen<Build>,
    /// In the control plane: the last decision on the node's certificate.
    pub auth: Seen<Auth>,
}

words! {
    Process {
        Running = "running",
        NotRunning = "not_running",
        CrashLoop = "crash_loop",
        JournalCorrupt = "journal_corrupt",
        ExecFormat = "exec_format",
        Missing = "missing",
    }
}

words! {
    Build {
        Compatible = "compatible",
        Incompatible = "incompatible",
    }
}

words! {
    Auth {
        Accepted = "accepted",
        CertExpired = "cert_expired",
        CertRevoked = "cert_revoked",
        CertUntrusted = "cert_untrusted",
        ClientCertNotSeen = "client_cert_not_seen",
        WrongNode = "wrong_node",
    }
}

words! {
    /// Hop 5: a health probe, there and back. A result that says "failed" is a result.
    Roundtrip {
        ResultAccepted = "result_accepted",
        NotClaimed = "not_claimed",
        SignatureRefused = "signature_refused",
        NodeLacksTaskType = "node_lacks_task_type",
        ClockSkew = "clock_skew",
        NodeQuarantined = "node_quarantined",
        NoResult = "no_result",
        ResultRejected = "result_rejected",
    }
}

impl Roundtrip {
    /// What a task says that ended with this code: refusals by the envelope checks mean that
    /// nothing was claimed, whatever else came back means that the way is open.
    pub fn ended_with(code: Code) -> Roundtrip {
        match code {
            Code::SignatureInvalid | Code::KeyUnknown | Code::KeyNotUsable | Code::ManifestExpired => {
                Roundtrip::SignatureRefused
            }
            Code::UnsupportedType | Code::TypeNotAllowedHere | Code::NodeLacksTaskType => Roundtrip::NodeLacksTaskType,
            Code::ClockSkew | Code::NotYetValid => Roundtrip::ClockSkew,
            Code::NodeQuarantined => Roundtrip::NodeQuarantined,
            Code::TaskExpired | Code::StartByPassed => Roundtrip::NotClaimed,
            _ => Roundtrip::ResultAccepted,
        }
    }
}

words! {
    /// Hop 6: asking for a terminal token.
    Mint {
        Minted = "minted",
        Unauthenticated = "unauthenticated",
        Forbidden = "forbidden",
        AllocationNotActive = "allocation_not_active",
        SessionStoreUnavailable = "session_store_unavailable",
    }
}

words! {
    /// Hop 7a: the terminal service's health page at its public address.
    PublicRoute {
        Answered = "answered",
        DnsFailed = "dns_failed",
        ConnectFailed = "connect_failed",
        HttpStatus = "http_status",
        NotGpuaas = "not_gpuaas",
    }
}

impl PublicRoute {
    pub fn answered(status: u16, service: Option<&str>) -> PublicRoute {
        match (status, service) {
            (200, Some("terminal-gateway")) => PublicRoute::Answered,
            (200, _) => PublicRoute::NotGpuaas,
            (_, _) => PublicRoute::HttpStatus,
        }
    }
}

words! {
    /// Hop 7b: the WebSocket upgrade and its first frame.
    Upgrade {
        Upgraded = "upgraded",
        /// An edge asks for a login of its own: says nothing about us.
        EdgeLogin = "edge_login",
        UpgradeStripped = "upgrade_stripped",
        SubprotocolMissing = "subprotocol_missing",
        SessionStoreUnavailable = "session_store_unavailable",
        TokenRefused = "token_refused",
        NoAnswer = "no_answer",
    }
}

words! {
    /// Hop 8: `terminal.open` of this session, as far as leaving the queue.
    Delivery {
        Delivered = "delivered",
        NotClaimed = "not_claimed",
        SignatureRefused = "signature_refused",
        NodeLacksTaskType = "node_lacks_task_type",
        ClockSkew = "clock_skew",
        NodeQuarantined = "node_quarantined",
    }
}

/// Hop 9: the terminal gateway, dialled from the node at the URL it is configured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalDial {
    pub dial: Dial,
    /// The configured URL is the one in the endpoint profile.
    pub url_as_in_profile: bool,
}

words! {
    /// Names, connection, server certificate.
    Dial {
        Connected = "connected",
        DnsFailed = "dns_failed",
        TcpTimeout = "tcp_timeout",
        TcpRefused = "tcp_refused",
        ServerCertUntrusted = "server_cert_untrusted",
        ServerCertExpired = "server_cert_expired",
        ServerNameMismatch = "server_name_mismatch",
    }
}

words! {
    /// Hop 10: the gateway's record of the node's stream.
    Stream {
        Connected = "connected",
        ClientCertUntrusted = "client_cert_untrusted",
        ClientCertExpired = "client_cert_expired",
        ClientCertRevoked = "client_cert_revoked",
        WrongNode = "wrong_node",
        /// No stream, and yet the node called the task done.
        TaskSucceeded = "task_succeeded",
        NoStream = "no_stream",
        StreamLate = "stream_late",
    }
}

words! {
    /// Hop 11: the first frame, or the last one that the gateway sent.
    Startup {
        Ready = "ready",
        UserMissing = "user_missing",
        ShellFailed = "shell_failed",
        PtyDenied = "pty_denied",
        PtyTimeout = "pty_timeout",
        NoFrame = "no_frame",
        NotRendered = "not_rendered",
    }
}

words! {
    /// Side check: can operators log in?
    OpsAccess {
        Works = "works",
        Connect = "connect",
        Auth = "auth",
        ResetBeforeBanner = "reset_before_banner",
        GuestAgentDown = "guest_agent_down",
    }
}
