//! The pretend side of [`Images`]: an image is its digest, and a disk that it was written to has that word on it.

use std::fs::File;
use std::io::{Read, Seek};

use model::digest::{Hasher, Sha256};
use model::signal::Code;

use super::{Fault, Pretend};
use crate::error::Doing;
use crate::{Error, Image, Images, OpenDisk, Result, Source};

impl Images for Pretend {
    fn ensure_stored(&self, image: &Image) -> Result<Source> {
        self.act_on("ensure_stored", image.name.as_str(), |state| {
            let slicing = &mut state.slicing;
            if slicing.store.contains(&image.sha256) {
                return Ok(Source::Store);
            }
            if image.listed && !image.trusted {
                return Err(failed(Code::ImageUnavailable, image, "it is not stored"));
            }
            match slicing.files.get(&image.name) {
                Some(found) if *found != image.sha256 => {
                    return Err(failed(Code::ImageDigestMismatch, image, "the file has another digest"));
                }
                Some(_) if !image.trusted => {
                    return Err(failed(
                        Code::ImageSourceRefused,
                        image,
                        "the task does not trust the host's files",
                    ));
                }
                None if slicing.missing_images.contains(&image.sha256) => {
                    return Err(failed(Code::ImageUnavailable, image, "it is nowhere on this host"));
                }
                Some(_) | None => {}
            }
            slicing.store.insert(image.sha256);
            Ok(Source::Directory)
        })
    }

    /// The bytes are real: they are looked at as on a real host, and then forgotten.
    fn adopt(&self, image: &Image, mut bytes: File) -> Result<()> {
        let doing = || format!("read image {}", image.sha256);
        bytes.rewind().doing(doing)?;
        let (mut hasher, mut chunk, mut size) = (Hasher::default(), vec![0; 1 << 20], 0);
        while size <= image.size_bytes {
            match bytes.read(&mut chunk).doing(doing)? {
                0 => break,
                read => {
                    hasher.add(&chunk[..read]);
                    size += read as u64;
                }
            }
        }
        let found = hasher.done();
        self.act_on("adopt", image.name.as_str(), |state| {
            if size != image.size_bytes || found != image.sha256 {
                return Err(failed(
                    Code::ImageDigestMismatch,
                    image,
                    "other bytes than those that were signed",
                ));
            }
            state.slicing.store.insert(image.sha256);
            Ok(())
        })
    }

    fn verify(&self, image: &Image) -> Result<u64> {
        self.call("verify", |_, state| {
            if !state.slicing.store.contains(&image.sha256) {
                return Err(failed(Code::ImageUnavailable, image, "it is not stored"));
            }
            if state.slicing.hostile_images.contains(&image.sha256) {
                return Err(failed(Code::ImageRefused, image, "it is based on another file"));
            }
            Ok(image.size_bytes)
        })
    }

    /// A word cannot rot.
    fn read_ahead(&self, _listed: &[Image], _over: &dyn Fn() -> bool) -> Result<Vec<Error>> {
        Ok(Vec::new())
    }

    /// Nor does it take any room.
    fn drop_unlisted(&self, _listed: &[Image], _over: &dyn Fn() -> bool) -> Result<Vec<Sha256>> {
        Ok(Vec::new())
    }

    fn write(&self, image: &Image, disk: &dyn OpenDisk) -> Result<()> {
        let by_id = disk.identity().by_id.clone();
        self.act_on("write", by_id.as_str(), |state| {
            if !state.slicing.store.contains(&image.sha256) {
                return Err(failed(Code::ImageUnavailable, image, "it is not stored"));
            }
            if let Some(disk) = state.hardware.disks.get_mut(&by_id) {
                disk.written.insert(format!("image/{}", image.sha256));
            }
            if state.hardware.faults.contains(&Fault::ImageStops(by_id.clone())) {
                return Err(failed(Code::ImageRefused, image, "an I/O error in the middle"));
            }
            Ok(())
        })
    }
}

fn failed(code: Code, image: &Image, why: &str) -> Error {
    Error::Slice {
        code,
        subject: image.name.to_string(),
        why: why.to_owned(),
    }
}
