//! The executor may come and go; the agent's end of the socket stays.

use std::time::Duration;

use agent::Pace;
use agent::executor::{Executor, ExecutorError, Verdict};
use model::dsse;
use model::id::TaskId;
use model::key::SigningKey;
use model::node_api::OfferedTask;
use model::socket::FromAgent;
use model::time::Timestamp;
use wire::stop::Stop;

use crate::executor as played;
use crate::place::Place;

fn brisk() -> Pace {
    let ms = Duration::from_millis;
    Pace {
        executor_retry: (ms(5), ms(20)),
        executor_answer: Duration::from_secs(10),
        ..Pace::default()
    }
}

fn offered() -> OfferedTask {
    let envelope = dsse::sign("test/task", b"{}", &[&SigningKey::generate()]);
    OfferedTask {
        task_id: TaskId::new(),
        fence: 4,
        lease_s: 60,
        envelope,
    }
}

#[tokio::test]
async fn a_restarted_executor_is_found_again_and_says_its_results_again() {
    let place = Place::new();
    let played = played::Executor::new(place.path());
    let (executor, mut arrivals) = Executor::new(played.path.clone(), &brisk());
    let stop = Stop::new();
    let link = {
        let (executor, stop) = (executor.clone(), stop.clone());
        tokio::spawn(async move { executor.run(&brisk(), &stop).await })
    };
    // Not there yet: an error at once, not a wait.
    assert!(matches!(executor.hello().await, Err(ExecutorError::Unreachable)));

    let running = played.start();
    executor.connected().await;
    let task = offered();
    let task_id = task.task_id;
    let verdict = executor.offer(task, Timestamp::from_millis(0)).await.expect("answered");
    assert_eq!(verdict, Verdict::Taken);
    assert_eq!(arrivals.recv().await.map(|done| done.task_id), Some(task_id));

    drop(running);
    while executor.is_connected() {
        tokio::task::yield_now().await;
    }
    assert!(executor.state().is_none());
    assert!(executor.tell(FromAgent::Acked { task_id, status: 200 }).is_err());

    let _again = played.start();
    // Unacknowledged, hence sent again without being asked twice.
    let done = arrivals.recv().await.expect("again");
    assert_eq!((done.task_id, done.fence), (task_id, 4));
    executor.connected().await;
    executor.tell(FromAgent::Acked { task_id, status: 200 }).expect("told");
    played.journal.until(&format!("acked {task_id} 200"), 1).await;
    assert_eq!(executor.hello().await.expect("state").results_pending, 0);

    stop.trigger();
    link.await.expect("ends");
}

#[tokio::test]
async fn a_question_that_the_executor_dies_on_is_an_error() {
    let place = Place::new();
    // It accepts, and never says a word.
    let path = place.path().join("mute.sock");
    let listener = tokio::net::UnixListener::bind(&path).expect("listen");
    let (executor, _arrivals) = Executor::new(path, &brisk());
    let stop = Stop::new();
    let link = {
        let (executor, stop) = (executor.clone(), stop.clone());
        tokio::spawn(async move { executor.run(&brisk(), &stop).await })
    };
    let (mute, _) = listener.accept().await.expect("connected");
    let asking = tokio::spawn(async move { executor.hello().await });
    // Two openings of an object in a hello, one in the call for results, two in the question; then it dies.
    let mut heard = 0;
    while heard < 5 {
        mute.readable().await.expect("readable");
        let mut buffer = [0; 4096];
        match mute.try_read(&mut buffer) {
            Ok(0) => panic!("the agent hung up"),
            Ok(n) => heard += buffer[..n].windows(2).filter(|pair| *pair == b"{\"").count(),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    drop((mute, listener));
    assert!(matches!(asking.await.expect("task"), Err(ExecutorError::Unreachable)));
    stop.trigger();
    link.await.expect("ends");
}
