//! What the person at the server's own keyboard can do: make the keys, make the first administrator.

use base::App;
use base::auth::{NewToken, admin_token, bootstrap_admin};
use fleet::trust;

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
