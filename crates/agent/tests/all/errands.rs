//! What the agent does for its executor in the network, and what it refuses to: hosts that lie, lead elsewhere or never
//! end, and names that lead into a private network.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::{LOCATION, RANGE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use model::digest::Sha256;
use model::socket::{FromExecutor, WantedImage};
use tokio::net::TcpListener;
use wire::serve::{Limits, serve};
use wire::stop::Stop;
use wire::tls::server_config;

use crate::journal::Journal;
use crate::pki::Ca;
use crate::walk::{Agent, Town};

/// Never to be seen in anything that we say.
const SECRET: &str = "what the metadata service told";
const SIZE: usize = 3_000_000;

fn image() -> Vec<u8> {
    (0..SIZE).map(|n| (n % 251) as u8).collect()
}

/// A host of images, good and bad.
struct Host {
    journal: Journal,
    port: u16,
    stop: Stop,
}

impl Host {
    async fn start(town: &Town) -> Self {
        let (ca, journal) = (Ca::new("images"), Journal::default());
        std::fs::write(town.place.path().join("ca.pem"), ca.pem()).expect("written");
        let (chain, key) = ca.server();
        let tls = server_config(chain, key, None).expect("server");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let port = listener.local_addr().expect("address").port();
        let stop = Stop::new();
        let router = routes(&journal);
        tokio::spawn(serve(listener, Some(tls), router, Limits::default(), stop.clone()));
        Self { journal, port, stop }
    }

    fn wanted(&self, name: &str, path: &str, more: &[&str]) -> FromExecutor {
        let host = format!("{name}:{}", self.port);
        let mut hosts: Vec<String> = more.iter().map(ToString::to_string).collect();
        let url = Some(format!("https://{host}/{path}"));
        hosts.push(host);
        let image = WantedImage {
            sha256: Sha256::of(&image()),
            size_bytes: SIZE as u64,
            url,
            hosts,
        };
        FromExecutor::ImageWanted { image }
    }
}

fn routes(journal: &Journal) -> Router {
    let note = |what: &'static str| {
        let journal = journal.clone();
        move || journal.note(what)
    };
    let (good, moved, endless, trickling, whole, longer, lying) = (
        note("good"),
        note("moved"),
        note("endless"),
        note("trickling"),
        note("whole"),
        note("longer"),
        note("lying"),
    );
    Router::new()
        .route(
            "/good",
            get(async move |headers: HeaderMap| {
                good();
                let range = headers
                    .get(RANGE)
                    .and_then(|range| range.to_str().ok())
                    .expect("a range");
                let (from, to) = range
                    .strip_prefix("bytes=")
                    .and_then(|range| range.split_once('-'))
                    .expect("a range");
                let (from, to): (usize, usize) = (from.parse().expect("a number"), to.parse().expect("a number"));
                (StatusCode::PARTIAL_CONTENT, image()[from..=to].to_vec())
            }),
        )
        .route(
            "/moved",
            get(async move || {
                moved();
                (StatusCode::FOUND, [(LOCATION, "https://169.254.169.254/")], SECRET).into_response()
            }),
        )
        .route(
            "/endless",
            get(async move || {
                endless();
                let for_ever =
                    futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[7; 4096])));
                (StatusCode::PARTIAL_CONTENT, Body::from_stream(for_ever))
            }),
        )
        .route(
            "/trickling",
            get(async move || {
                trickling();
                (StatusCode::PARTIAL_CONTENT, vec![7])
            }),
        )
        .route(
            "/whole",
            get(async move || {
                whole();
                image()
            }),
        )
        .route(
            "/longer",
            get(async move || {
                longer();
                (StatusCode::PARTIAL_CONTENT, vec![7; 2 << 20])
            }),
        )
        .route(
            "/lying",
            get(async move || {
                lying();
                (StatusCode::NOT_FOUND, SECRET)
            }),
        )
}

async fn enrolled() -> (Town, Host) {
    let town = Town::new().await;
    let host = Host::start(&town).await;
    (town, host)
}

fn begin(town: &Town) -> Agent {
    town.hand_over(&town.control.token());
    town.start()
}

