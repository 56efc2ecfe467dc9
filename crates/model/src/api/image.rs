//! Images as operators see them, and the signed document that lists them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::CatalogueImage;
use crate::dsse::Envelope;
use crate::id::InstallationId;
use crate::key::KeyId;

/// `GET /v1/images`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ImageView {
    #[serde(flatten)]
    pub image: CatalogueImage,
    /// Does the control plane's image directory have a file of this name and size? Nodes fetch it from there.
    pub served: bool,
    /// The catalogue that this was read from.
    pub catalogue_version: u64,
}

/// `GET /v1/images/catalogue`: what the next one is made from.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CatalogueView {
    pub installation: InstallationId,
    /// 0: there is none yet.
    pub version: u64,
    /// Whose signature counts. None: the delegation names no key.
    pub key: Option<KeyId>,
    pub document: Option<Envelope>,
}

/// `POST /v1/images/catalogue`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CataloguePublish {
    pub document: Envelope,
}
