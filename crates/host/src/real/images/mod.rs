//! Images on disk: a store of root's alone, in which a file's name is its digest. Bytes come in only by being copied
//! and hashed at once, into a file that has no name until they fit; whatever is done with an image is done with an open
//! file of the store, never with a path that somebody could swap. Programs read it in a cage of two files.

mod cage;
mod errors;
mod inside;
mod known;
mod pieces;
mod unlisted;

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::digest::{Hasher, Sha256};
use model::signal::Code;

use self::errors::{irregular, is_lost, mismatch, missing, refused, rotten};
use self::known::{Known, Stamp};
use self::pieces::Inside;
use super::command::{Commands, Program, With};
use super::whole::Folder;
use crate::error::Doing;
use crate::{Error, Image, OpenDisk, Result, Source};

const STORE: &str = "var/lib/gpuaas/executor/images";
/// Where a program finds the disk that it was given.
const DISK: &str = "/proc/self/fd/0";
const CHUNK: usize = 1 << 20;
/// The task's own limit is 10 800 s; a converter that needs longer is stuck.
pub const CONVERT: Duration = Duration::from_secs(6600);

pub struct Images {
    store: PathBuf,
    dirs: Vec<PathBuf>,
    commands: Commands,
    known: Known,
}

impl Images {
    /// Local files are looked for in `dirs`, in this order.
    pub fn under(root: &Path, dirs: Vec<PathBuf>) -> Self {
        let (store, commands) = (root.join(STORE), Commands::under("/".into()));
        let known = Known::default();
        Self {
            store,
            dirs,
            commands,
            known,
        }
    }

    /// Would it be written without being hashed again?
    pub fn is_known(&self, image: &Image) -> Result<bool> {
        let file = self.there(image)?;
        self.known
            .holds(&image.sha256, &file)
            .doing(|| format!("look at image {}", image.sha256))
    }

    /// Opened, with every byte as it was signed, and how it looked before that was found out. From here on it is this
    /// file.
    fn sound(&self, image: &Image) -> Result<(File, Stamp)> {
        let doing = || format!("read image {}", image.sha256);
        let (mut file, fresh) = (self.there(image)?, self.store()?.nameless(0o600)?);
        let before = Stamp::of(&file).doing(doing)?;
        let found = self.known.check(&image.sha256, &mut file, &fresh).doing(doing)?;
        if found != image.sha256 {
            return Err(mismatch(image, format!("the stored file has digest {found}")));
        }
        Ok((file, before))
    }

    fn read_one(&self, name: &str, over: &dyn Fn() -> bool) -> Result<()> {
        let doing = || format!("read image {name} ahead");
        let store = self.store()?;
        // Somebody else's file is left to who put it there.
        let Ok(sha256) = name.parse::<Sha256>() else {
            return Ok(());
        };
        let Some(mut file) = store.file(name)? else {
            return Ok(());
        };
        if self.known.was_read(&sha256, &file).doing(doing)? {
            return Ok(());
        }
        let (before, fresh) = (Stamp::of(&file).doing(doing)?, store.nameless(0o600)?);
        let read = self.known.read(&sha256, &mut file, &fresh, over);
        let why = match read {
            Ok(found) if found == sha256 => return Ok(()),
            Ok(found) => format!("the stored file had digest {found}, and is taken out"),
            // There was something to do; it is read when there is nothing again.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(()),
            Err(error) if is_lost(&error) => format!("the stored file cannot be read ({error}), and is taken out"),
            Err(error) => return Err(error).doing(doing),
        };
        // Unless somebody has just changed it: then it is another one, and read at the next look.
        if Stamp::of(&file).doing(doing)? != before {
            return Ok(());
        }
        store.remove(name)?;
        Err(rotten(name, &why))
    }

    /// What its pieces sum up to on any disk, before one has it. Nothing if it is `over` before.
    fn learn_one(&self, image: &Image, over: &dyn Fn() -> bool) -> Result<()> {
        let doing = || format!("look into image {}", image.sha256);
        let Some(source) = self.stored(image)? else {
            return Ok(());
        };
        let known = self.known.holds(&image.sha256, &source).doing(doing)?;
        if !known || self.known.inside(&image.sha256, &source).doing(doing)?.is_some() {
            return Ok(());
        }
        let size = inside::look(&self.commands, image, &source)?;
        let from = self.path_of(image);
        let store = self.store()?;
        let scratch = || store.nameless(0o600);
        match inside::sums(&self.commands, image, (&source, &from), size, scratch, over)? {
            Some(sums) => {
                let learned = Inside { size, sums };
                self.known.learn(&image.sha256, &source, learned).doing(doing)
            }
            None => Ok(()),
        }
    }

    fn path_of(&self, image: &Image) -> String {
        self.store.join(image.sha256.to_string()).display().to_string()
    }

    fn store(&self) -> Result<Folder> {
        Folder::ensure(&self.store)
    }

    fn stored(&self, image: &Image) -> Result<Option<File>> {
        self.store()?.file(&image.sha256.to_string())
    }

    fn there(&self, image: &Image) -> Result<File> {
        self.stored(image)?.ok_or_else(|| missing(image))
    }

