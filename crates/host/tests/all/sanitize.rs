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
        disk.put("logs", "2\n3\n");
        let error = open.wipe(WipeMethod::SanitizeCrypto).expect_err("it failed");
        assert!(error.to_string().contains("status 3"), "{error}");
    });
}
