//! After a restart: the step it died in runs again, facts are known again, and another table is left alone.

use steps::Way::{Run, Undo};
use steps::{End, FLOW_CHANGED, Fail, Next, Record, Step, Table, World, nothing, resume, run};

use crate::shelf::{BOX, Bystander, Errand, LABEL, LOOK, Pages, RIGHT, Room};

/// A walk of RIGHT that died when it wanted to write its n-th record, counted from 0.
fn died_at(room: &Room, write: usize) -> Vec<Record> {
    let mut pages = Pages {
        refuse: Some(write),
        ..Pages::default()
    };
    run(&RIGHT, &mut room.context(), &mut pages, &mut Bystander::default()).expect_err("refused");
    pages.records
}

#[test]
fn the_step_it_died_in_runs_again_and_those_before_do_not() {
    let room = Room::default();
    let records = died_at(&room, 2);
    let (mut pages, mut watch) = (Pages::default(), Bystander::default());
    let report = resume(&RIGHT, &mut room.context(), &mut pages, &records, &mut watch).expect("journal");
    assert_eq!(report.end, End::Done);
    assert_eq!(watch.told, [(Run, "look"), (Run, "label")]);
    assert_eq!(pages.records.len(), 2, "what was begun is not begun a second time");
    assert_eq!(report.timings_ms().len(), 3, "timings from before the restart are kept");
}

#[test]
fn a_walk_that_had_ended_gives_its_end_again() {
    let (room, mut pages) = (Room::default(), Pages::default());
    run(&RIGHT, &mut room.context(), &mut pages, &mut Bystander::default()).expect("journal");
    let (records, mut watch) = (pages.records.clone(), Bystander::default());
    let report = resume(&RIGHT, &mut room.context(), &mut pages, &records, &mut watch).expect("journal");
    assert_eq!(
        (report.end, watch.told.len(), pages.records.len()),
        (End::Done, 0, records.len())
    );
}

#[test]
fn an_interruption_on_resume_undoes_the_step_that_had_begun() {
    let room = Room::default();
    let records = died_at(&room, 2);
    let (mut pages, mut watch) = (
        Pages::default(),
        Bystander {
            interrupt: Some(0),
            ..Bystander::default()
        },
    );
    let report = resume(&RIGHT, &mut room.context(), &mut pages, &records, &mut watch).expect("journal");
    assert!(matches!(report.end, End::Undone { at, .. } if at == "look"));
    assert_eq!(watch.told, [(Undo, "look"), (Undo, "box")]);
    assert!(room.snapshot().is_empty());
}

#[test]
fn facts_are_known_again_after_a_restart() {
    const MADE: Table<Errand> = Table::with_way_back(&[
        Step {
            name: "name",
            run: |e| {
                e.made = Some(e.shelf.another_name());
                Ok(())
            },
            undo: nothing,
        },
        Step {
            name: "use",
            run: |e| e.shelf.put(e.made.as_deref().ok_or(Fail::new("no_name", ""))?, "used"),
            undo: |e| e.made.as_deref().map_or(Ok(()), |made| e.shelf.take(made)),
        },
    ]);
    let room = Room::default();
    let mut pages = Pages {
        refuse: Some(2),
        ..Pages::default()
    };
    run(&MADE, &mut room.context(), &mut pages, &mut Bystander::default()).expect_err("refused");
    let records = pages.records.clone();
    pages.refuse = None;
    let mut context = room.context();
    resume(&MADE, &mut context, &mut pages, &records, &mut Bystander::default()).expect("journal");
    assert_eq!(context.made.as_deref(), Some("id1"));
    assert_eq!(room.snapshot().into_keys().collect::<Vec<_>>(), ["id1"]);
}

#[test]
fn another_table_is_stuck_and_writes_nothing() {
    const RENAMED: Step<Errand> = Step { name: "chest", ..BOX };
    for table in [
        Table::with_way_back(&[BOX, LABEL, LOOK]),
        Table::with_way_back(&[BOX, LOOK]),
        Table::with_way_back(&[RENAMED, LOOK, LABEL]),
        Table::with_way_back(&[BOX, LOOK, LABEL, LOOK]),
    ] {
        let room = Room::default();
        let records = died_at(&room, 2);
        let (before, mut pages, mut watch) = (room.snapshot(), Pages::default(), Bystander::default());
        let report = resume(&table, &mut room.context(), &mut pages, &records, &mut watch).expect("journal");
        assert!(matches!(report.end, End::Stuck { undo: None, error, .. } if error.code == FLOW_CHANGED));
        assert_eq!((pages.records.len(), watch.told.len(), room.snapshot()), (0, 0, before));
        let report = resume(&RIGHT, &mut room.context(), &mut pages, &records, &mut watch).expect("journal");
        assert_eq!(report.end, End::Done, "the right build can still finish it");
    }
}

#[test]
fn facts_of_another_shape_are_stuck() {
    let room = Room::default();
    let mut records = died_at(&room, 2);
    records[1].facts = serde_json::json!({ "made": 1 });
    let (mut pages, mut watch) = (Pages::default(), Bystander::default());
    let report = resume(&RIGHT, &mut room.context(), &mut pages, &records, &mut watch).expect("journal");
    assert!(matches!(report.end, End::Stuck { undo: None, error, .. } if error.code == FLOW_CHANGED));
    assert!(pages.records.is_empty());
}

#[test]
fn records_survive_json() {
    let room = Room::default();
    for record in died_at(&room, 3) {
        let text = serde_json::to_string(&record).expect("JSON");
        assert_eq!(serde_json::from_str::<Record>(&text).expect("same type"), record);
    }
    let first = &died_at(&room, 1)[0];
    assert_eq!(
        first.next,
        Next::Begin {
            way: Run,
            at: 0,
            step: "box".into()
        }
    );
    assert_eq!(
        first.table.as_deref(),
        Some(&["box", "look", "label"].map(String::from)[..])
    );
}
