//! What happens to tasks, images and signing keys. For whoever runs the platform.

use super::shapes;
use crate::digest::Sha256;
use crate::id::NodeId;
use crate::key::KeyId;
use crate::signal::Code;
use crate::state::TaskState;
use crate::trust::Purpose;
use crate::value::FileName;

shapes! {
    TaskOf {
        node_id: NodeId,
        r#type: String,
    }
    TaskStarted {
        node_id: NodeId,
    }
    TaskEnded {
        node_id: NodeId,
        r#type: String,
        state: TaskState,
        /// What went wrong, if something did.
        code: Option<Code>,
    }
    ImagePut {
        name: FileName,
        sha256: Sha256,
    }
    ImagePublished {
        version: u64,
        put: Vec<ImagePut>,
        removed: Vec<FileName>,
    }
    KeyMove {
        verb: String,
        purpose: Purpose,
        keyid: KeyId,
    }
    TrustPublished {
        manifest_version: u64,
        /// None with the first one.
        moves: Option<Vec<KeyMove>>,
    }
    TrustRevoked {
        keyid: KeyId,
        reason: String,
    }
    RotationWaits {
        purposes: Vec<Purpose>,
    }
}
