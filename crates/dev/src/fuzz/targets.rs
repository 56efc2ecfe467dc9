//! What is shot at, and how to tell a hit: each target runs the very code that judges such documents in the product.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use executor::trial::{Trial, read_journal, sealed_record, write_journal};
use model::digest::Sha256;
use model::dsse::{self, Envelope};
use model::id::{InstallationId, TaskId};
use model::intent::Intent;
use model::outcome::ResultPayload;
use model::socket::{self, FromAgent};
use model::trust::{Bundle, Trust};

use super::forge::{Forge, Shot};
use super::house::{Document, House, bundle, uuid};
use super::tree::{Tree, roll};
use super::{Fate, Target, bytes};
use crate::dice::Dice;

/// A place to shoot at.
pub(super) trait Range {
    fn aim(&mut self, forge: &mut Forge<'_>) -> Shot;
    fn fire(&mut self, shot: &Shot) -> Fate;
    /// Did the last one get as far as its signature?
    fn reached(&self) -> bool {
        false
    }
}

pub(super) fn range<'a>(target: Target, house: &'a House) -> Box<dyn Range + 'a> {
    let trial = || Trial::new(house.trust.clone(), house.me, house.now);
    match target {
        Target::Task => Box::new(Tasks {
            house,
            trial: trial(),
            aimed: 0,
            reached: false,
        }),
        Target::Trust => Box::new(Documents { house, manifest: false }),
        Target::Intent => Box::new(One {
            document: &house.intent,
            other: &house.result,
            believed: Box::new(|envelope| Intent::open(envelope, &house.intent_key.public()).is_ok()),
        }),
        Target::Result => Box::new(One {
            document: &house.result,
            other: &house.tasks[0],
            believed: Box::new(|envelope| ResultPayload::open(envelope, &house.result_key.public()).is_ok()),
        }),
        Target::Frame => Box::new(Frames { house, trial: trial() }),
        Target::Journal => Box::new(Journals::new(house)),
    }
}

/// A judge who believes whatever has the shape of an envelope.
#[cfg(test)]
pub(super) fn gullible(house: &House) -> impl Range {
    One {
        document: &house.intent,
        other: &house.result,
        believed: Box::new(|_| true),
    }
}

struct Tasks<'a> {
    house: &'a House,
    trial: Trial,
    aimed: usize,
    reached: bool,
}

impl Range for Tasks<'_> {
    fn aim(&mut self, forge: &mut Forge<'_>) -> Shot {
        let tasks = &self.house.tasks;
        self.aimed = roll(&mut forge.dice, tasks.len());
        let others = [
            &tasks[roll(&mut forge.dice, tasks.len())],
            &self.house.manifest,
            &self.house.result,
        ];
        let other = others[roll(&mut forge.dice, others.len())];
        match forge.dice.chance(12) {
            true => forge.misdirected(&tasks[self.aimed]),
            false => forge.shot(&tasks[self.aimed], other),
        }
    }

    fn fire(&mut self, shot: &Shot) -> Fate {
        self.reached = false;
        let envelope = match Envelope::parse(&shot.bytes) {
            Ok(envelope) => envelope,
            Err(code) => return Fate::Refused(code.as_str()),
        };
        self.reached = self.house.reaches_the_signature(&envelope);
        judged(
            &self.trial,
            &self.house.tasks,
            self.house.tasks[self.aimed].task_id,
            envelope,
        )
    }

    fn reached(&self) -> bool {
        self.reached
    }
}

/// The executor's verdict on an offer under this name.
fn judged(trial: &Trial, honest: &[Document], task_id: TaskId, envelope: Envelope) -> Fate {
    let payload = envelope.payload_unverified();
    match trial.judge(task_id, envelope) {
        Err(code) => Fate::Refused(code.as_str()),
        Ok(_) if honest.iter().any(|task| payload.as_ref() == Ok(&task.payload)) => Fate::Same,
        Ok(kind) => Fate::Accepted(format!("{kind} would run")),
    }
}

/// A kind of document that one key alone may sign.
struct One<'a> {
    document: &'a Document,
    other: &'a Document,
    believed: Box<dyn Fn(&Envelope) -> bool + 'a>,
}

impl Range for One<'_> {
    fn aim(&mut self, forge: &mut Forge<'_>) -> Shot {
        forge.shot(self.document, self.other)
    }

    fn fire(&mut self, shot: &Shot) -> Fate {
        let envelope = match Envelope::parse(&shot.bytes) {
            Ok(envelope) => envelope,
            Err(code) => return Fate::Refused(code.as_str()),
        };
        match (self.believed)(&envelope) {
            false => Fate::Refused("not believed"),
            true if envelope.payload_unverified().as_ref() == Ok(&self.document.payload) => Fate::Same,
            true => Fate::Accepted("believed".to_owned()),
        }
    }
}

/// Delegation and manifest, at first contact and later.
struct Documents<'a> {
    house: &'a House,
    manifest: bool,
}

