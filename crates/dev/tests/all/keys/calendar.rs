//! Months pass. Keys are replaced after 30 days and the manifest is signed anew after 60, by nobody; where that cannot
//! be, it is said in time, and in the end nothing that changes a host is signed.

use base::Clock;
use base::testing::eventually;
use dev::key_rotations::Guest;
use dev::town::Town;
use fleet::trust;
use model::signal::Code;
use model::trust::{KeyStatus, Purpose};

use super::brisk;
use crate::EXE;
use crate::abuse::connect;
use crate::puppet::Puppet;

const DAY_MS: i64 = 86_400_000;

async fn until<T: std::fmt::Debug>(town: &Town, what: &str, good: impl Fn(&model::api::TrustView) -> Result<(), T>) {
    let fleet = town.fleet().await;
    eventually(what, async || {
        trust::follow(&fleet).await.map_err(|error| format!("{error:#}"))?;
        let view = trust::view(&fleet).await.map_err(|error| error.message)?;
        good(&view).map_err(|seen| format!("{seen:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_manifest_are_renewed_by_themselves_and_an_end_is_announced() {
    let clock = Clock::fixed(Clock::real().now());
    let town = Town::at(EXE, clock.clone(), brisk).await;
    let puppet = Puppet::awake(&town, "calendar").await;
    let first = trust::view(&town.fleet().await).await.expect("a view");
    let active = super::key_of(&first, Purpose::Slice, KeyStatus::Active);
    assert!(first.warnings.is_empty(), "{first:?}");

    clock.advance(31 * DAY_MS);
    until(&town, "the standby has taken over", |view| {
        let key = view.keys.iter().find(|key| key.keyid == active).map(|key| key.status);
        match key {
            Some(KeyStatus::Retiring | KeyStatus::Retired) => Ok(()),
            other => Err(other),
        }
    })
    .await;

    // Without the manifest's key nobody can sign it anew; a month before the end somebody is told.
    let (key, aside) = (town.dir().join("keys/manifest.key"), town.dir().join("aside"));
    std::fs::rename(&key, &aside).expect("moved away");
    clock.advance(62 * DAY_MS);
    let told = |days: &'static str| {
        move |view: &model::api::TrustView| {
            let said = view.warnings.iter().any(|warning| warning.message.contains(days));
            if said { Ok(()) } else { Err(view.warnings.clone()) }
        }
    };
    until(&town, "the end is announced", told("the manifest ends in 2")).await;
    clock.advance(30 * DAY_MS);
    until(&town, "the end has come", told("the manifest is over")).await;
    let fleet = town.fleet().await;
    let guest = Guest::new("late", 20_001).expect("a guest");
    let refused = guest
        .ask(&fleet, puppet.id(), guest.leaves())
        .await
        .expect_err("refused");
    assert!(
        refused.to_string().contains(Code::ManifestExpired.as_str()),
        "{refused}"
    );
    let mut conn = connect(&town).await;
    let made: i64 = sqlx::query_scalar("select count(*) from task where task_type like 'allocation.%'")
        .fetch_one(&mut conn)
        .await
        .expect("a count");
    assert_eq!(made, 0, "nothing was signed");
    let actor = base::Actor::system("test");
    let mut change = fleet
        .app
        .db
        .change(&actor, "node.probe", puppet.id())
        .await
        .expect("a change");
    let probe = fleet::task::enqueue_probe(&fleet, &mut change, puppet.id()).await;
    assert!(
        probe.is_ok(),
        "looking is still allowed: {:?}",
        probe.err().map(|error| error.code)
    );
    drop(change);

    std::fs::rename(&aside, &key).expect("moved back");
    until(&town, "it is signed anew by itself", |view| match view.warnings.len() {
        0 => Ok(()),
        _ => Err(view.warnings.clone()),
    })
    .await;
    guest
        .ask(&fleet, puppet.id(), guest.leaves())
        .await
        .expect("signed again");
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_is_signed_anew_after_two_thirds_of_its_life() {
    let clock = Clock::fixed(Clock::real().now());
    let town = Town::at(EXE, clock.clone(), |config| {
        brisk(config);
        config.signing_key_life_s = 1000 * 86_400;
    })
    .await;
    let first = trust::view(&town.fleet().await).await.expect("a view");
    clock.advance(61 * DAY_MS);
    until(&town, "it is signed anew", |view| match view.manifest.version {
        2 if view.manifest.expires_at.since_ms(clock.now()) == 90 * DAY_MS => Ok(()),
        _ => Err(view.manifest.clone()),
    })
    .await;
    let after = trust::view(&town.fleet().await).await.expect("a view");
    let ids = |view: &model::api::TrustView| view.keys.iter().map(|key| key.keyid).collect::<Vec<_>>();
    assert_eq!(ids(&after), ids(&first), "with the same keys");
    town.end().await;
}
