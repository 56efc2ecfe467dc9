//! The engine itself: journal before act, one write per move, back through the failed step, stuck in plain sight.

use steps::Way::{Run, Undo};
use steps::{End, Error, Fail, Next, OnFail, Step, Table, Walk, World, nothing, prove, resume, retry, run};

use crate::shelf::{BOX, Bystander, Errand, LABEL, Pages, RIGHT, Room};

const BAD: Step<Errand> = Step {
    name: "bad",
    run: |_| Err(Fail::new("bad", "always")),
    undo: nothing,
};

#[test]
fn a_walk_that_works_is_done_and_timed() {
    let (room, mut pages, mut watch) = (Room::default(), Pages::default(), Bystander::default());
    let report = run(&RIGHT, &mut room.context(), &mut pages, &mut watch).expect("journal");
    assert_eq!(report.end, End::Done);
    assert_eq!(watch.told, [(Run, "box"), (Run, "look"), (Run, "label")]);
    assert_eq!(
        report.timings_ms().into_iter().collect::<Vec<_>>(),
        [("box", 5), ("label", 5), ("look", 5)]
    );
    assert_eq!(report.undone(), [""; 0]);
}

#[test]
fn one_move_costs_one_write() {
    let (room, mut pages, mut watch) = (Room::default(), Pages::default(), Bystander::default());
    run(&RIGHT, &mut room.context(), &mut pages, &mut watch).expect("journal");
    assert_eq!((watch.told.len(), pages.records.len()), (3, 4));

    const FAILS: Table<Errand> = Table::with_way_back(&[BOX, LABEL, BAD]);
    let (room, mut pages, mut watch) = (Room::default(), Pages::default(), Bystander::default());
    run(&FAILS, &mut room.context(), &mut pages, &mut watch).expect("journal");
    assert_eq!((watch.told.len(), pages.records.len()), (6, 7));
}

#[test]
fn nothing_acts_before_the_journal_has_it() {
    for refuse in 0..=3 {
        let (room, mut watch) = (Room::default(), Bystander::default());
        let mut pages = Pages {
            refuse: Some(refuse),
            ..Pages::default()
        };
        let error = run(&RIGHT, &mut room.context(), &mut pages, &mut watch).expect_err("refused");
        assert!(matches!(error, Error::Journal("refused")));
        assert_eq!(
            watch.told.len(),
            refuse,
            "a refused record ends the walk before its move"
        );
        assert_eq!(room.snapshot().contains_key("box"), refuse > 0);
        assert_eq!(room.snapshot().contains_key("label"), refuse > 2);
    }
}

#[test]
fn the_failed_step_is_undone_too_and_first() {
    const FAILS: Table<Errand> = Table::with_way_back(&[
        BOX,
        Step {
            name: "label",
            run: |e| {
                e.shelf.put("label", "half")?;
                Err(Fail::new("no_ink", "half a label"))
            },
            undo: LABEL.undo,
        },
    ]);
    let (room, mut pages, mut watch) = (Room::default(), Pages::default(), Bystander::default());
    let report = run(&FAILS, &mut room.context(), &mut pages, &mut watch).expect("journal");
    assert_eq!(
        report.end,
        End::Undone {
            at: "label".into(),
            error: Fail::new("no_ink", "half a label")
        }
    );
    assert_eq!(
        watch.told,
        [(Run, "box"), (Run, "label"), (Undo, "label"), (Undo, "box")]
    );
    assert_eq!(report.undone(), ["label", "box"]);
    assert!(room.snapshot().is_empty());
}

#[test]
fn a_failing_undo_is_stuck_in_plain_sight_until_it_is_tried_again() {
    const STUCK: Table<Errand> = Table::with_way_back(&[
        Step {
            name: "box",
            run: BOX.run,
            undo: |e| {
                if e.shelf.has("key")? {
                    e.shelf.take("box")
                } else {
                    Err(Fail::new("locked", "no key"))
                }
            },
        },
        BAD,
    ]);
    let (room, mut pages, mut watch) = (Room::default(), Pages::default(), Bystander::default());
    let report = run(&STUCK, &mut room.context(), &mut pages, &mut watch).expect("journal");
    let stuck = End::Stuck {
        at: "bad".into(),
        undo: Some("box".into()),
        error: Fail::new("locked", "no key"),
    };
    assert_eq!(report.end, stuck);
    assert_eq!(report.undone(), ["bad"]);
    assert_eq!(
        pages.records.last().map(|record| &record.next),
        Some(&Next::End(stuck)),
        "a restart sees it too"
    );

    room.0.put("key", "brass").expect("no fuse is set");
    let records = pages.records.clone();
    let report = retry(&STUCK, &mut room.context(), &mut pages, &records, &mut watch).expect("journal");
    assert_eq!(
        report.end,
        End::Undone {
            at: "bad".into(),
            error: Fail::new("bad", "always")
        }
    );
    assert!(!room.snapshot().contains_key("box"));
}

