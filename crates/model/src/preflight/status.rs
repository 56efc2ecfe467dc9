//! The two words of the dashboard: how the agent is, and how far a terminal gets.

words! {
    /// How the node's agent is.
    NodeAgent {
        Healthy = "healthy",
        Stale = "stale",
        AuthFailed = "auth_failed",
        ApiUnreachable = "api_unreachable",
        TaskResultFailed = "task_result_failed",
        Unknown = "unknown",
    }
}

words! {
    /// The furthest point that a terminal reached.
    Readiness {
        TokenReady = "token_ready",
        BrowserWsReady = "browser_ws_ready",
        TerminalOpenSent = "terminal_open_sent",
        NodeStreamConnected = "node_stream_connected",
        PtyReady = "pty_ready",
        Failed = "failed",
    }
}