impl Range for Documents<'_> {
    fn aim(&mut self, forge: &mut Forge<'_>) -> Shot {
        let House {
            delegation, manifest, ..
        } = self.house;
        self.manifest = forge.dice.chance(60);
        let (document, other) = match self.manifest {
            true => (manifest, delegation),
            false => (delegation, manifest),
        };
        match forge.dice.chance(25) {
            true => rolled_back(forge, document, self.manifest),
            false => forge.shot(document, other),
        }
    }

    fn fire(&mut self, shot: &Shot) -> Fate {
        let envelope = match Envelope::parse(&shot.bytes) {
            Ok(envelope) => envelope,
            Err(code) => return Fate::Refused(code.as_str()),
        };
        let honest = bundle(&self.house.delegation, &self.house.manifest);
        let (document, bundle) = match self.manifest {
            true => (
                &self.house.manifest,
                Bundle {
                    manifest: envelope.clone(),
                    ..honest
                },
            ),
            false => (
                &self.house.delegation,
                Bundle {
                    delegation: envelope.clone(),
                    ..honest
                },
            ),
        };
        let same = envelope.payload_unverified().as_ref() == Ok(&document.payload);
        // What only an older or equal version tells apart cannot be seen at first contact.
        let first = match shot.how {
            "an older version" => Err(model::signal::Code::ManifestRejected),
            _ => Trust::establish(&self.house.pinned_root, &bundle).map(drop),
        };
        let later = self.house.trust.advance(&bundle).map(drop);
        match (first, later) {
            (Err(_), Err(code)) => Fate::Refused(code.as_str()),
            _ if same => Fate::Same,
            (first, later) => Fate::Accepted(format!("first contact {first:?}, later {later:?}")),
        }
    }
}

/// The right key, and still not to be believed: documents that go back, lie about their keys, or need nobody's word.
fn rolled_back(forge: &mut Forge<'_>, document: &Document, manifest: bool) -> Shot {
    let mut tree = document.tree.clone();
    let how = match (manifest, forge.dice.roll(4)) {
        (_, 0) => {
            tree.set("aud", InstallationId::from(uuid(&mut forge.dice)).to_string());
            "another installation"
        }
        (true, 1) => {
            tree.set("version", forge.dice.roll(9));
            "an older version"
        }
        (true, _) => {
            tree.add_a_key(None, &mut forge.dice);
            "a key too many"
        }
        (false, 1) => {
            tree.set("threshold", [0, 2, 1_u64 << 40][roll(&mut forge.dice, 3)]);
            "a threshold that nobody can meet, or anybody"
        }
        (false, 2) => {
            let root = forge.house.trust_root();
            tree.set("roots", vec![root.clone(), root]);
            "a root that counts twice"
        }
        (false, _) => {
            tree.double_a_key(None, &mut forge.dice);
            "a key twice"
        }
    };
    let envelope = dsse::sign(document.payload_type, tree.text().as_bytes(), &[&document.signer]);
    Shot::made(how, envelope.to_bytes())
}

/// What the agent says on the socket. Frames carry no authority, so one that is still a message is no hit; a task in
/// one that would run is.
struct Frames<'a> {
    house: &'a House,
    trial: Trial,
}

impl Range for Frames<'_> {
    fn aim(&mut self, forge: &mut Forge<'_>) -> Shot {
        let frames = self.messages();
        let other = &frames[roll(&mut forge.dice, frames.len())];
        let mut frame = frames[roll(&mut forge.dice, frames.len())].clone();
        if forge.dice.chance(50) {
            let mut tree = Tree::parse(&frame[4..]).expect("our own JSON");
            tree.edit(&mut forge.dice);
            let body = tree.text().into_bytes();
            frame = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes().to_vec();
            frame.extend_from_slice(&body);
            return Shot::made("message", frame);
        }
        bytes::spoil(&mut frame, other, &mut forge.dice);
        Shot::made("raw frame", frame)
    }

    fn fire(&mut self, shot: &Shot) -> Fate {
        let Some((header, body)) = shot.bytes.split_first_chunk::<4>() else {
            return Fate::Refused("no frame");
        };
        let length = match socket::body_length(*header) {
            Ok(length) => length,
            Err(_) => return Fate::Refused("too large a frame"),
        };
        let Some(body) = body.get(..length) else {
            return Fate::Refused("half a frame");
        };
        let Ok(message) = socket::decode::<FromAgent>(body) else {
            return Fate::Refused("no message");
        };
        match message {
            FromAgent::Offer { task_id, envelope, .. } => judged(&self.trial, &self.house.tasks, task_id, envelope),
            FromAgent::Trust { bundle, .. } => match self.house.trust.advance(&bundle) {
                Ok(trust) if trust.manifest() == self.house.trust.manifest() => Fate::Same,
                Ok(_) => Fate::Accepted("other documents".to_owned()),
                Err(code) => Fate::Refused(code.as_str()),
            },
            _ => Fate::Refused("a message without authority"),
        }
    }
}