#[test]
fn a_halted_walk_goes_on_at_its_step_when_somebody_wants_that() {
    const LOCKED: Step<Errand> = Step {
        name: "open",
        run: |e| match e.shelf.has("key")? {
            true => Ok(()),
            false => Err(Fail::new("locked", "no key")),
        },
        undo: nothing,
    };
    const FORWARD: Table<Errand> = Table::forward_only(&[BOX, LOCKED, LABEL]);
    let (room, mut pages, mut watch) = (Room::default(), Pages::default(), Bystander::default());
    let report = run(&FORWARD, &mut room.context(), &mut pages, &mut watch).expect("journal");
    let halted = End::Halted {
        at: "open".into(),
        error: Fail::new("locked", "no key"),
    };
    assert_eq!(report.end, halted);
    room.0.put("key", "brass").expect("no fuse is set");
    let records = pages.records.clone();
    let again = resume(&FORWARD, &mut room.context(), &mut pages, &records, &mut watch).expect("journal");
    assert_eq!(again.end, halted, "a restart alone changes nothing");
    watch.told.clear();
    let report = retry(&FORWARD, &mut room.context(), &mut pages, &records, &mut watch).expect("journal");
    assert_eq!(report.end, End::Done);
    assert_eq!(watch.told, [(Run, "open"), (Run, "label")]);
}

#[test]
fn a_forward_only_table_halts_and_undoes_nothing() {
    const FORWARD: Table<Errand> = Table::forward_only(&[BOX, BAD, LABEL]);
    let (room, mut pages, mut watch) = (Room::default(), Pages::default(), Bystander::default());
    let report = run(&FORWARD, &mut room.context(), &mut pages, &mut watch).expect("journal");
    assert_eq!(
        report.end,
        End::Halted {
            at: "bad".into(),
            error: Fail::new("bad", "always")
        }
    );
    assert_eq!(watch.told, [(Run, "box"), (Run, "bad")]);
    assert!(room.snapshot().contains_key("box"));
}

#[test]
fn an_interruption_waits_for_the_step_and_never_cuts_an_undo() {
    for (interrupt, told) in [(0, 0), (1, 2), (2, 4)] {
        let (room, mut pages) = (Room::default(), Pages::default());
        let mut watch = Bystander {
            interrupt: Some(interrupt),
            ..Bystander::default()
        };
        let report = run(&RIGHT, &mut room.context(), &mut pages, &mut watch).expect("journal");
        let at = RIGHT.names()[interrupt as usize].to_owned();
        assert_eq!(
            report.end,
            End::Undone {
                at,
                error: Fail::new("cancelled", "by a person")
            }
        );
        assert_eq!(watch.told.len(), told);
        assert_eq!(pages.records.len(), told + 1);
        assert_eq!(watch.asked.get(), interrupt + 1, "nobody asks on the way back");
        assert!(room.snapshot().is_empty());
    }
}

#[test]
fn a_walk_on_its_way_back_or_at_its_end_cannot_be_interrupted() {
    let mut walk = Walk::start(RIGHT.names(), OnFail::Undo);
    walk.begun();
    walk.ended(Err(Fail::new("bad", "")));
    let (back, late) = (walk.next().clone(), Fail::new("late", ""));
    walk.interrupt(late.clone());
    assert_eq!(walk.next(), &back);
    walk.begun();
    walk.ended(Ok(()));
    let end = Next::End(End::Undone {
        at: "box".into(),
        error: Fail::new("bad", ""),
    });
    assert_eq!(walk.next(), &end);
    walk.interrupt(late);
    assert!(!walk.retry());
    assert_eq!(walk.next(), &end);
}

#[test]
fn an_empty_table_is_done() {
    const EMPTY: Table<Errand> = Table::with_way_back(&[]);
    let (room, mut pages, mut watch) = (Room::default(), Pages::default(), Bystander::default());
    let report = run(&EMPTY, &mut room.context(), &mut pages, &mut watch).expect("journal");
    assert_eq!((report.end, pages.records.len()), (End::Done, 1));
}

#[test]
fn a_right_table_is_proven_and_the_cells_are_counted() {
    let proof = prove(&RIGHT, &Room::default()).unwrap_or_else(|complaints| panic!("{complaints}"));
    let kinds: Vec<_> = proof.by_kind.into_iter().collect();
    // 3 steps, 4 calls and 4 writes on the way there; on the way back 1, 1, 2 calls and 2, 3, 4 writes.
    assert_eq!(
        kinds,
        [
            ("clean", 1),
            ("crash", 8),
            ("crash_back", 18),
            ("fail", 6),
            ("fuse", 8),
            ("fuse_back", 8),
            ("fuse_crash", 8),
            ("fuse_crash_back", 8),
            ("interrupt", 3),
            ("run_twice", 3),
            ("undo_twice", 3),
        ]
    );
    assert_eq!(proof.cells, 74);

    const FORWARD: Table<Errand> = Table::forward_only(&[BOX, LABEL]);
    let proof = prove(&FORWARD, &Room::default()).unwrap_or_else(|complaints| panic!("{complaints}"));
    assert_eq!(proof.cells, 1 + 6 + 6 + 6 + 2 + 2 + 4);
}
