//! What can be wrong with an image.

use model::signal::Code;
use rustix::io::Errno;

use crate::{Error, Image};

/// What the kernel says of a file that its disk, or its file system, has lost.
const LOST: [Errno; 5] = [Errno::IO, Errno::NODATA, Errno::BADMSG, Errno::UCLEAN, Errno::REMOTEIO];

pub(super) fn is_lost(error: &std::io::Error) -> bool {
    LOST.iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

pub(super) fn missing(image: &Image) -> Error {
    slice_error(
        Code::ImageUnavailable,
        image,
        "it is neither stored here nor in an image directory",
    )
}

pub(super) fn mismatch(image: &Image, why: String) -> Error {
    slice_error(Code::ImageDigestMismatch, image, &why)
}

pub(super) fn rotten(name: &str, why: &str) -> Error {
    Error::Slice {
        code: Code::ImageDigestMismatch,
        subject: name.to_owned(),
        why: why.to_owned(),
    }
}

pub(super) fn irregular(image: &Image, why: &str) -> Error {
    slice_error(Code::ImageNotRegular, image, why)
}

pub(super) fn refused(image: &Image, why: &str) -> Error {
    slice_error(Code::ImageRefused, image, why)
}

fn slice_error(code: Code, image: &Image, why: &str) -> Error {
    Error::Slice {
        code,
        subject: image.name.to_string(),
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that its disk has lost is no good to anybody; a reading that was called off says nothing of the file.
    #[test]
    fn only_what_the_disk_has_lost_is_lost() {
        for errno in LOST {
            assert!(is_lost(&errno.into()), "{errno}");
        }
        for errno in [Errno::INTR, Errno::NFILE, Errno::NOMEM, Errno::ACCESS, Errno::PERM] {
            assert!(!is_lost(&errno.into()), "{errno}");
        }
        assert!(!is_lost(&std::io::ErrorKind::Interrupted.into()));
    }
}
