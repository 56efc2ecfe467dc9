//! Many who want the same few slots: every slot has one owner at a time, by the word of those who were told and by the
//! rows that are left.

use std::collections::HashMap;
use std::sync::Mutex;

use base::testing::eventually;
use fleet::Fleet;
use fleet::slot::lease;
use model::id::AllocationId;
use sqlx::PgPool;

use super::renter::{GPU, Renter};
use super::*;

const TENANTS: u32 = 16;
const TURNS: u32 = 63;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_reservations_of_eight_slots_never_meet() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    puppet.in_service(&town).await;
    let fleet = town.fleet().await;
    let owners: Mutex<HashMap<SlotId, AllocationId>> = Mutex::default();
    let (mut given, mut refused) = (0, 0);
    let tenant = async |number: u32| {
        let mut counts = (0u32, 0u32);
        for turn in 0..TURNS {
            let renter = Renter::new(&fleet);
            let wanted = 1 + (number + turn) % 3;
            match renter.reserves(wanted).await {
                Ok(slots) => {
                    counts.0 += 1;
                    for slot in &slots {
                        let before = owners.lock().expect("whole").insert(slot.slot_id, renter.allocation);
                        assert_eq!(before, None, "{} was somebody's", slot.slot_id);
                    }
                    tokio::task::yield_now().await;
                    for slot in &slots {
                        owners.lock().expect("whole").remove(&slot.slot_id);
                    }
                    assert_eq!(renter.gives_back().await, slots.len());
                }
                Err(Code::SlotUnavailable) => counts.1 += 1,
                Err(other) => panic!("{other}"),
            }
        }
        counts
    };
    for counts in futures_util::future::join_all((0..TENANTS).map(tenant)).await {
        given += counts.0;
        refused += counts.1;
    }
    assert_eq!(given + refused, TENANTS * TURNS);
    assert!(given >= 50 && refused >= 50, "given {given}, refused {refused}");
    let pool = fleet.app.db.read();
    let (leases, open): (i64, i64) =
        sqlx::query_as("select count(*), count(*) filter (where ended_at is null) from lease")
            .fetch_one(pool)
            .await
            .expect("readable");
    assert_eq!(open, 0, "of {leases} leases");
    assert!(leases >= i64::from(given));
    assert_eq!(miscounted(pool).await, 0);
    assert_eq!(states(&slots(&town, puppet.id()).await), [SlotState::Free; 8]);
    town.end().await;
}

/// Nodes and GPUs of which `node_room` has another number than there are slots to be had.
async fn miscounted(pool: &PgPool) -> i64 {
    sqlx::query_scalar(
        "select count(*) from (
             select node_id, lower(gpu ->> 'model') as gpu_model, count(*)::int as free from slot
             where state = 'free' and fault is null group by 1, 2) there
         full join (select * from node_room where free > 0) counted using (node_id, gpu_model, free)
         where there.node_id is null or counted.node_id is null",
    )
    .fetch_one(pool)
    .await
    .expect("a count")
}

/// The count follows whatever happens to a slot, and nobody but the database writes it.
#[tokio::test]
async fn what_a_node_has_to_give_is_counted_by_the_database() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    puppet.in_service(&town).await;
    let fleet = town.fleet().await;
    let app = fleet.app.db.bookkeeping();
    let free = async || -> Vec<i32> {
        let counts = sqlx::query_scalar("select free from node_room order by gpu_model").fetch_all(app);
        counts.await.expect("readable")
    };
    assert_eq!(free().await, [8]);
    let steps = [
        (
            "update slot set fault = 'x', fault_detail = 'y', fault_since = now() where slot_index < 3",
            vec![5],
        ),
        (
            "update slot set gpu = jsonb_set(gpu, '{model}', '\"A\"') where slot_index in (2, 3)",
            vec![1, 4],
        ),
        (
            "update slot set fault = null, fault_detail = null, fault_since = null",
            vec![2, 6],
        ),
        ("update slot set blockers = '[]', version = version + 1", vec![2, 6]),
    ];
    for (statement, counts) in steps {
        sqlx::query(statement).execute(app).await.expect(statement);
        assert_eq!(free().await, counts, "{statement}");
        assert_eq!(miscounted(app).await, 0, "{statement}");
    }
    for statement in [
        "update node_room set free = 9",
        "delete from node_room",
        "insert into node_room select * from node_room",
        // Nor through a table of one's own, on which the same function would count.
        "create temporary table mine (like slot);
         create trigger counts after insert on mine for each row execute function slot_changes_room()",
    ] {
        let refused = sqlx::raw_sql(statement).execute(app).await.expect_err(statement);
        let code = refused
            .as_database_error()
            .and_then(|error| error.code().map(|code| code.into_owned()));
        assert_eq!(code.as_deref(), Some("42501"), "{statement}: {refused}");
    }
    town.end().await;
}

