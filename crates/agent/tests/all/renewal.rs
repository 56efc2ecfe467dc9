//! When a certificate is due.

use std::time::Duration;

use agent::identity::Certificate;
use agent::renew::due;
use model::id::{InstallationId, NodeId};
use model::time::Timestamp;
use rcgen::{CertificateParams, KeyPair};
use wire::spiffe::Spiffe;

use crate::pki::Ca;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn certificate(ca: &Ca, life: Duration, received_at: Timestamp) -> Certificate {
    let key = KeyPair::generate().expect("key");
    let csr = CertificateParams::default()
        .serialize_request(&key)
        .expect("request")
        .pem()
        .expect("pem");
    let name = Spiffe::Node {
        installation: InstallationId::new(),
        node_id: NodeId::new(),
        epoch: 1,
    };
    Certificate {
        chain: ca.sign(&csr, &name, NOW, life),
        generation: 1,
        received_at,
    }
}

#[test]
fn half_the_life_give_or_take_a_tenth() {
    let ca = Ca::new("ca");
    let mut moments = Vec::new();
    for _ in 0..16 {
        let certificate = certificate(&ca, Duration::from_secs(86_400), NOW);
        let after_s = due(&certificate).since_ms(NOW) / 1000;
        assert!((38_880..=47_520).contains(&after_s), "{after_s}");
        // Asked again after a restart: the same moment, or restarts would put a renewal off for ever.
        assert_eq!(due(&certificate), due(&certificate));
        moments.push(after_s);
    }
    moments.sort_unstable();
    moments.dedup();
    assert!(
        moments.len() > 8,
        "a fleet enrolled in one minute must not renew in one: {moments:?}"
    );
}

#[test]
fn a_short_life_is_not_over_when_it_begins() {
    // Backdated by more than its own life, as in a rotation test.
    let certificate = certificate(&Ca::new("ca"), Duration::from_secs(30), NOW);
    let after_ms = due(&certificate).since_ms(NOW);
    assert!((13_500..=16_500).contains(&after_ms), "{after_ms}");
}

#[test]
fn a_wrong_clock_and_a_broken_chain_make_it_due() {
    let ca = Ca::new("ca");
    let late = certificate(&ca, Duration::from_secs(86_400), NOW.plus_s(10 * 86_400));
    assert!(due(&late) <= NOW.plus_s(86_400), "never after its end");
    let early = certificate(&ca, Duration::from_secs(86_400), Timestamp::from_millis(0));
    assert!(due(&early) >= NOW, "counted from its beginning at the earliest");
    let broken = Certificate {
        chain: "nonsense".to_owned(),
        ..late
    };
    assert_eq!(due(&broken), Timestamp::from_millis(0));
}