#[tokio::test]
async fn an_image_comes_piece_by_piece_from_a_host_that_policy_names() {
    let (town, host) = enrolled().await;
    town.executor.wants(host.wanted("127.0.0.1", "good", &["127.0.0.1"]));
    let agent = begin(&town);
    let sha256 = Sha256::of(&image());
    town.executor.journal.until(&format!("image {sha256}"), 1).await;
    assert_eq!(host.journal.count("good"), 2, "two pieces");
    let all = format!("image moved {SIZE}");
    assert_eq!(town.executor.journal.count(&all), 1, "and it was told that all is here");
    let staged = town.place.path().join(format!("agent/images/{sha256}"));
    assert_eq!(std::fs::read(&staged).expect("there until it is settled"), image());
    town.executor.wants(FromExecutor::ImageSettled { sha256 });
    agent.end().await;
    // The next agent hears that it is settled.
    let agent = town.start();
    let gone = async {
        while staged.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), gone)
        .await
        .expect("gone");
    agent.end().await;
    host.stop.trigger();
}

#[tokio::test]
async fn abuse_19_private_networks_are_not_asked_for_images() {
    let (town, host) = enrolled().await;
    // The name is allowed; where it leads is not.
    town.executor.wants(host.wanted("localhost", "good", &[]));
    let agent = begin(&town);
    town.executor
        .journal
        .until("image failed image_source_refused", 1)
        .await;
    assert_eq!(host.journal.count(""), 0, "nobody was even asked");
    agent.end().await;
    host.stop.trigger();
}

#[tokio::test]
async fn abuse_19_hosts_that_lead_elsewhere_lie_or_never_end_are_refused() {
    for path in ["moved", "endless", "trickling", "whole", "longer", "lying"] {
        let (town, host) = enrolled().await;
        town.executor.wants(match path {
            // The last piece is smaller than what comes.
            "longer" => shorter(host.wanted("127.0.0.1", path, &["127.0.0.1"])),
            _ => host.wanted("127.0.0.1", path, &["127.0.0.1"]),
        });
        let agent = begin(&town);
        town.executor
            .journal
            .until("image failed image_source_refused", 1)
            .await;
        assert!(host.journal.count(path) > 0, "{path} was asked");
        let said = town.executor.journal.lines("image failed");
        assert!(said.iter().all(|line| !line.contains(SECRET)), "{said:?}");
        agent.end().await;
        host.stop.trigger();
    }
}

fn shorter(wanted: FromExecutor) -> FromExecutor {
    match wanted {
        FromExecutor::ImageWanted { mut image } => {
            image.size_bytes = 1000;
            FromExecutor::ImageWanted { image }
        }
        other => other,
    }
}

#[tokio::test]
async fn an_image_that_stops_coming_is_given_up_and_what_came_is_kept() {
    let (town, host) = enrolled().await;
    let sha256 = Sha256::of(&image());
    host.stop.trigger();
    let dir = town.place.path().join("agent/images");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join(sha256.to_string()), &image()[..1000]).expect("of an earlier try");
    // Nobody listens there any more.
    let gone = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("bound")
        .local_addr()
        .expect("address");
    let host = Host {
        port: gone.port(),
        ..host
    };
    town.executor.wants(host.wanted("127.0.0.1", "good", &["127.0.0.1"]));
    let agent = begin(&town);
    town.executor
        .journal
        .until("image failed image_unavailable: 1000 of", 1)
        .await;
    assert_eq!(
        std::fs::metadata(dir.join(sha256.to_string())).expect("kept").len(),
        1000
    );
    agent.end().await;
}

#[tokio::test]
async fn a_guest_is_connected_to_on_its_ssh_port_only() {
    let address = std::net::Ipv4Addr::new(127, 83, rand::random(), rand::random_range(1..=254));
    let Ok(guest) = TcpListener::bind((address, 22)).await else {
        println!("not run: this user may not listen on port 22");
        return;
    };
    let (town, host) = enrolled().await;
    let vm: model::value::Name = "ada-vm".parse().expect("a name");
    let wanted = |want, address| FromExecutor::GuestWanted {
        want,
        vm: vm.clone(),
        address,
    };
    town.executor.wants(wanted(5, address));
    let agent = begin(&town);
    guest.accept().await.expect("somebody comes");
    town.executor.journal.until("guest 5", 1).await;
    agent.end().await;
    drop(guest);
    town.executor.wants(wanted(6, address));
    let agent = town.start();
    town.executor.journal.until("guest failed 6", 1).await;
    agent.end().await;
    host.stop.trigger();
}
