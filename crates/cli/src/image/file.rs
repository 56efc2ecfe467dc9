//! An image file as an operator describes it: read once, hashed, and compared with what is said of it. The format is
//! said and never guessed; a file that begins otherwise is refused.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use model::catalogue::CatalogueImage;
use model::digest::Hasher;
use model::task::vm_provision::{DriverStrategy, ImageFormat};
use model::time::Timestamp;
use model::value::{FileName, Name};

use crate::failure::Failure;

const CHUNK: usize = 1 << 20;
const QCOW2: &[u8; 4] = b"QFI\xfb";

#[derive(Args)]
pub(crate) struct Add {
    /// The image
    file: PathBuf,
    /// Its name from now on; the file's own unless told
    #[arg(long)]
    name: Option<FileName>,
    /// What is in it
    #[arg(long, value_enum)]
    format: Format,
    /// The account that gets the tenant's keys
    #[arg(long)]
    user: Name,
    /// Who brings the GPU's driver
    #[arg(long, value_enum, default_value = "none")]
    drivers: Drivers,
    /// Where nodes can fetch it instead of the control plane; their policy has to allow the host
    #[arg(long)]
    url: Option<String>,
    /// The operators' key
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Raw,
    Qcow2,
}

#[derive(Clone, Copy, ValueEnum)]
enum Drivers {
    CloudInit,
    Preinstalled,
    None,
}

impl Add {
    pub(super) fn key(&self) -> &Path {
        &self.key
    }

    /// What the catalogue will say of it.
    pub(super) fn read(&self, now: Timestamp) -> Result<CatalogueImage, Failure> {
        let wrong = |why: String| Failure::usage(format!("{}: {why}", self.file.display()));
        let named = || self.file.file_name()?.to_str()?.parse().ok();
        let name = self.name.clone().or_else(named);
        let name = name.ok_or_else(|| wrong("its name is no name of an image; give --name".to_owned()))?;
        let (mut hasher, mut size_bytes, mut head) = (Hasher::default(), 0u64, Vec::new());
        let mut file = File::open(&self.file).map_err(|error| wrong(error.to_string()))?;
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = file.read(&mut chunk).map_err(|error| wrong(error.to_string()))?;
            if read == 0 {
                break;
            }
            if head.len() < 32 {
                head.extend_from_slice(&chunk[..read.min(32)]);
            }
            hasher.add(&chunk[..read]);
            size_bytes += read as u64;
        }
        let is_qcow2 = head.starts_with(QCOW2);
        let (format, virtual_size_bytes) = match self.format {
            Format::Qcow2 => match head.get(24..32).and_then(|size| <[u8; 8]>::try_from(size).ok()) {
                Some(size) if is_qcow2 => (ImageFormat::Qcow2, u64::from_be_bytes(size)),
                Some(_) | None => return Err(wrong("it is no qcow2 image".to_owned())),
            },
            Format::Raw if is_qcow2 => return Err(wrong("it begins like a qcow2 image".to_owned())),
            Format::Raw => (ImageFormat::Raw, size_bytes),
        };
        Ok(CatalogueImage {
            name,
            sha256: hasher.done(),
            size_bytes,
            format,
            virtual_size_bytes,
            url: self.url.clone(),
            default_username: self.user.clone(),
            driver_strategy: match self.drivers {
                Drivers::CloudInit => DriverStrategy::CloudInit,
                Drivers::Preinstalled => DriverStrategy::Preinstalled,
                Drivers::None => DriverStrategy::None,
            },
            added_at: now,
        })
    }
}