/// Two who wait for each other's nodes would wait for ever: whoever finds a node empty lets go of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_had_nothing_is_not_held() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let all = puppet.in_service(&town).await.len() as u32;
    let fleet = town.fleet().await;
    let wanted = |count| lease::Wanted {
        count,
        gpu_model: GPU,
        ..lease::Wanted::default()
    };
    let (first, second) = (Renter::new(&fleet), Renter::new(&fleet));
    let mut taken = first.change("allocation.create").await;
    let slots = lease::reserve(&mut taken, first.allocation, &wanted(all)).await;
    assert_eq!(slots.expect("all of them").len() as u32, all);
    let mut looked = second.change("allocation.create").await;
    let looking = async {
        lease::reserve(&mut looked, second.allocation, &wanted(1))
            .await
            .map(drop)
    };
    let committing = async {
        somebody_waits(&fleet).await;
        taken.commit().await.expect("commits");
    };
    let (found, ()) = tokio::join!(looking, committing);
    assert_eq!(found.expect_err("nothing is left").code, Code::SlotUnavailable);
    sqlx::query("select from node where id = $1 for update nowait")
        .bind(puppet.id().uuid())
        .fetch_one(fleet.app.db.bookkeeping())
        .await
        .expect("nobody holds it, though the change is still open");
    looked.rollback().await.expect("rolled back");
    town.end().await;
}

/// What was found at first may be another's by the time it is our turn; meanwhile others have given something back.
#[tokio::test(flavor = "multi_thread")]
async fn who_was_too_late_looks_again() {
    let town = town().await;
    let puppets = [Puppet::of_slices(&town, "a").await, Puppet::of_slices(&town, "b").await];
    let mut all = 0;
    for puppet in &puppets {
        all = puppet.in_service(&town).await.len() as u32;
    }
    let fleet = town.fleet().await;
    let (before, first, second) = (Renter::new(&fleet), Renter::new(&fleet), Renter::new(&fleet));
    before.reserves(all).await.expect("one node");
    let mut taken = first.change("allocation.create").await;
    let wanted = |count| lease::Wanted {
        count,
        gpu_model: GPU,
        ..lease::Wanted::default()
    };
    let slots = lease::reserve(&mut taken, first.allocation, &wanted(all)).await;
    assert_eq!(slots.expect("the other node").len() as u32, all);
    let others = async {
        somebody_waits(&fleet).await;
        assert_eq!(before.gives_back().await as u32, all);
        taken.commit().await.expect("commits");
    };
    let (found, ()) = tokio::join!(second.reserves(1), others);
    assert_eq!(found.expect("there is room by now").len(), 1);
    town.end().await;
}

async fn somebody_waits(fleet: &Fleet) {
    eventually("somebody waits for the node", async || {
        let waiting: i64 = sqlx::query_scalar(
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
        )
        .fetch_one(fleet.app.db.read())
        .await
        .expect("a count");
        (waiting == 1).then_some(()).ok_or(waiting)
    })
    .await;
}

/// Slots of one wish are close together, and small wishes leave the large groups whole.
#[tokio::test]
async fn slots_are_packed_by_root_complex() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    puppet.in_service(&town).await;
    let fleet = town.fleet().await;
    // One of the first, two of the second, five of the third.
    let cut = sqlx::query(
        "update slot set gpu = jsonb_set(gpu, '{root_complex}', to_jsonb(
             case when slot_index = 0 then 'pci0000:30' when slot_index < 3 then 'pci0000:20' else 'pci0000:10' end))",
    );
    cut.execute(fleet.app.db.bookkeeping()).await.expect("written");
    let wishes: [(u32, &[u32]); 5] = [
        (1, &[0]),
        (2, &[1, 2]),
        (3, &[3, 4, 5]),
        (5, &[3, 4, 5, 6, 7]),
        // No complex has six: the largest, and of the next as few as it takes.
        (6, &[1, 3, 4, 5, 6, 7]),
    ];
    for (count, expected) in wishes {
        let renter = Renter::new(&fleet);
        let slots = renter.reserves(count).await.expect("there is room");
        let indexes: Vec<u32> = slots.iter().map(|slot| slot.slot_index).collect();
        assert_eq!(indexes, expected, "of a wish for {count}");
        assert_eq!(renter.gives_back().await, expected.len());
    }
    let too_many = Renter::new(&fleet).reserves(9).await;
    assert_eq!(too_many.expect_err("there are eight"), Code::SlotUnavailable);
    town.end().await;
}
