//! The table of settings: one line each, and everything else (file key, flag, variable, help, default) follows from it.

/// What a value has to look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// Never shown.
    Secret,
    Path,
    Address,
    Switch,
    /// At least one.
    Count,
    /// Separated by commas on the command line and in the environment.
    List,
    Choice(&'static [&'static str]),
}

#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The key in the file; `--key-with-dashes` and `GPUAAS_KEY` follow from it.
    pub name: &'static str,
    pub kind: Kind,
    /// Empty: unset, or derived as the help says.
    pub default: &'static str,
    pub help: &'static str,
}

impl Setting {
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    pub fn variable(&self) -> String {
        format!("GPUAAS_{}", self.name.to_ascii_uppercase())
    }
}

macro_rules! settings {
    ($($name:ident $kind:expr, $default:literal, $help:literal;)*) => {
        pub const SETTINGS: &[Setting] = &[$(
            Setting { name: stringify!($name), kind: $kind, default: $default, help: $help },
        )*];
    };
}

settings! {
    database_url         Kind::Secret,  "", "PostgreSQL to use, logging in as gpuaas_app; prefer the file or the variable, a command line is seen by everybody";
    database_owner_url   Kind::Secret,  "", "The same database as gpuaas_owner; when set, this process brings the schema up to date at start";
    managed_postgres     Kind::Switch,  "false", "Start a private PostgreSQL under the state directory instead";
    postgres_bin_dir     Kind::Path,    "", "Where postgres, initdb and pg_ctl lie [default: found on PATH, then in /usr/lib/postgresql]";
    state_dir            Kind::Path,    "/var/lib/gpuaas", "Where this process keeps what must survive a restart";
    keys_dir             Kind::Path,    "", "Where private keys lie [default: <state_dir>/keys]";
    role_identity        Kind::Path,    "", "What `gpuaasd admin role` wrote for this process, which then holds no signing keys and asks the api instead. Unset: the keys are here";
    images_dir           Kind::Path,    "", "Where the files of listed images lie, from which nodes fetch them [default: <state_dir>/images]";
    listen_public        Kind::Address, "127.0.0.1:8080", "Public API and console";
    public_cert_file     Kind::Path,    "", "Certificate chain (PEM) of the public listener; without one it speaks plain HTTP, on loopback only";
    public_key_file      Kind::Path,    "", "Its private key (PEM, PKCS#8)";
    behind_edge          Kind::Switch,  "false", "An edge before the public listener ends TLS: plain HTTP beyond loopback is then allowed";
    trusted_proxies      Kind::Count,   "", "How many proxies of your own stand before the public listener, each adding the address that it saw to X-Forwarded-For; unset, that header is never read";
    public_url           Kind::Text,    "", "Where people reach the public listener, as in https://gpu.example [default: http(s)://<listen_public>]";
    oidc_issuer          Kind::Text,    "", "The identity provider's issuer URL; https, or http on loopback. Unset: only tokens of ours open anything";
    oidc_ca_file         Kind::Path,    "", "CA of the identity provider, PEM [default: the system's]";
    oidc_client_id       Kind::Text,    "", "Browsers sign in as this client, with <public_url>/auth/callback as redirect; unset: they cannot";
    oidc_client_secret   Kind::Secret,  "", "Its secret, if it has one; prefer the file or the variable";
    oidc_audience        Kind::Text,    "", "What access tokens for this API carry as `aud`; a URL is also asked for as `resource`. Unset: the provider's tokens open nothing here, and the command line cannot sign in";
    oidc_cli_client_id   Kind::Text,    "", "The public client of the command line: code with PKCE to any loopback port, and device flow [default: oidc_client_id]";
    oidc_scopes          Kind::List,    "openid,profile,email", "Scopes asked for when somebody signs in";
    oidc_name_claim      Kind::Text,    "preferred_username", "Claim that names a new user; a path as in `a.b` leads into objects";
    oidc_email_claim     Kind::Text,    "email", "Claim with the e-mail address, which is shown and never decides anything";
    oidc_role_claim      Kind::Text,    "", "Claim with groups or roles, as in `realm_access.roles`; when set, it decides platform roles at every sign-in";
    oidc_role_map        Kind::List,    "", "Which of them mean a platform role here, as in gpu-admins=admin,noc=operator; nothing else does";
    session_idle_s       Kind::Count,   "28800", "A browser session ends after this long without a request: 8 h";
    session_life_s       Kind::Count,   "86400", "And after this long in any case: a day";
    listen_node          Kind::Address, "0.0.0.0:9443", "Nodes and workers, mutual TLS";
    listen_enrol         Kind::Address, "0.0.0.0:9444", "Enrolment and renewal, server TLS only";
    listen_metrics       Kind::Address, "127.0.0.1:9090", "/metrics, /healthz and /readyz";
    node_names           Kind::List,    "localhost,127.0.0.1", "Names and addresses by which nodes reach this server: the names in its certificate";
    node_url             Kind::Text,    "", "Node-facing URL told at enrolment [default: https://<first of node_names>:<port of listen_node>]";
    enrol_url            Kind::Text,    "", "Enrolment URL put into tokens [default: https://<first of node_names>:<port of listen_enrol>]";
    heartbeat_stale_s    Kind::Count,   "50", "A node silent for this long is stale";
    task_lease_s         Kind::Count,   "60", "How long a dispatched task belongs to its node without a heartbeat";
    wait_hold_s          Kind::Count,   "38", "How long a node's request for tasks is held, and up to a quarter longer; cut to 45 and to three quarters of heartbeat_stale_s";
    probe_every_s        Kind::Count,   "300", "How often every node is asked for a health probe";
    self_probe_every_s   Kind::Count,   "60", "How often a node reports its own probe";
    probe_keep_s         Kind::Count,   "604800", "For how long tasks that only looked are kept after their end";
    working_cert_life_s  Kind::Count,   "86400", "Life of a node's working certificate";
    device_cert_life_s   Kind::Count,   "31536000", "Life of a node's device credential: a year";
    identity_sweep_ms    Kind::Count,   "2000", "How often the identity table is read anew";
    identity_max_age_ms  Kind::Count,   "10000", "A table older than this lets nobody in";
    identity_grace_s     Kind::Count,   "60", "How long an overtaken certificate still counts, and a superseded session may still ask, before it is taken for a copy";
    read_deadline_s      Kind::Count,   "10", "How long a handshake, a header or a body may take to arrive";
    rate_reads_per_min   Kind::Count,   "600", "Requests a minute that only look, from one person, with however many tokens; a whole minute's may come at once";
    rate_writes_per_min  Kind::Count,   "120", "The same for those that may change something";
    rate_node_per_s      Kind::Count,   "1000", "Requests a second from one node's certificate; a burst of ten seconds' worth passes";
    rate_address_per_s   Kind::Count,   "1000", "The same from one address, of those without either; enrolment and renewal are among them";
    signing_key_life_s   Kind::Count,   "2592000", "A signing key is replaced by its standby after this long: 30 days";
    signing_key_overlap_s Kind::Count,  "1200", "For how long nodes still believe a signing key that was replaced";
    manifest_life_s      Kind::Count,   "7776000", "Life of the list of signing keys, which is signed anew after two thirds of it: 90 days";
    rotation_silence_s   Kind::Count,   "86400", "A node silent for this long is not waited for when a signing key is replaced";
    log_format           Kind::Choice(&["auto", "json", "text"]), "auto", "Log lines: text on a terminal, JSON elsewhere";
    log_filter           Kind::Text,    "info,sqlx=warn", "What to log, as in `info,fleet=debug`";
}
