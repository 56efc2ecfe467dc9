//! The table itself, by noun.

use super::Audience::{self, Fleet, Project};
use super::{EventType, billing, node, of, platform, provisioning, tenancy};

const TOLD: bool = true;
const LATER: bool = false;

pub const EVENTS: &[EventType] = &[
    allocation::<provisioning::AllocationRequested>("provisioning.requested", "It was asked for and has its slots."),
    allocation::<provisioning::AllocationMoved>("provisioning.started", "It is being made."),
    allocation::<provisioning::AllocationMoved>("provisioning.unwinding", "What was begun is being taken back."),
    allocation::<provisioning::AllocationMoved>("provisioning.active", "It can be used, and is charged."),
    allocation::<provisioning::AllocationMoved>("provisioning.releasing", "It is being taken away."),
    allocation::<provisioning::AllocationMoved>("provisioning.released", "It is gone, and its disks are wiped."),
    allocation::<provisioning::AllocationMoved>("provisioning.failed", "It could not be made."),
    allocation::<provisioning::AllocationMoved>("provisioning.cancelled", "It was taken back before it was made."),
    allocation::<provisioning::AllocationStuck>("provisioning.stuck", "Nobody can go on without an operator."),
    allocation::<provisioning::AllocationRetried>("provisioning.retried", "The stuck step is tried again."),
    allocation::<provisioning::AllocationUnstuck>("provisioning.unstuck", "What took too long has ended after all."),
    allocation::<provisioning::AllocationExtended>("provisioning.extended", "It ends at another time."),
    allocation::<provisioning::AllocationPower>("provisioning.power", "Its VM is switched on or off.")
        .hiding(&["task_id"]),
    allocation::<provisioning::AllocationRepair>("provisioning.repair", "Its account is made anew.")
        .hiding(&["task_id"]),
    of::<provisioning::ForceReleaseRequested>(
        "provisioning.force_release_requested",
        "allocation",
        Project,
        LATER,
        "It has to be given back, whatever its node says.",
    ),
    billed::<billing::LowBalanceWarning>("billing.low_balance_warning", "The balance lasts only so long."),
    billed::<billing::AutoReleasePending>(
        "billing.auto_release_pending",
        "What runs will be released for want of money.",
    ),
    billed::<billing::BalanceDepleted>(
        "billing.balance_depleted",
        "Nothing is left, and what ran is being released.",
    ),
    billed::<billing::BalanceCredited>("payments.balance_credited", "Money came in."),
    told::<tenancy::ProjectCreated>("project.created", "project", Project, "There is a new project."),
    told::<tenancy::ProjectDeleted>(
        "project.deleted",
        "project",
        Project,
        "It has ended, and nobody is in it any more.",
    ),
    told::<tenancy::MemberChanged>(
        "project.member",
        "project",
        Project,
        "Somebody has another role in it, or none any more.",
    ),
    told::<tenancy::QuotaChanged>(
        "quota.changed",
        "project",
        Project,
        "It may have more, or less, at once.",
    ),
    told::<tenancy::SkuCreated>("sku.created", "sku", Project, "Something new can be rented."),
    told::<tenancy::SkuChanged>(
        "sku.changed",
        "sku",
        Project,
        "It can be rented no more, or again, or with other images.",
    ),
    told::<tenancy::SkuPriced>("sku.priced", "sku", Project, "It costs something else from now on."),
    told::<node::NodeCreated>("node.created", "node", Fleet, "A host may enrol under this name."),
    told::<node::NodeEnrolled>("node.enrolled", "node", Fleet, "A host was let in."),
    told::<node::NodeSession>("node.session", "node", Fleet, "Its agent has started."),
    told::<node::NodeMoved>("node.state", "node", Fleet, "It moved to another state."),
    told::<node::NodeModeChanged>("node.mode", "node", Fleet, "It is for slices, or for whole machines."),
    told::<node::Nothing>("node.return", "node", Fleet, "Somebody wants it back from its drain."),
    told::<node::NodeDiffers>("node.differs", "node", Fleet, "It is not as it was approved."),
    told::<node::NodeCloned>("node.cloned", "node", Fleet, "There are two of it."),
    told::<node::NodeHeldDiffers>(
        "node.held_differs",
        "node",
        Fleet,
        "It holds what it should not, or lacks what it should.",
    ),
    told::<node::NodeTopology>("node.topology", "node", Fleet, "Its devices were looked at."),
    told::<node::CertificateIssued>("certificate.issued", "node", Fleet, "It has a new certificate."),
    told::<node::CertificateRevoked>(
        "certificate.revoked",
        "node",
        Fleet,
        "A certificate of it opens nothing any more.",
    ),
    told::<node::SlotMoved>("slot.state", "slot", Fleet, "It moved to another state."),
    told::<node::SlotFault>(
        "slot.fault",
        "slot",
        Fleet,
        "A discovery found something wrong with it.",
    ),
    told::<node::SlotDiskGone>(
        "slot.disk_gone",
        "slot",
        Fleet,
        "Its disk was taken out and will not come back.",
    ),
    told::<platform::TaskOf>("task.queued", "task", Fleet, "It is signed and waits for its node."),
    told::<platform::TaskStarted>("task.started", "task", Fleet, "Its node has begun."),
    told::<platform::TaskEnded>("task.ended", "task", Fleet, "It has ended, one way or another."),
    told::<platform::TaskOf>(
        "task.unknown",
        "task",
        Fleet,
        "Its node has not been heard of for too long.",
    ),
    told::<node::Nothing>("task.cancel_requested", "task", Fleet, "Somebody wants it stopped."),
    told::<platform::ImagePublished>(
        "image.published",
        "installation",
        Fleet,
        "There is a new catalogue of images.",
    ),
    told::<platform::TrustPublished>(
        "trust.published",
        "installation",
        Fleet,
        "There is a new manifest of signing keys.",
    ),
    told::<platform::TrustRevoked>(
        "trust.revoked",
        "installation",
        Fleet,
        "A signing key counts no longer.",
    ),
    told::<platform::RotationWaits>(
        "trust.rotation_waits",
        "installation",
        Fleet,
        "A rotation waits for nodes.",
    ),
];

const fn told<T: schemars::JsonSchema + serde::de::DeserializeOwned>(
    name: &'static str,
    subject: &'static str,
    audience: Audience,
    summary: &'static str,
) -> EventType {
    of::<T>(name, subject, audience, TOLD, summary)
}

const fn allocation<T: schemars::JsonSchema + serde::de::DeserializeOwned>(
    name: &'static str,
    summary: &'static str,
) -> EventType {
    of::<T>(name, "allocation", Project, TOLD, summary)
}

/// Money is not counted yet.
const fn billed<T: schemars::JsonSchema + serde::de::DeserializeOwned>(
    name: &'static str,
    summary: &'static str,
) -> EventType {
    of::<T>(name, "project", Project, LATER, summary)
}