impl Frames<'_> {
    fn messages(&self) -> Vec<Vec<u8>> {
        let task = &self.house.tasks[1];
        let bundle = bundle(&self.house.delegation, &self.house.manifest);
        [
            FromAgent::Hello { request_id: 1 },
            FromAgent::Offer {
                task_id: task.task_id,
                fence: 3,
                envelope: task.envelope.clone(),
                server_time: self.house.now,
            },
            FromAgent::Acked {
                task_id: task.task_id,
                status: 200,
            },
            FromAgent::Cancel { task_id: task.task_id },
            FromAgent::Trust {
                request_id: 2,
                bundle: Box::new(bundle),
            },
        ]
        .iter()
        .map(|message| socket::encode(message).expect("small"))
        .collect()
    }
}

/// Journals on a bad disk: what is read must be the honest beginning of what was written, or nothing at all. Every second
/// one has a record of another content under a good checksum, which no disk makes: whoever can write that is root, and is
/// believed, but must not bring the reader down.
struct Journals {
    dir: PathBuf,
    image: Vec<u8>,
    /// What each honest beginning adds up to.
    honest: Vec<String>,
}

const SIZE: u64 = 32 * 1024;
const RECORD_HEADER: usize = 17;
static JOURNALS: AtomicU32 = AtomicU32::new(0);

impl Journals {
    fn new(house: &House) -> Self {
        let number = JOURNALS.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("fuzz-journal-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        let tasks: Vec<_> = house
            .tasks
            .iter()
            .map(|task| (task.task_id, task.envelope.clone()))
            .collect();
        write_journal(&dir, SIZE, &tasks, &house.result.envelope, house.now).expect("an honest journal");
        let image = std::fs::read(dir.join("journal")).expect("just written");
        let mut this = Self {
            dir,
            image,
            honest: Vec::new(),
        };
        let ends: Vec<usize> = record_ends(&this.image);
        this.honest = [0]
            .iter()
            .chain(&ends)
            .map(|end| {
                let mut cut = this.image[..*end].to_vec();
                cut.resize(this.image.len(), 0);
                this.read(&cut).expect("an honest beginning")
            })
            .collect();
        this
    }

    fn read(&self, image: &[u8]) -> Result<String, model::signal::Code> {
        std::fs::write(self.dir.join("journal"), image).expect("a temporary file");
        read_journal(&self.dir, SIZE)
    }
}

/// Where each record ends: `u32 length | …13 bytes… | body`.
fn record_ends(image: &[u8]) -> Vec<usize> {
    let (mut ends, mut at) = (Vec::new(), 0);
    while let Some(header) = image.get(at..at + 4) {
        let length = u32::from_le_bytes(header.try_into().expect("four bytes")) as usize;
        if length == 0 {
            break;
        }
        at += RECORD_HEADER + length;
        ends.push(at);
    }
    ends
}

const SEALED_ANEW: &str = "journal record, sealed anew";

impl Journals {
    fn sealed_anew(&self, dice: &mut Dice) -> Option<Shot> {
        let ends = record_ends(&self.image);
        let n = usize::try_from(dice.roll(ends.len() as u64)).ok()?;
        let (from, end) = (n.checked_sub(1).map_or(0, |before| ends[before]), ends[n]);
        let mut body = Tree::parse(&self.image[from + RECORD_HEADER..end])?;
        for _ in 0..1 + dice.roll(3) {
            body.edit(dice);
        }
        let record = sealed_record(&self.image[from..end], body.text().as_bytes())?;
        let mut image = [&self.image[..from], &record, &self.image[end..*ends.last()?]].concat();
        image.resize(self.image.len().max(image.len()), 0);
        Some(Shot::made(SEALED_ANEW, image))
    }
}

impl Range for Journals {
    fn aim(&mut self, forge: &mut Forge<'_>) -> Shot {
        if forge.dice.roll(2) == 0
            && let Some(shot) = self.sealed_anew(&mut forge.dice)
        {
            return shot;
        }
        let used = record_ends(&self.image).last().copied().unwrap_or(0);
        let mut image = self.image[..used].to_vec();
        let other = self.image[..used].to_vec();
        bytes::spoil(&mut image, &other, &mut forge.dice);
        image.resize(self.image.len().max(image.len()), 0);
        Shot::made("journal bytes", image)
    }

    fn fire(&mut self, shot: &Shot) -> Fate {
        if Sha256::of(&shot.bytes) == Sha256::of(&self.image) {
            return Fate::Same;
        }
        match self.read(&shot.bytes) {
            Err(code) => Fate::Refused(code.as_str()),
            Ok(book) if self.honest.contains(&book) => Fate::Refused("cut at the damage"),
            Ok(_) if shot.how == SEALED_ANEW => Fate::Refused("read as root has written it"),
            Ok(book) => Fate::Accepted(format!("a journal that was never written: {book}")),
        }
    }
}

impl Drop for Journals {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.dir) {
            eprintln!("{}: {error}", self.dir.display());
        }
    }
}
