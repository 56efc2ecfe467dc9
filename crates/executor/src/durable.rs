//! Small files that survive a power cut: written beside their place, synced, then moved into it, and the directory
//! synced too. Readers see the old bytes or the new ones, never half of either.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Makes a directory for secrets, of ours alone, and makes sure that its name survives. What writers left there that
/// were killed half-way goes.
pub(crate) fn ensure_private_dir(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        ensure_way(parent)?;
    }
    ensure_dir(path, 0o700)?;
    fs::set_permissions(path, PermissionsExt::from_mode(0o700))?;
    clear_abandoned(path)?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
        _ => Ok(()),
    }
}

/// What is missing above it, for everybody to pass through whatever our umask is: the hypervisor and
/// the DHCP server have directories beside it.
fn ensure_way(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.exists() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        ensure_way(parent)?;
    }
    if ensure_dir(path, 0o755)? {
        fs::set_permissions(path, PermissionsExt::from_mode(0o755))?;
    }
    Ok(())
}

/// True if it was not there.
fn ensure_dir(path: &Path, mode: u32) -> io::Result<bool> {
    match fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Replaces the file's content.
pub(crate) fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let beside = write_beside(path, bytes, mode)?;
    fs::rename(&beside, path)?;
    sync_parent(path)
}

/// Makes the file unless it is there. False: somebody else was first, and theirs stays.
pub(crate) fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<bool> {
    let beside = write_beside(path, bytes, mode)?;
    // A link, not a rename: it never replaces what another process made in the meantime.
    let linked = fs::hard_link(&beside, path);
    fs::remove_file(&beside)?;
    match linked {
        Ok(()) => sync_parent(path).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes the file if it is there, durably.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_parent(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The content, or none where there is no such file.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync_dir)
}

pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    File::open(path)?.sync_all()
}

/// Between the name of a file and the number of the process that writes it.
const BESIDE: &str = ".new-";

/// Files beside their place whose writer is dead. They may hold keys, and nobody else would ever remove them.
fn clear_abandoned(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let writer = name
            .to_str()
            .and_then(|name| name.rsplit_once(BESIDE)?.1.parse::<u32>().ok());
        let abandoned = |pid: u32| pid == std::process::id() || !Path::new("/proc").join(pid.to_string()).exists();
        if writer.is_some_and(abandoned) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn write_beside(path: &Path, bytes: &[u8], mode: u32) -> io::Result<PathBuf> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!("{BESIDE}{}", std::process::id()));
    let beside = path.with_file_name(name);
    remove(&beside)?; // left by a process of the same number that died here
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&beside)?;
    // Whatever the umask of whoever runs us: others have to read some of these files.
    file.set_permissions(PermissionsExt::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(beside)
}
