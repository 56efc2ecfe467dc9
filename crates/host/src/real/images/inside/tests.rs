//! Pieces of a large image, as its reader lays them out.

use std::cell::Cell;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::*;
use crate::real::whole::Folder;

const SIZE: u64 = 100 << 20;

/// An image with something else in each of its pieces.
struct Large {
    dir: PathBuf,
    folder: Folder,
    path: String,
    file: File,
    image: Image,
}

impl Large {
    fn new(name: &str) -> Option<Self> {
        if !Path::new("/usr/bin/qemu-img").exists() {
            println!("not run: needs qemu-img");
            return None;
        }
        let dir = std::env::temp_dir().join(format!("inside-{name}-{}", std::process::id()));
        let folder = Folder::ensure(&dir).expect("a directory");
        let path = dir.join("image.raw");
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .expect("made");
        file.set_len(SIZE).expect("sparse");
        for (n, (offset, length)) in (1_u8..).zip(pieces(SIZE)) {
            file.write_all_at(&[n; 5000], offset + length / 2).expect("written");
        }
        let image = Image {
            name: "image.raw".parse().expect("a name"),
            sha256: model::digest::Sha256::of(b""),
            size_bytes: SIZE,
            format: ImageFormat::Raw,
            trusted: false,
            listed: true,
        };
        let path = path.display().to_string();
        Some(Self {
            dir,
            folder,
            path,
            file,
            image,
        })
    }

    fn sums(&self, over: &dyn Fn() -> bool) -> Option<Vec<u32>> {
        let (commands, source) = (Commands::under("/".into()), (&self.file, self.path.as_str()));
        let scratch = || self.folder.nameless(0o600);
        sums(&commands, &self.image, source, SIZE, scratch, over).expect("read")
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.dir).expect("removed");
    }
}

/// Or every first write of an image that was read ahead would be compared piece by piece after all.
#[test]
fn pieces_of_an_image_sum_up_to_what_they_are_on_a_disk() {
    let Some(large) = Large::new("sums") else { return };
    let found = large.sums(&|| false).expect("to the end");
    let laid = pieces(SIZE)
        .into_iter()
        .map(|piece| pieces::sum(&large.file, piece).expect("read"));
    assert_eq!(found, laid.collect::<Vec<_>>());
    assert!(
        found.windows(2).all(|pair| pair[0] != pair[1]),
        "each its own: {found:?}"
    );
}

#[test]
fn whoever_is_not_wanted_any_more_lays_out_no_further_piece() {
    let Some(large) = Large::new("over") else { return };
    assert!(pieces(SIZE).len() > 3);
    let asked = Cell::new(0);
    let over = || {
        asked.set(asked.get() + 1);
        asked.get() > 2
    };
    assert_eq!(large.sums(&over), None);
    assert_eq!(asked.get(), 3, "after the second piece");
}
