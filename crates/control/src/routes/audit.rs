//! Reading the audit log, whole or of one's own project, and proving that it is whole.

use allocation::seat::Seat;
use axum::Json;
use axum::extract::State;
use base::audit::{AuditFilter, Head, ProjectAuditFilter, list, list_of_project, verify};
use base::auth::{Principal, Scope};
use base::http::{Access, Answer, Params, Route, Routes, Search};
use fleet::Fleet;
use model::api::{AuditRow, AuditVerdict, Page, ProjectAuditRow};
use model::id::ProjectId;
use model::signal::Code;
use schemars::JsonSchema;
use serde::Deserialize;

const READ: Access = Access::Scopes(&[Scope::Auditor, Scope::Operator]);
const OWN: Access = Access::Scopes(&[Scope::Project, Scope::Auditor, Scope::Operator]);

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
        Route::get("/v1/projects/{id}/audit", OWN, list_own)
            .summary("Who did what in a project, newest first; for its owners")
            .searches::<ProjectAuditFilter>()
            .answers::<Page<ProjectAuditRow>>()
            .fails(&[Code::Forbidden]),
    ])
}

async fn list_rows(State(fleet): State<Fleet>, Search(filter): Search<AuditFilter>) -> Answer<Json<Page<AuditRow>>> {
    list(&fleet.app.db, &filter, &fleet.app.cursors).await.map(Json)
}

#[derive(Deserialize)]
struct PathId {
    id: ProjectId,
}

async fn list_own(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    Search(filter): Search<ProjectAuditFilter>,
) -> Answer<Json<Page<ProjectAuditRow>>> {
    Seat::take(fleet.app.db.read(), &principal, id).await?.may_audit()?;
    let page = list_of_project(&fleet.app.db, id, &filter, &fleet.app.cursors).await?;
    Ok(Json(page))
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
