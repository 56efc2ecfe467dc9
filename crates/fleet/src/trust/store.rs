//! Rows of signed trust documents.

use base::Change;
use model::dsse::Envelope;
use model::trust::Bundle;
use sqlx::PgPool;
use time::OffsetDateTime;

/// The newest bundle, if the installation has one.
pub async fn bundle_latest(pool: &PgPool) -> anyhow::Result<Option<Bundle>> {
    let row: Option<(Vec<u8>, Vec<u8>)> =
        sqlx::query_as("select delegation, manifest from trust_bundle order by manifest_version desc limit 1")
            .fetch_optional(pool)
            .await?;
    let Some((delegation, manifest)) = row else {
        return Ok(None);
    };
    let parse = |bytes: &[u8]| Envelope::parse(bytes).map_err(|code| anyhow::anyhow!("stored trust document: {code}"));
    Ok(Some(Bundle {
        delegation: parse(&delegation)?,
        manifest: parse(&manifest)?,
    }))
}

pub async fn bundle_put(change: &mut Change, version: u64, bundle: &Bundle) -> sqlx::Result<()> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query(
        "insert into trust_bundle (manifest_version, delegation, manifest, created_at) values ($1, $2, $3, $4)",
    )
    .bind(version as i64)
    .bind(bundle.delegation.to_bytes())
    .bind(bundle.manifest.to_bytes())
    .bind(at)
    .execute(change.conn())
    .await?;
    Ok(())
}
