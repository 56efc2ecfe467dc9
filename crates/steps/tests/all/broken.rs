//! Tables that are wrong on purpose, one promise each, and the complaint that `prove` must make.

use steps::{Blow, Cell, Complaint, Complaints, Fail, Step, Table, World, nothing, prove};

use crate::shelf::{BOX, Errand, LABEL, Room};

fn complaints(table: &Table<Errand>) -> Complaints {
    prove(table, &Room::default()).expect_err("a wrong table is not proven")
}

const fn table(steps: &'static [Step<Errand>]) -> Table<Errand> {
    Table::with_way_back(steps)
}

#[test]
fn a_step_that_adds_each_time_is_not_idempotent() {
    const WRONG: Table<Errand> = table(&[Step {
        run: |e| e.shelf.append("box", "x"),
        ..BOX
    }]);
    let found = complaints(&WRONG);
    let not_finished = |complaint: &Complaint| matches!(complaint, Complaint::NotFinished { .. });
    assert!(
        found.has(|cell, why| matches!(cell, Cell::RunTwice { at: 0 }) && not_finished(why)),
        "{found}"
    );
    assert!(found.has(|cell, why| matches!(
        cell,
        Cell::Crash {
            write: 1,
            blow: Blow::Before
        }
    ) && not_finished(why)));
}

#[test]
fn a_step_that_refuses_to_run_again_is_not_idempotent() {
    const WRONG: Table<Errand> = table(&[Step {
        run: |e| {
            if e.shelf.has("box")? {
                Err(Fail::new("exists", ""))
            } else {
                e.shelf.put("box", "full")
            }
        },
        ..BOX
    }]);
    let found = complaints(&WRONG);
    assert!(found.has(|cell, why| matches!((cell, why), (Cell::RunTwice { .. }, Complaint::WrongEnd { .. }))));
}

#[test]
fn an_undo_that_leaves_something_is_not_clean() {
    const WRONG: Table<Errand> = table(&[
        Step {
            undo: |e| e.shelf.put("box", "empty"),
            ..BOX
        },
        LABEL,
    ]);
    let found = complaints(&WRONG);
    let not_clean = |complaint: &Complaint| matches!(complaint, Complaint::NotClean { .. });
    for at in [0, 1] {
        assert!(
            found.has(|cell, why| *cell == Cell::Fail { at, blow: Blow::After } && not_clean(why)),
            "{found}"
        );
        assert!(found.has(|cell, why| matches!(cell, Cell::Interrupt { .. }) && not_clean(why)));
    }
}

#[test]
fn an_undo_that_is_conditional_on_memory_is_not_clean() {
    // It only remembers in the process, not in the facts, that there is something to undo.
    const WRONG: Table<Errand> = table(&[
        Step {
            name: "box",
            run: |e| {
                e.shelf.put("box", "full")?;
                e.made = Some("box".into());
                Ok(())
            },
            undo: |e| {
                if e.made.is_some() { e.shelf.take("box") } else { Ok(()) }
            },
        },
        LABEL,
    ]);
    let found = complaints(&WRONG);
    let not_clean = |complaint: &Complaint| matches!(complaint, Complaint::NotClean { .. });
    assert!(
        found.has(|cell, why| matches!(
            cell,
            Cell::Fuse {
                call: 0,
                blow: Blow::After
            }
        ) && not_clean(why)),
        "{found}"
    );
}

#[test]
fn an_undo_that_cannot_be_repeated_is_seen() {
    const WRONG: Table<Errand> = table(&[Step {
        undo: |e| {
            if e.shelf.has("box")? {
                e.shelf.take("box")
            } else {
                Err(Fail::new("absent", ""))
            }
        },
        ..BOX
    }]);
    let found = complaints(&WRONG);
    let stuck = |complaint: &Complaint| {
        matches!(
            complaint,
            Complaint::WrongEnd {
                end: steps::End::Stuck { .. }
            }
        )
    };
    assert!(
        found.has(|cell, why| matches!(cell, Cell::UndoTwice { .. }) && stuck(why)),
        "{found}"
    );
    assert!(found.has(|cell, why| matches!(cell, Cell::Fail { blow: Blow::Before, .. }) && stuck(why)));
}

#[test]
fn a_guard_that_takes_half_for_whole_is_not_complete() {
    // "It exists" is not "it is finished": a crash between the two writes leaves half a label for ever.
    const WRONG: Table<Errand> = table(&[Step {
        run: |e| {
            if e.shelf.has("label")? { Ok(()) } else { (LABEL.run)(e) }
        },
        ..LABEL
    }]);
    let found = complaints(&WRONG);
    assert!(
        found.has(|cell, why| matches!((cell, why), (Cell::FuseCrash { .. }, Complaint::NotFinished { .. }))),
        "{found}"
    );
}

#[test]
fn an_effect_whose_name_is_not_yet_journalled_is_lost() {
    const WRONG: Table<Errand> = table(&[Step {
        name: "make",
        run: |e| {
            let name = e.shelf.another_name();
            e.made = Some(name.clone());
            e.shelf.put(&name, "made")
        },
        undo: |e| e.made.as_deref().map_or(Ok(()), |made| e.shelf.take(made)),
    }]);
    let found = complaints(&WRONG);
    assert!(
        found.has(|cell, why| matches!((cell, why), (Cell::Crash { .. }, Complaint::NotFinished { .. }))),
        "{found}"
    );
}

