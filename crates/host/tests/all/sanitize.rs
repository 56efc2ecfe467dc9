//! A sanitize that is under way when somebody comes: it goes on by itself, and is waited for.

use host::Markers;
use model::proof::WipeMethod;
use model::signal::Code;

use crate::loops::{Loop, nonce};
use crate::tree::on_a_tree;

const SIZE: u64 = 8 << 20;

fn asked(disk: &Loop) -> usize {
    let told = disk.told();
    told.lines().filter(|line| line.starts_with("sanitize-log")).count()
}

/// How each was begun.
fn began(disk: &Loop) -> Vec<String> {
    let told = disk.told();
    let begun = told
        .lines()
        .filter_map(|line| line.strip_prefix("sanitize /dev/nvme9 "));
    begun.map(str::to_owned).collect()
}

#[test]
fn one_that_an_earlier_life_began_is_waited_for_before_anything_is_written() {
    on_a_tree(|_| {
        let disk = Loop::new("earlier", SIZE);
        disk.with_tool(r#"{"nsid":1}"#);
        // Under way, silent for once, under way, done.
        disk.put("logs", "2\nfails\n258\n257\n");
        let open = disk.open().expect("free");
        let markers = Markers::new(nonce(), SIZE).expect("room");
        assert_eq!(open.plant(&markers).expect("planted"), markers.count());
        assert_eq!(asked(&disk), 4);
    });
}

#[test]
fn a_controller_that_never_says_is_written_to_and_not_believed() {
    on_a_tree(|_| {
        let disk = Loop::new("silent", SIZE);
        disk.with_tool(r#"{"nsid":1}"#);
        disk.put("logs", &"fails\n".repeat(100));
        let open = disk.open().expect("free");
        let markers = Markers::new(nonce(), SIZE).expect("room");
        open.plant(&markers).expect("planted all the same");
        let error = open
            .wipe(WipeMethod::SanitizeCrypto)
            .expect_err("nobody said that it is done");
        assert_eq!(error.code(), Code::WipeUnproved);
        assert_eq!(asked(&disk), 10);
        open.wipe(WipeMethod::FormatCrypto)
            .expect("the next method needs no log");
    });
}

#[test]
fn a_sanitize_of_our_own_may_be_silent_now_and_then() {
    on_a_tree(|_| {
        let disk = Loop::new("own", SIZE);
        disk.with_tool(r#"{"nsid":1}"#);
        disk.put("logs", "fails\nfails\n2\nfails\n1\n");
        let open = disk.open().expect("free");
        let wiped = open.wipe(WipeMethod::SanitizeCrypto).expect("done at last");
        assert_eq!((wiped.method, wiped.tool_rc), (WipeMethod::SanitizeCrypto, 0));
        disk.put("told", "");
        disk.put("logs", "2\n3\n1\n");
        open.wipe(WipeMethod::SanitizeCrypto).expect("at the second try");
        assert_eq!(began(&disk), ["--sanact=4"; 2]);
        disk.put("told", "");
        disk.put("logs", "2\n3\n2\n3\n");
        let error = open.wipe(WipeMethod::SanitizeCrypto).expect_err("it failed twice");
        assert!(error.to_string().contains("status 3"), "{error}");
        assert_eq!(began(&disk), ["--sanact=4"; 2]);
    });
}

/// Until another one has succeeded such a disk may refuse whatever is written to it.
#[test]
fn one_that_has_failed_is_followed_by_another_before_anything_is_written() {
    on_a_tree(|_| {
        let disk = Loop::new("failed", SIZE);
        disk.with_tool(r#"{"nsid":1}"#);
        disk.put("sanicap", "3");
        let open = disk.open().expect("free");
        let markers = Markers::new(nonce(), SIZE).expect("room");
        disk.put("logs", "259\n2\n257\n");
        open.plant(&markers).expect("planted");
        assert_eq!(began(&disk), ["--sanact=4"]);
        // What the one cannot, the other may.
        disk.put("told", "");
        disk.put("logs", "3\n3\n1\n");
        open.plant(&markers).expect("planted");
        assert_eq!(began(&disk), ["--sanact=4", "--sanact=2"]);
        // None can: writing will show what comes of it.
        disk.put("told", "");
        disk.put("logs", "3\n3\n3\n");
        assert_eq!(open.plant(&markers).expect("planted all the same"), markers.count());
        assert_eq!(began(&disk), ["--sanact=4", "--sanact=2"]);
    });
}

#[test]
fn a_controller_that_has_just_woken_up_may_answer_late() {
    on_a_tree(|_| {
        let disk = Loop::new("woken", SIZE);
        disk.with_tool(r#"{"nsid":1}"#);
        disk.put("silent", "id-ctrl\nid-ctrl\nlist-ns\n");
        let offered = disk.open().expect("free").wipe_methods().expect("looked");
        assert!(offered.contains(&WipeMethod::SanitizeCrypto), "{offered:?}");
        // One that never answers is not asked for ever, and zeros do.
        disk.put("told", "");
        disk.put("silent", &"id-ctrl\n".repeat(100));
        let offered = disk.open().expect("free").wipe_methods().expect("looked");
        assert!(
            !offered.iter().any(|method| method.reaches_the_controller()),
            "{offered:?}"
        );
        assert_eq!(disk.told().lines().count(), 5);
    });
}
