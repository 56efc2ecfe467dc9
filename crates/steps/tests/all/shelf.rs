//! A small world: a shelf of named things, with a fuse at every call and a table of three steps that is right.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use steps::{Blow, Context, Fail, Journal, Record, Step, Table, Watch, Way, World, nothing};

#[derive(Default)]
pub(crate) struct Shelf {
    things: RefCell<BTreeMap<String, String>>,
    calls: Cell<usize>,
    fuse: Cell<Option<(usize, Blow)>>,
    blown: Cell<bool>,
    serial: Cell<u32>,
}

impl Shelf {
    fn call<T>(&self, effect: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> Result<T, Fail> {
        self.calls.set(self.calls.get() + 1);
        let blow = match self.fuse.get() {
            Some((0, blow)) => {
                self.fuse.set(None);
                self.blown.set(true);
                Some(blow)
            }
            Some((more, blow)) => {
                self.fuse.set(Some((more - 1, blow)));
                None
            }
            None => None,
        };
        let fail = || Fail::new("fuse_blown", "planted");
        if blow == Some(Blow::Before) {
            return Err(fail());
        }
        let done = effect(&mut self.things.borrow_mut());
        if blow.is_some() { Err(fail()) } else { Ok(done) }
    }

    pub(crate) fn put(&self, name: &str, thing: &str) -> Result<(), Fail> {
        self.call(|things| things.insert(name.into(), thing.into())).map(drop)
    }

    pub(crate) fn append(&self, name: &str, thing: &str) -> Result<(), Fail> {
        self.call(|things| things.entry(name.into()).or_default().push_str(thing))
    }

    pub(crate) fn take(&self, name: &str) -> Result<(), Fail> {
        self.call(|things| things.remove(name)).map(drop)
    }

    pub(crate) fn has(&self, name: &str) -> Result<bool, Fail> {
        self.call(|things| things.contains_key(name))
    }

    /// Never the same twice, as a random id would be.
    pub(crate) fn another_name(&self) -> String {
        self.serial.set(self.serial.get() + 1);
        format!("id{}", self.serial.get())
    }
}

#[derive(Clone, Default)]
pub(crate) struct Room(pub(crate) Rc<Shelf>);

/// What the steps share: the shelf, and one name that is made on the way.
pub(crate) struct Errand {
    pub(crate) shelf: Rc<Shelf>,
    pub(crate) made: Option<String>,
}

impl Context for Errand {
    type Facts = Option<String>;
    fn facts(&self) -> Self::Facts {
        self.made.clone()
    }
    fn restore(&mut self, made: Self::Facts) {
        self.made = made;
    }
}

impl World for Room {
    type Context = Errand;
    type Snapshot = BTreeMap<String, String>;
    fn fresh(&self) -> Self {
        Room::default()
    }
    fn context(&self) -> Errand {
        Errand {
            shelf: self.0.clone(),
            made: None,
        }
    }
    fn snapshot(&self) -> Self::Snapshot {
        self.0.things.borrow().clone()
    }
    fn calls(&self) -> usize {
        self.0.calls.get()
    }
    fn set_fuse(&self, after: usize, blow: Blow) {
        self.0.fuse.set(Some((after, blow)));
    }
    fn fuse_blown(&self) -> bool {
        self.0.blown.get()
    }
}

pub(crate) const BOX: Step<Errand> = Step {
    name: "box",
    run: |e| e.shelf.put("box", "full"),
    undo: |e| e.shelf.take("box"),
};
pub(crate) const LOOK: Step<Errand> = Step {
    name: "look",
    run: |e| e.shelf.has("box").map(drop),
    undo: nothing,
};
pub(crate) const LABEL: Step<Errand> = Step {
    name: "label",
    run: |e| {
        e.shelf.put("label", "half")?;
        e.shelf.put("label", "whole")
    },
    undo: |e| e.shelf.take("label"),
};
pub(crate) const RIGHT: Table<Errand> = Table::with_way_back(&[BOX, LOOK, LABEL]);

/// A journal in memory that can refuse its n-th record.
#[derive(Default)]
pub(crate) struct Pages {
    pub(crate) records: Vec<Record>,
    pub(crate) refuse: Option<usize>,
}

impl Journal for Pages {
    type Error = &'static str;
    fn append(&mut self, record: &Record) -> Result<(), &'static str> {
        if self.refuse == Some(self.records.len()) {
            return Err("refused");
        }
        self.records.push(record.clone());
        Ok(())
    }
}

/// A clock that moves 5 ms at each look, and a list of the moves it was told.
#[derive(Default)]
pub(crate) struct Bystander {
    pub(crate) told: Vec<(Way, &'static str)>,
    pub(crate) now_ms: Cell<u64>,
    /// Interrupt when asked for the n-th time, counted from 0.
    pub(crate) interrupt: Option<u64>,
    pub(crate) asked: Cell<u64>,
}

impl Watch for Bystander {
    fn now_ms(&self) -> u64 {
        self.now_ms.set(self.now_ms.get() + 5);
        self.now_ms.get()
    }
    fn interrupted(&self) -> Option<Fail> {
        let asked = self.asked.replace(self.asked.get() + 1);
        (self.interrupt == Some(asked)).then(|| Fail::new("cancelled", "by a person"))
    }
    fn begins(&mut self, way: Way, step: &'static str) {
        self.told.push((way, step));
    }
}
