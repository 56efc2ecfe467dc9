//! Images of guests. Only bytes whose digest was signed are ever stored, and only what is stored is written to a disk.
//! An image that names other files, or that is encrypted, is refused: the program that reads it would follow it.

use std::fs::File;

use model::digest::Sha256;
use model::task::vm_provision::ImageFormat;
use model::value::FileName;

use crate::{Error, OpenDisk, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// How a file of the host's own would be called.
    pub name: FileName,
    pub sha256: Sha256,
    pub size_bytes: u64,
    pub format: ImageFormat,
    /// May a file of the host's own image directories be taken?
    pub trusted: bool,
    /// Is it in the operators' catalogue? Then what is stored of it is good, and somebody can fetch it.
    pub listed: bool,
}

/// Where an image came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Store,
    Directory,
}

pub trait Images: Send + Sync {
    /// In the store, or copied into it from an image directory; `image_unavailable` if it is in neither. What is stored
    /// counts while it is listed, or while the file lies there from which it came.
    fn ensure_stored(&self, image: &Image) -> Result<Source>;

    /// Copies what somebody fetched. Refused unless it is exactly what was signed; then nothing stays.
    fn adopt(&self, image: &Image, bytes: File) -> Result<()>;

    /// The stored bytes are those that were signed, read again unless they are known not to have changed; and what is in
    /// them harms nobody. Gives the size of the disk inside.
    fn verify(&self, image: &Image) -> Result<u64>;

    /// Finds out ahead what is not known (for much longer) of what is stored: that it is as it was signed, and what is
    /// inside those that are listed. So nobody waits for that who wants a slice. What has rotted, or cannot be read, is
    /// taken out, and is fetched anew by the next who wants it. Ends early when `over`; gives what is wrong with what it has read.
    fn read_ahead(&self, listed: &[Image], over: &dyn Fn() -> bool) -> Result<Vec<Error>>;

    /// Takes out what is stored and was first seen unlisted long ago: nobody can have it any more, except from a file of the
    /// host's own, which is copied again. Nothing while `over`; gives what is gone.
    fn drop_unlisted(&self, listed: &[Image], over: &dyn Fn() -> bool) -> Result<Vec<Sha256>>;

    /// Writes the disk inside to this disk, syncs it, and reads it back.
    fn write(&self, image: &Image, disk: &dyn OpenDisk) -> Result<()>;
}
