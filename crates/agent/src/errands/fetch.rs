//! One image, piece by piece, from where an earlier try left off. Never more bytes than were signed, never more than
//! fit on the disk, and never for longer than pieces keep coming.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use model::signal::Code;
use model::socket::{FromAgent, WantedImage};
use tokio::time::Instant;

use super::Failed;
use super::source::{Missed, Source};
use super::staging::Staging;
use crate::node::Node;

const TELL_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn fetch(node: &Node, staging: &Staging, wanted: &WantedImage) -> Result<File, Failed> {
    let disk = |error: std::io::Error| Failed::new(Code::DiskFull, format!("stage the image: {error}"));
    let (file, mut have) = staging.open(&wanted.sha256).map_err(disk)?;
    if have > wanted.size_bytes {
        file.set_len(0).map_err(disk)?;
        have = 0;
    }
    if !staging.has_room(wanted.size_bytes - have).map_err(disk)? {
        return Err(Failed::new(Code::DiskFull, "there is no room for the image"));
    }
    let file = Arc::new(file);
    let (mut source, mut backoff) = (None, node.pace.backoff());
    let mut moved = Instant::now();
    let mut told = Told::default();
    while have < wanted.size_bytes {
        let piece = match &source {
            None => Source::of(node, wanted).await.map(|found| {
                source = Some(found);
                Vec::new()
            }),
            Some(source) => source.piece(&wanted.sha256, have, wanted.size_bytes - have).await,
        };
        let word = match piece {
            Ok(piece) if piece.is_empty() => continue,
            Ok(piece) => {
                have = write(&file, piece, have).await.map_err(disk)?;
                moved = Instant::now();
                told.tell(node, wanted, have);
                backoff.reset();
                continue;
            }
            Err(Missed::Never(failed)) => return Err(failed),
            Err(Missed::Again(word)) => word,
        };
        if moved.elapsed() >= node.pace.fetch_patience {
            let why = format!("{have} of {} bytes came, then nothing more: {word}", wanted.size_bytes);
            return Err(Failed::new(Code::ImageUnavailable, why));
        }
        tracing::warn!(sha256 = %wanted.sha256, have, reason = word, "a piece of an image did not come");
        tokio::time::sleep(backoff.draw()).await;
    }
    file.try_clone().map_err(disk)
}

/// Says how much there is, now and then.
#[derive(Default)]
struct Told(Option<Instant>);

impl Told {
    fn tell(&mut self, node: &Node, wanted: &WantedImage, done_bytes: u64) {
        let due = self.0.is_none_or(|at| at.elapsed() >= TELL_EVERY);
        // An executor of another age would hang up on what it does not know.
        let knows = node
            .executor
            .state()
            .is_some_and(|state| state.version == env!("CARGO_PKG_VERSION"));
        if !knows || !(due || done_bytes == wanted.size_bytes) {
            return;
        }
        self.0 = Some(Instant::now());
        let sha256 = wanted.sha256;
        if node
            .executor
            .tell(FromAgent::ImageMoved { sha256, done_bytes })
            .is_err()
        {
            tracing::debug!(%sha256, done_bytes, "the executor is away and does not hear of it");
        }
    }
}

/// Disks can be slow, and polls must not wait for them.
async fn write(file: &Arc<File>, piece: Vec<u8>, at: u64) -> std::io::Result<u64> {
    let file = Arc::clone(file);
    let written = tokio::task::spawn_blocking(move || {
        file.write_all_at(&piece, at)?;
        Ok(at + piece.len() as u64)
    });
    written.await.map_err(std::io::Error::other)?
}
