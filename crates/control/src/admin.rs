//! What the person at the server's own keyboard can do: make the keys, make the first administrator.

use std::path::{Path, PathBuf};

use base::auth::{NewToken, Role, admin_token, bootstrap_admin};
use base::config::Flags;
use base::{Actor, App};
use clap::Subcommand;
use fleet::{Fleet, apart, certificate, trust};
use tokio_util::sync::CancellationToken;

use crate::process::one_shot;

/// `gpuaasd admin …`.
#[derive(Subcommand)]
pub enum Asked {
    /// Make the first administrator and print their token, once
    Bootstrap {
        /// The name under which the audit log will know them
        name: String,
        #[command(flatten)]
        flags: Flags,
    },
    /// Write the papers of a process that runs apart from the api: they hold for a day, and it renews them itself
    Role {
        role: Role,
        /// What this process is called, where there are several
        #[arg(long, default_value = "one")]
        instance: String,
        /// A new file, for the host that it will run on
        #[arg(long)]
        out: PathBuf,
        #[command(flatten)]
        flags: Flags,
    },
    /// End every certificate of a role, at once
    EndRole {
        role: Role,
        #[command(flatten)]
        flags: Flags,
    },
    /// Make a new token for an administrator, or a new administrator: the way back in, on the server only
    Token {
        name: String,
        #[command(flatten)]
        flags: Flags,
    },
}

impl Asked {
    pub async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Bootstrap { name, flags } => one_shot(flags, async |app| bootstrap(app, &name).await).await,
            Self::Token { name, flags } => one_shot(flags, async |app| token(app, &name).await).await,
            Self::Role {
                role,
                instance,
                out,
                flags,
            } => one_shot(flags, async |app| let_in(app, role, &instance, &out).await).await,
            Self::EndRole { role, flags } => one_shot(flags, async |app| end_role(app, role).await).await,
        }
    }
}

/// `gpuaasd trust init`.
pub async fn trust_init(app: &App) -> anyhow::Result<String> {
    let dir = app.config.keys_dir.clone();
    let report = trust::init(app, &dir, app.config.dev).await?;
    let keys = dir.display();
    Ok(if report.made {
        format!(
            "installation   {}\nroot_sha256    {}\nkeys           {keys}\n\nMove {keys}/root.key off this machine now: it signs who may sign, and nothing here needs it day by day.\nMove {keys}/catalogue.key to those who add images: `gpuaas image add --key FILE` signs with it, and no server needs it.\n",
            app.installation, report.root_sha256
        )
    } else {
        format!(
            "installation   {}\nroot_sha256    {}\nnothing to do: the keys in {keys} are in use\n",
            app.installation, report.root_sha256
        )
    })
}

/// `gpuaasd admin bootstrap NAME`. The secret goes to standard output once.
pub async fn bootstrap(app: &App, name: &str) -> anyhow::Result<String> {
    let token = bootstrap_admin(&app.db, name).await?;
    Ok(shown(app, name, &token))
}

/// `gpuaasd admin token NAME`: whoever can run programs on the server is not locked out. Audited.
pub async fn token(app: &App, name: &str) -> anyhow::Result<String> {
    let token = admin_token(&app.db, name).await?;
    Ok(shown(app, name, &token))
}

/// `gpuaasd admin role ROLE`: where the keys are, for a process that will run elsewhere without them. Audited.
async fn let_in(app: &App, role: Role, instance: &str, out: &Path) -> anyhow::Result<String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let short = (1..=40).contains(&instance.len());
    anyhow::ensure!(
        short && instance.chars().all(plain),
        "an instance is named by up to 40 of a-z, 0-9 and -"
    );
    anyhow::ensure!(
        !matches!(role, Role::Node | Role::Api),
        "{role} does not run apart: a node is enrolled, and the api is where the keys are"
    );
    // Before anything is issued; whoever is faster is still not overwritten.
    anyhow::ensure!(!out.exists(), "{} is there already", out.display());
    let fleet = Fleet::open(app.clone(), CancellationToken::new()).await?;
    let papers = apart::grant(&fleet, role, instance).await?;
    papers.write_new(out)?;
    Ok(format!(
        "{file} lets {role} \"{instance}\" in until {until}.\nMove it to its host, and set there: role_identity = \"/path/of/it\"\nIt renews itself from its first start on, with a key that never leaves its host.\n",
        file = out.display(),
        until = papers.not_after,
    ))
}

/// `gpuaasd admin end-role ROLE`. Audited.
async fn end_role(app: &App, role: Role) -> anyhow::Result<String> {
    let actor = Actor::system("console");
    let mut change = app.db.change(&actor, "certificate.end_role", app.installation).await?;
    let ended = certificate::end_role(&mut change, role)
        .await
        .map_err(|error| anyhow::anyhow!("{}: {}", error.code, error.message))?;
    change.commit().await?;
    Ok(format!(
        "{ended} certificates of {role} were ended; live connections end within seconds\n"
    ))
}

fn shown(app: &App, name: &str, token: &NewToken) -> String {
    format!(
        "{}\n\nThis token of {name} is shown once and ends at {}. Use it:\n  printf %s TOKEN | gpuaas auth login --url {} --with-token\n",
        token.secret.reveal(),
        token.expires_at,
        public_url(app)
    )
}

/// As far as the server itself knows it; behind an edge people use another name.
fn public_url(app: &App) -> String {
    let scheme = if app.config.public_cert_file.is_some() {
        "https"
    } else {
        "http"
    };
    format!("{scheme}://{}", app.config.listen_public)
}
