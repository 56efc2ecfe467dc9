//! The bytes of listed images, for nodes, a piece at a time: whoever was cut off asks for the next piece. Only plain
//! files of the operators' own directory are read, by the name that the signed catalogue gives them and of the size
//! that it says; whether they are the right bytes is for the node's executor to find out.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base::http::{Answer, ApiError};
use http::header::CONTENT_TYPE;
use model::catalogue::CatalogueImage;
use model::digest::Sha256;
use model::id::NodeId;
use model::signal::Code;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Fleet;

/// What one answer brings at most.
const PIECE: u64 = 2 << 20;

#[derive(Deserialize)]
pub(crate) struct ImagePath {
    #[serde(rename = "id")]
    _id: NodeId,
    sha256: Sha256,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PieceQuery {
    /// From this byte on.
    offset: u64,
}

pub(crate) async fn get_piece(
    State(fleet): State<Fleet>,
    path: ImagePath,
    PieceQuery { offset }: PieceQuery,
) -> Answer<Response> {
    let published = fleet.images();
    let image = published
        .catalogue()
        .and_then(|catalogue| catalogue.by_digest(&path.sha256));
    let image = image.ok_or(Code::ImageNotListed)?.clone();
    if offset >= image.size_bytes {
        return Err(ApiError::field("offset", "the image ends before it"));
    }
    let dir = fleet.app.config.images_dir.clone();
    let read = tokio::task::spawn_blocking(move || read(&dir, &image, offset)).await;
    match read.map_err(ApiError::internal)? {
        Ok(piece) => Ok(([(CONTENT_TYPE, "application/octet-stream")], piece).into_response()),
        Err(error) => {
            tracing::error!(sha256 = %path.sha256, %error, "a listed image cannot be served");
            Err(Code::ImageUnserved.into())
        }
    }
}

fn read(dir: &Path, image: &CatalogueImage, offset: u64) -> io::Result<Vec<u8>> {
    let file = open(dir, image)?;
    let length = PIECE.min(image.size_bytes - offset);
    let mut piece = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut piece, offset)?;
    Ok(piece)
}

fn open(dir: &Path, image: &CatalogueImage) -> io::Result<File> {
    let path = dir.join(image.name.as_str());
    if !std::fs::symlink_metadata(&path)?.is_file() {
        return Err(io::Error::other("not a plain file"));
    }
    let file = File::open(path)?;
    if file.metadata()?.len() != image.size_bytes {
        return Err(io::Error::other("not of the size that the catalogue says"));
    }
    Ok(file)
}

/// Could nodes have it from here?
pub(super) fn is_served(dir: &Path, image: &CatalogueImage) -> bool {
    open(dir, image).is_ok()
}
