//! What is inside an image, as its reader sees it, told which format it is: never guessed, because a disk's first bytes
//! may say anything. Refuses one that would have the reader open other files, one that nobody could compare, and one with
//! nothing in it, which would leave a disk as it is.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

use model::task::vm_provision::ImageFormat;
use rustix::fs::{Advice, fadvise};
use serde::Deserialize;
use serde_json::Value;

use super::cage::Cage;
use super::pieces::{self, pieces};
use super::{CONVERT, DISK, refused};
use crate::error::Doing;
use crate::real::command::{Commands, Output, Program, With};
use crate::{Image, Result};

const LOOK: Duration = Duration::from_secs(60);
/// A piece is small; a converter that needs longer for one is left, and a slice does without its sum.
const LAY: Duration = Duration::from_secs(60);

/// `qemu-img info --output=json`, as far as it matters. Other keys describe; these decide.
#[derive(Deserialize)]
struct Info {
    format: String,
    #[serde(rename = "virtual-size")]
    virtual_size: u64,
    #[serde(default)]
    encrypted: bool,
    #[serde(rename = "backing-filename")]
    backing: Option<Value>,
    #[serde(rename = "full-backing-filename")]
    full_backing: Option<Value>,
    #[serde(rename = "format-specific")]
    specific: Option<Specific>,
}

#[derive(Deserialize)]
struct Specific {
    data: Option<Value>,
}

/// Gives the size of the disk inside.
pub(super) fn look(commands: &Commands, image: &Image, file: &File) -> Result<u64> {
    let format = image.format.as_str();
    let args = ["info", "--output=json", "-f", format, "/proc/self/fd/0"];
    let with = With {
        input: Some(file.try_clone().doing(|| "hand an image on".to_owned())?),
        output: Output::Kept,
        ..With::default()
    };
    let ended = Cage::new(file, None).run(|| commands.run_with(Program::QemuImg, &args, with, LOOK))?;
    if ended.code() != Some(0) {
        let why = format!("it does not read as {format}: {}", ended.stderr());
        return Err(refused(image, &why));
    }
    let said = ended.said()?;
    let info: Info = serde_json::from_str(&said).map_err(|_| refused(image, "what is inside cannot be told"))?;
    let specific = |key: &str| {
        let data = info.specific.as_ref().and_then(|specific| specific.data.as_ref());
        data.and_then(|data| data.get(key))
            .is_some_and(|value| !value.is_null())
    };
    let why = if info.format != format {
        "it is of another format"
    } else if info.backing.is_some() || info.full_backing.is_some() {
        "it is based on another file"
    } else if specific("data-file") || specific("data-file-raw") && image.format != ImageFormat::Raw {
        "its data is in another file"
    } else if info.encrypted || specific("encrypt") {
        "it is encrypted"
    } else if info.virtual_size == 0 {
        "there is no disk in it"
    } else {
        return Ok(info.virtual_size);
    };
    Err(refused(image, why))
}

// No option here is anything but a word of ours, a digest or a number.

fn window(offset: u64, length: u64) -> String {
    format!("driver=raw,offset={offset},size={length}")
}

fn seen_through(window: &str, image: &Image, path: &str) -> String {
    let format = image.format.as_str();
    format!("{window},file.driver={format},file.file.driver=file,file.file.filename={path}")
}

/// What the pieces of the disk inside sum up to; each is laid into a file of `scratch` for that. None if it was `over`
/// before the last.
pub(super) fn sums(
    commands: &Commands,
    image: &Image,
    (source, path): (&File, &str),
    size: u64,
    scratch: impl Fn() -> Result<File>,
    over: &dyn Fn() -> bool,
) -> Result<Option<Vec<u32>>> {
    let doing = || "lay out a piece of an image".to_owned();
    let sum = |(offset, length): (u64, u64)| {
        if over() {
            return Ok(None);
        }
        let piece = scratch()?;
        piece.set_len(length).doing(doing)?;
        let ours = seen_through(&window(offset, length), image, path);
        let args = ["convert", "-n", "--image-opts", &ours, "-O", "raw", DISK];
        let with = With {
            input: Some(piece.try_clone().doing(doing)?),
            ..With::default()
        };
        let cage = Cage::new(source, Some(&piece));
        cage.run(|| commands.run_with(Program::QemuImg, &args, with, LAY))?
            .ok()?;
        pieces::sum(&piece, (0, length)).map(Some).doing(doing)
    };
    pieces(size).into_iter().map(sum).collect()
}

/// The disk, read again from the device itself, holds what is inside the image: all of it if it is small, else pieces of
/// it, the first and the last among them. A disk that forgets what it was told does not choose what.
pub(super) fn compare(
    commands: &Commands,
    image: &Image,
    (source, path): (&File, &str),
    disk: &File,
    size: u64,
) -> Result<()> {
    let doing = || "read a disk back".to_owned();
    // What was written is still in memory; the disk shall say it.
    fadvise(disk, 0, None, Advice::DontNeed).doing(doing)?;
    let block = disk.metadata().doing(doing)?.file_type().is_block_device();
    let protocol = if block { "host_device" } else { "file" };
    // Past the memory altogether where that is sure to be possible; it is five times as fast, too.
    let direct = if block { "on" } else { "off" };
    for (offset, length) in pieces(size) {
        let window = window(offset, length);
        let ours = seen_through(&window, image, path);
        let theirs = format!("{window},cache.direct={direct},file.driver={protocol},file.filename={DISK}");
        let args = ["compare", "-q", "--image-opts", &ours, &theirs];
        let with = With {
            input: Some(disk.try_clone().doing(doing)?),
            ..With::default()
        };
        let ended = Cage::new(source, Some(disk)).run(|| commands.run_with(Program::QemuImg, &args, with, CONVERT))?;
        match ended.code() {
            Some(0) => {}
            Some(1) => return Err(refused(image, "the disk does not hold what was written to it")),
            Some(_) | None => return ended.ok(),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
