//! What has left the catalogue: it lies for thirty days after it was first seen unlisted, however old it is, and goes.

use std::fs::{self, File, FileTimes};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use host::{Image, Images, Source};
use model::digest::Sha256;
use model::task::vm_provision::ImageFormat;

use crate::images::Desk;

struct Store {
    desk: Desk,
    listed: Image,
    unlisted: Image,
}

impl Store {
    fn new(name: &str) -> Option<Self> {
        let desk = Desk::new(name)?;
        let image = |name: &str| {
            fs::write(desk.path("images").join(name), name).expect("written");
            let image = desk.image(name, ImageFormat::Raw);
            desk.images.ensure_stored(&image).expect("stored");
            image
        };
        let (listed, unlisted) = (image("listed"), image("unlisted"));
        Some(Self { desk, listed, unlisted })
    }

    /// Looks, and gives what is gone.
    fn look(&self) -> Vec<Sha256> {
        let listed = std::slice::from_ref(&self.listed);
        self.desk.images.drop_unlisted(listed, &|| false).expect("looked")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.desk.path("var/lib/gpuaas/executor/images").join(name)
    }

    fn stored(&self) -> PathBuf {
        self.file(&self.unlisted.sha256.to_string())
    }

    /// Where it says since when.
    fn note(&self) -> PathBuf {
        self.file(&format!("unlisted-{}", self.unlisted.sha256))
    }
}

/// As if it had been written so many days before now, or after.
fn age(file: &PathBuf, days: i64) {
    let file = File::options().write(true).open(file).expect("opened");
    let now = file.metadata().expect("there").accessed().expect("a time");
    let by = Duration::from_secs(days.unsigned_abs() * 86_400);
    let then = if days > 0 { now - by } else { now + by };
    file.set_times(FileTimes::new().set_modified(then)).expect("set");
}

fn modified(path: &PathBuf) -> SystemTime {
    fs::metadata(path).and_then(|seen| seen.modified()).expect("a time")
}

#[test]
fn what_has_long_been_unlisted_is_taken_out() {
    let Some(store) = Store::new("unlisted") else { return };
    let foreign = ["somebody-elses", "unlisted-somebody-elses"].map(|name| store.file(name));
    for file in &foreign {
        fs::write(file, "theirs").expect("written");
        age(file, 31);
    }
    // Both have been stored for years; until today both were listed.
    age(&store.stored(), 700);
    age(&store.file(&store.listed.sha256.to_string()), 700);
    assert!(store.look().is_empty(), "it was listed yesterday");
    age(&store.note(), 29);
    assert!(store.look().is_empty(), "it may come back");
    age(&store.note(), 31);
    let images = &store.desk.images;
    let busy = images.drop_unlisted(&[], &|| true).expect("looked");
    assert!(busy.is_empty(), "a task may be about to use it");
    assert_eq!(store.look(), [store.unlisted.sha256]);
    assert!(!store.note().exists() && store.look().is_empty());
    assert!(foreign.iter().all(|file| file.exists()));
    images.verify(&store.listed).expect("there");
    let again = images.ensure_stored(&store.unlisted).expect("taken anew");
    assert_eq!(again, Source::Directory);
}

#[test]
fn what_is_listed_again_or_stored_anew_begins_anew() {
    let Some(store) = Store::new("relisted") else { return };
    age(&store.stored(), 700);
    let images = &store.desk.images;
    let in_between: [(&str, &dyn Fn()); 4] = [
        ("it was listed for a day", &|| {
            let both = [store.listed.clone(), store.unlisted.clone()];
            let gone = images.drop_unlisted(&both, &|| false).expect("looked");
            assert!(gone.is_empty() && !store.note().exists());
        }),
        ("it had rotted, and somebody looked before it was stored again", &|| {
            fs::remove_file(store.stored()).expect("there");
            assert!(store.look().is_empty() && !store.note().exists());
            images.ensure_stored(&store.unlisted).expect("stored");
            age(&store.stored(), 700);
        }),
        ("it had rotted, and nobody looked", &|| {
            fs::remove_file(store.stored()).expect("there");
            images.ensure_stored(&store.unlisted).expect("stored");
        }),
        ("a clock had gone ahead", &|| age(&store.note(), -700)),
    ];
    for (what, happens) in in_between {
        assert!(store.look().is_empty(), "{what}");
        age(&store.note(), 31);
        happens();
        assert!(store.look().is_empty(), "{what}");
        assert!(store.look().is_empty() && store.stored().exists(), "{what}");
        let noted = modified(&store.note());
        let apart = modified(&store.desk.path("images")).duration_since(noted);
        let apart = apart.unwrap_or_else(|before| before.duration());
        assert!(apart < Duration::from_secs(86_400), "{what}: noted {noted:?}");
    }
}

#[test]
fn neither_a_date_to_come_nor_a_broken_neighbour_keeps_it() {
    let Some(store) = Store::new("dated-ahead") else { return };
    age(&store.stored(), -700);
    assert!(store.look().is_empty(), "it was listed yesterday");
    age(&store.note(), 31);
    // Comes first, and cannot be looked at.
    let broken = store.file(&"0".repeat(64));
    std::os::unix::fs::symlink("nowhere", &broken).expect("made");
    assert_eq!(store.look(), [store.unlisted.sha256]);
    let images = &store.desk.images;
    images
        .drop_unlisted(std::slice::from_ref(&store.listed), &|| false)
        .expect_err("it is told");
}
