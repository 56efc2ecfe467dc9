//! Reading the audit log, and proving that it is whole.

use axum::Json;
use axum::extract::State;
use base::audit::{AuditFilter, Head, list, verify};
use base::auth::Scope;
use base::http::{Access, Answer, Route, Routes, Search};
use fleet::Fleet;
use model::api::{AuditRow, AuditVerdict, Page};
use schemars::JsonSchema;
use serde::Deserialize;

const READ: Access = Access::Scopes(&[Scope::Auditor, Scope::Operator]);

pub(super) fn routes() -> Routes<Fleet> {
    Routes::new([
        Route::get("/v1/audit", READ, list_rows)
            .summary("Who did or tried what, newest first")
            .searches::<AuditFilter>()
            .answers::<Page<AuditRow>>(),
        Route::get("/v1/audit/verify", READ, verify_chain)
            .summary("Check the sealed chain; name the first row that does not fit")
            .searches::<VerifyQuery>()
            .answers::<AuditVerdict>(),
    ])
}

async fn list_rows(State(fleet): State<Fleet>, Search(filter): Search<AuditFilter>) -> Answer<Json<Page<AuditRow>>> {
    list(&fleet.app.db, &filter, &fleet.app.cursors).await.map(Json)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct VerifyQuery {
    /// The head of an earlier verification, kept elsewhere.
    head: Option<String>,
}

async fn verify_chain(State(fleet): State<Fleet>, Search(query): Search<VerifyQuery>) -> Answer<Json<AuditVerdict>> {
    let head: Option<Head> = query.head.as_deref().map(str::parse).transpose()?;
    Ok(Json(verify(&fleet.app.db, head.as_ref()).await?))
}
