//! The bodies of the public API `/v1`, shared by the control plane that writes them and the CLI that reads them.

mod access;
mod allocation;
mod audit;
mod event;
mod held;
mod image;
mod node;
mod project;
mod sku;
mod slot;
mod task;
mod trust;

pub use access::{
    ProjectTokenCreate, Scope, SignInView, TokenCreate, TokenCreated, TokenView, UserRole, UserView, Via, WhoAmI,
};
pub use allocation::{
    AllocationCreate, AllocationExtend, AllocationPhases, AllocationRelease, AllocationView, AskedView, ConditionCode,
    ConditionView, SwitchStep, SwitchView, TransitionView, WipedView,
};
pub use audit::{AuditBreak, AuditRow, AuditVerdict, ProjectAuditRow};
pub use event::{EventSubject, EventView};
pub use held::{GuestTelemetry, HeldDifference, NodeHeld, SlotHeld};
pub use image::{CataloguePublish, CatalogueView, ImageView};
pub use node::{
    CertificateView, Enrolment, NodeCondition, NodeCreate, NodeEnrol, NodeModeChange, NodeReason, NodeView,
};
pub use project::{
    KeyCreate, KeyView, MemberAdd, MemberView, ProjectCreate, ProjectView, QuotaChange, QuotaLimit, QuotaView,
};
pub use sku::{FreeCount, SkuChange, SkuCreate, SkuKind, SkuPrice, SkuView};
pub use slot::{SlotDifference, SlotFault, SlotProofView, SlotQuarantine, SlotView, TopologyView};
pub use task::{PhaseState, PhaseView, TaskTypeView, TaskView};
pub use trust::{
    BehindView, DelegationView, ManifestView, RotationView, TrustDelegate, TrustKeyView, TrustRevoke, TrustRotate,
    TrustView, TrustWarning,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// One page of a list, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Give it back as `?after=` for the next page.
    pub next: Option<String>,
}

/// Why something is not finished, since when, and what a person can do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    pub reason: String,
    pub since: Timestamp,
    /// A command that helps, ready to be pasted.
    pub verb: String,
}

/// `GET /v1/version`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct VersionView {
    pub version: String,
    pub installation: crate::id::InstallationId,
    pub dev: bool,
}