#[test]
fn a_swallowed_error_is_seen() {
    const WRONG: Table<Errand> = table(&[Step {
        run: |e| e.shelf.put("box", "full").or(Ok(())),
        ..BOX
    }]);
    let found = complaints(&WRONG);
    assert!(found.has(|cell, why| matches!(
        (cell, why),
        (Cell::Fuse { blow: Blow::Before, .. }, Complaint::NotFinished { .. })
    )));
    const BACK: Table<Errand> = table(&[Step {
        undo: |e| e.shelf.take("box").or(Ok(())),
        ..BOX
    }]);
    let found = complaints(&BACK);
    assert!(found.has(|cell, why| matches!((cell, why), (Cell::FuseBack { .. }, Complaint::NotClean { .. }))));
}

#[test]
fn a_step_that_stands_in_the_way_of_the_next_attempt_is_seen() {
    const WRONG: Table<Errand> = Table::forward_only(&[
        Step {
            name: "mark",
            run: |e| {
                if e.shelf.has("mark")? {
                    Err(Fail::new("marked", ""))
                } else {
                    e.shelf.put("mark", "x")
                }
            },
            undo: nothing,
        },
        LABEL,
    ]);
    let found = complaints(&WRONG);
    assert!(
        found.has(|cell, why| matches!((cell, why), (Cell::Fail { at: 1, .. }, Complaint::NotRepeatable { .. }))),
        "{found}"
    );
}

#[test]
fn a_table_that_never_works_is_not_proven() {
    const WRONG: Table<Errand> = table(&[Step {
        run: |_| Err(Fail::new("never", "")),
        ..BOX
    }]);
    let found = complaints(&WRONG);
    assert_eq!(found.0.len(), 1);
    assert!(found.has(|cell, why| matches!((cell, why), (Cell::Clean, Complaint::WrongEnd { .. }))));
}

/// A room whose fuse is not connected.
struct Dead(Room);

impl World for Dead {
    type Context = Errand;
    type Snapshot = <Room as World>::Snapshot;
    fn fresh(&self) -> Self {
        Dead(self.0.fresh())
    }
    fn context(&self) -> Errand {
        self.0.context()
    }
    fn snapshot(&self) -> Self::Snapshot {
        self.0.snapshot()
    }
    fn calls(&self) -> usize {
        self.0.calls()
    }
    fn set_fuse(&self, _: usize, _: Blow) {}
    fn fuse_blown(&self) -> bool {
        self.0.fuse_blown()
    }
}

#[test]
fn a_fault_that_does_not_fire_proves_nothing() {
    const RIGHT: Table<Errand> = table(&[BOX]);
    let found = prove(&RIGHT, &Dead(Room::default())).expect_err("the fuse is dead");
    assert!(found.has(|cell, why| matches!((cell, why), (Cell::Fuse { .. }, Complaint::FaultDidNotFire))));
    assert!(found.has(|cell, why| matches!((cell, why), (Cell::FuseCrash { .. }, Complaint::FaultDidNotFire))));
}

/// A room in which the errand has been run before.
struct Furnished(Room);

impl Furnished {
    fn new() -> Self {
        let room = Room::default();
        room.0.put("box", "full").expect("no fuse is set");
        Furnished(room)
    }
}

impl World for Furnished {
    type Context = Errand;
    type Snapshot = <Room as World>::Snapshot;
    fn fresh(&self) -> Self {
        Self::new()
    }
    fn context(&self) -> Errand {
        self.0.context()
    }
    fn snapshot(&self) -> Self::Snapshot {
        self.0.snapshot()
    }
    fn calls(&self) -> usize {
        self.0.calls()
    }
    fn set_fuse(&self, after: usize, blow: Blow) {
        self.0.set_fuse(after, blow);
    }
    fn fuse_blown(&self) -> bool {
        self.0.fuse_blown()
    }
}

/// Where everything stands already, the clean world is the finished one: an undo may take away only what its own walk
/// has made.
#[test]
fn an_undo_that_takes_what_it_did_not_make_is_seen() {
    const WRONG: Table<Errand> = table(&[BOX]);
    prove(&WRONG, &Room::default()).expect("right in an empty room");
    let found = prove(&WRONG, &Furnished::new()).expect_err("the box was there before");
    assert!(
        found.has(|cell, why| matches!((cell, why), (Cell::Fail { at: 0, .. }, Complaint::NotClean { .. }))),
        "{found}"
    );
    const RIGHT: Table<Errand> = table(&[
        Step {
            name: "look",
            run: |e| {
                e.made = e.shelf.has("box")?.then(|| "by somebody before".to_owned());
                Ok(())
            },
            undo: nothing,
        },
        Step {
            undo: |e| if e.made.is_some() { Ok(()) } else { e.shelf.take("box") },
            ..BOX
        },
    ]);
    prove(&RIGHT, &Room::default()).expect("proven in an empty room");
    prove(&RIGHT, &Furnished::new()).expect("and in a furnished one");
}