    /// Into a nameless file while hashing; named only if size and digest fit. Nothing else is left.
    fn copy_in(&self, image: &Image, mut from: impl Read) -> Result<()> {
        let store = self.store()?;
        let mut into = store.nameless(0o600)?;
        let doing = || format!("store image {}", image.sha256);
        let (mut hasher, mut copied, mut chunk) = (Hasher::default(), 0u64, vec![0; CHUNK]);
        loop {
            let read = from.read(&mut chunk).doing(doing)?;
            if read == 0 {
                break;
            }
            copied += read as u64;
            if copied > image.size_bytes {
                return Err(mismatch(image, format!("it is longer than {} bytes", image.size_bytes)));
            }
            hasher.add(&chunk[..read]);
            into.write_all(&chunk[..read]).doing(doing)?;
        }
        let found = hasher.done();
        if copied != image.size_bytes || found != image.sha256 {
            return Err(mismatch(image, format!("{copied} bytes with digest {found}")));
        }
        // Taken already: somebody else stored the same bytes meanwhile.
        store.name(&into, &image.sha256.to_string()).map(drop)
    }

    /// A regular file of root's, under one name only, that nobody else can write.
    fn local(&self, image: &Image) -> Result<Option<File>> {
        for dir in &self.dirs {
            let Some(folder) = Folder::open(dir)? else { continue };
            let found = folder.file(image.name.as_str());
            let file = match found {
                Ok(Some(file)) => file,
                Ok(None) => continue,
                Err(error) => return Err(irregular(image, &error.to_string())),
            };
            let seen = file.metadata().doing(|| format!("look at {}", image.name))?;
            let why = if !seen.is_file() {
                "it is not a regular file"
            } else if seen.nlink() != 1 {
                "it has another name elsewhere"
            } else if seen.uid() != rustix::process::geteuid().as_raw() {
                "it is not root's"
            } else if seen.mode() & 0o022 != 0 {
                "others can write it"
            } else {
                return Ok(Some(file));
            };
            return Err(irregular(image, why));
        }
        Ok(None)
    }
}

impl crate::Images for Images {
    fn ensure_stored(&self, image: &Image) -> Result<Source> {
        let stored = self.stored(image)?.is_some();
        if image.listed && stored {
            return Ok(Source::Store);
        }
        if image.listed && !image.trusted {
            return Err(missing(image));
        }
        match self.local(image)? {
            Some(_) if image.trusted && stored => Ok(Source::Store),
            Some(_) if !image.trusted => Err(Error::Slice {
                code: Code::ImageSourceRefused,
                subject: image.name.to_string(),
                why: "a file of the host's own is taken only if the task says that it is trusted".to_owned(),
            }),
            Some(file) => self.copy_in(image, file).map(|()| Source::Directory),
            None => Err(missing(image)),
        }
    }

    fn adopt(&self, image: &Image, bytes: File) -> Result<()> {
        if self.stored(image)?.is_some() {
            return Ok(());
        }
        // A pipe or a device could keep us for ever.
        let seen = bytes.metadata().doing(|| format!("look at {}", image.name))?;
        if !seen.is_file() {
            return Err(irregular(image, "what was fetched is not a regular file"));
        }
        self.copy_in(image, FromStart(bytes, 0))
    }

    fn verify(&self, image: &Image) -> Result<u64> {
        inside::look(&self.commands, image, &self.sound(image)?.0)
    }

    fn read_ahead(&self, listed: &[Image], over: &dyn Fn() -> bool) -> Result<Vec<Error>> {
        let names = self.store()?.names()?;
        // One that cannot be read keeps nobody from the others.
        let mut bad = Vec::new();
        for name in &names {
            if over() {
                return Ok(bad);
            }
            bad.extend(self.read_one(name, over).err());
        }
        for image in listed {
            if over() {
                return Ok(bad);
            }
            bad.extend(self.learn_one(image, over).err());
        }
        Ok(bad)
    }

    fn drop_unlisted(&self, listed: &[Image], over: &dyn Fn() -> bool) -> Result<Vec<Sha256>> {
        unlisted::drop_old(&self.store()?, listed, over)
    }

    fn write(&self, image: &Image, disk: &dyn OpenDisk) -> Result<()> {
        let held = disk.fd().ok_or_else(|| refused(image, "the disk is a pretended one"))?;
        let doing = || format!("write image {} to a disk", image.sha256);
        let disk = File::from(held.try_clone_to_owned().doing(doing)?);
        // Once more: it may be another file than the one that was verified.
        let (source, before) = self.sound(image)?;
        let known = self.known.inside(&image.sha256, &source).doing(doing)?;
        let size = match &known {
            Some(inside) => inside.size,
            None => inside::look(&self.commands, image, &source)?,
        };
        let format = image.format.as_str();
        // The disk is its standard input, which it can only reach by that number; never its output, where a program may
        // say something. The image has the name of its digest, and the cage opens that very file and no other.
        let from = self.path_of(image);
        let args = ["convert", "-n", "-f", format, "-O", "raw", &from, DISK];
        let with = With {
            input: Some(disk.try_clone().doing(doing)?),
            ..With::default()
        };
        let cage = cage::Cage::new(&source, Some(&disk));
        cage.run(|| self.commands.run_with(Program::QemuImg, &args, with, CONVERT))?
            .ok()?;
        disk.sync_all().doing(doing)?;
        let sums = pieces::sums(&disk, size);
        let seen = sums.map(|sums| Inside { size, sums });
        if seen.is_none() || seen != known {
            inside::compare(&self.commands, image, (&source, &from), &disk, size)?;
        }
        if Stamp::of(&source).doing(doing)? != before {
            return Err(mismatch(
                image,
                "the stored file changed while it was written".to_owned(),
            ));
        }
        match seen {
            Some(seen) => self.known.learn(&image.sha256, &source, seen).doing(doing),
            None => Ok(()),
        }
    }
}

/// The whole file, wherever somebody else has left off reading it.
struct FromStart(File, u64);

impl Read for FromStart {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read_at(into, self.1)?;
        self.1 += read as u64;
        Ok(read)
    }
}
