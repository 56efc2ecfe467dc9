//! The bad network on trial: each thing that it can be told to do, seen from both ends.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::testing::eventually;
use dev::dice::Dice;
use dev::proxy::{Policy, Proxy, Side, Speech};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use wire::stop::Stop;

/// One word at a time.
const WORD: usize = 5;

/// A server that answers every word with the same word, and counts them.
struct Scene {
    proxy: Proxy,
    heard: Arc<AtomicU64>,
    stop: Stop,
    tracker: TaskTracker,
}

impl Scene {
    async fn new() -> Self {
        let (stop, tracker) = (Stop::new(), TaskTracker::new());
        let heard = Arc::new(AtomicU64::new(0));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let server = listener.local_addr().expect("an address");
        tracker.spawn(echo(listener, heard.clone(), stop.clone()));
        // Nobody listens at the first: whoever does is found.
        let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let targets = Arc::new(move || vec![nobody, server]);
        let proxy = Proxy::start(Speech::Plain, targets, Dice::new(7), &tracker, &stop)
            .await
            .expect("a port");
        Self {
            proxy,
            heard,
            stop,
            tracker,
        }
    }

    async fn dial(&self) -> TcpStream {
        TcpStream::connect(self.proxy.address).await.expect("it listens")
    }

    fn heard(&self) -> u64 {
        self.heard.load(Ordering::SeqCst)
    }

    async fn end(self) {
        self.stop.trigger();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

async fn echo(listener: TcpListener, heard: Arc<AtomicU64>, stop: Stop) {
    while let Some(accepted) = stop.or(listener.accept()).await {
        let Ok((mut stream, _)) = accepted else { continue };
        let (heard, stop) = (heard.clone(), stop.clone());
        tokio::spawn(async move {
            let mut word = [0; WORD];
            while let Some(Ok(_)) = stop.or(stream.read_exact(&mut word)).await {
                heard.fetch_add(1, Ordering::SeqCst);
                if stream.write_all(&word).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// One word there and back.
async fn say(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"hello").await?;
    let mut word = [0; WORD];
    stream.read_exact(&mut word).await?;
    assert_eq!(&word, b"hello");
    Ok(())
}

fn is_reset(ended: std::io::Result<()>) -> bool {
    ended.is_err_and(|error| matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe))
}

#[tokio::test]
async fn what_passes_passes_and_a_cut_resets_what_is_there() {
    let scene = Scene::new().await;
    let mut stream = scene.dial().await;
    for _ in 0..3 {
        say(&mut stream).await.expect("passed");
    }
    scene.proxy.cut();
    assert!(is_reset(stream.read_u8().await.map(drop)));
    // The next one is as good as the first was.
    say(&mut scene.dial().await).await.expect("passed");
    let counts = scene.proxy.counts();
    assert_eq!(
        (counts.connections, counts.resets, counts.requests),
        (2, 1, 0),
        "{counts:?}"
    );
    scene.end().await;
}

#[tokio::test]
async fn a_refusal_meets_new_connections_only() {
    let scene = Scene::new().await;
    let mut old = scene.dial().await;
    say(&mut old).await.expect("passed");
    scene.proxy.set(Policy::Refuse);
    assert!(say(&mut scene.dial().await).await.is_err());
    say(&mut old).await.expect("it was there before");
    assert_eq!(scene.proxy.counts().refused, 1);
    scene.end().await;
}

#[tokio::test]
async fn a_black_hole_says_nothing_and_closes_nothing() {
    let scene = Scene::new().await;
    let mut stream = scene.dial().await;
    say(&mut stream).await.expect("passed");
    scene.proxy.set(Policy::BlackHole);
    stream.write_all(b"hello").await.expect("it is taken");
    let silent = timeout(Duration::from_millis(200), stream.read_u8()).await;
    assert!(silent.is_err(), "{silent:?}");
    assert_eq!(scene.heard(), 1);
    // What fell in is gone; the rest goes on over the same connection.
    scene.proxy.set(Policy::Pass);
    say(&mut stream).await.expect("passed");
    scene.end().await;
}

#[tokio::test]
async fn a_delay_is_kept_both_ways() {
    let scene = Scene::new().await;
    let mut stream = scene.dial().await;
    let late = Duration::from_millis(60);
    scene.proxy.set(Policy::Delay(late));
    let began = Instant::now();
    say(&mut stream).await.expect("late, but there");
    assert!(began.elapsed() >= late * 2, "{:?}", began.elapsed());
    scene.end().await;
}

#[tokio::test]
async fn a_reset_comes_after_so_many_bytes_of_one_side() {
    for (from, arrive) in [(Side::Client, 2), (Side::Server, 3)] {
        let scene = Scene::new().await;
        let mut stream = scene.dial().await;
        // Two words and a bit.
        scene.proxy.set(Policy::ResetAfter { from, bytes: 12 });
        for _ in 0..2 {
            say(&mut stream).await.expect("not yet");
        }
        assert!(say(&mut stream).await.is_err());
        assert_eq!(scene.heard(), arrive, "{from:?}");
        eventually("it is counted", async || match scene.proxy.counts().resets {
            1 => Ok(()),
            other => Err(other),
        })
        .await;
        scene.end().await;
    }
}

#[tokio::test]
async fn a_lost_request_does_nothing_and_a_lost_answer_tells_nothing() {
    for (requests_pct, answers_pct, heard) in [(100, 0, 0), (0, 100, 1)] {
        let scene = Scene::new().await;
        scene.proxy.set(Policy::Lose {
            requests_pct,
            answers_pct,
        });
        let lost = say(&mut scene.dial().await).await;
        assert!(lost.is_err());
        assert_eq!(scene.heard(), heard);
        let counts = scene.proxy.counts();
        let expected = (1, 1 - heard, heard);
        assert_eq!((counts.requests, counts.lost_requests, counts.lost_answers), expected);
        scene.end().await;
    }
}

#[tokio::test]
async fn of_many_on_kept_connections_the_wanted_share_is_lost() {
    const WORDS: u64 = 600;
    let scene = Scene::new().await;
    scene.proxy.set(Policy::Lose {
        requests_pct: 10,
        answers_pct: 10,
    });
    let mut stream = scene.dial().await;
    let mut answered = 0;
    for _ in 0..WORDS {
        match say(&mut stream).await {
            Ok(()) => answered += 1,
            Err(_) => stream = scene.dial().await,
        }
    }
    let counts = scene.proxy.counts();
    assert_eq!(counts.requests, WORDS, "every word was seen as a request of its own");
    assert_eq!(scene.heard(), WORDS - counts.lost_requests);
    assert_eq!(counts.answers, scene.heard());
    assert_eq!(answered, counts.answers - counts.lost_answers);
    for pct in [counts.lost_requests_pct(), counts.lost_answers_pct()] {
        assert!((5.0..15.0).contains(&pct), "{counts:?}");
    }
    scene.end().await;
}
