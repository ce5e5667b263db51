//! Tests of the settings of a session.

use std::time::Duration;

use taskbridge_sdk::Level;

use super::Bench;
use taskbridge_core::clock::Clock;
use taskbridge_core::sessions::streams::{StreamEvent, Streams};
use taskbridge_core::sessions::{
    ClientTaskRecord, ClientTaskStatus, MAX_CLIENT_TASKS, MAX_POLLED_TASKS, QuestionMessage, SessionChange,
    SessionSettings,
};
use taskbridge_core::tasks::task::TaskId;

/// Changes a setting of the session `n`, which lasts for a minute.
async fn set(bench: &Bench, change: SessionChange) -> bool {
    let forget_after = bench.clock.now() + Duration::from_secs(60);
    bench.store.set("n", change, forget_after).await.expect("the store can be written").is_some()
}

async fn settings(bench: &Bench, nonce: &str) -> SessionSettings {
    bench.store.settings(nonce).await.expect("the store can be read").expect("the session was not ended")
}

pub async fn an_ended_session_is_not_found_until_it_is_forgotten(bench: &Bench) {
    let ended = async |nonce| bench.store.has_ended(nonce).await.expect("the store can be read");
    let forget_after = bench.clock.now() + Duration::from_secs(60);
    assert!(!ended("n").await);
    bench.store.end("n", forget_after).await.expect("a session can be ended");
    bench.store.end("n", forget_after).await.expect("and once more");
    assert!(ended("n").await);
    assert!(!ended("m").await);
    bench.clock.advance(Duration::from_secs(59));
    bench.store.purge(bench.clock.now(), 10).await.expect("the store can be written");
    assert!(ended("n").await);
    bench.clock.advance(Duration::from_secs(1));
    bench.store.purge(bench.clock.now(), 10).await.expect("the store can be written");
    assert!(!ended("n").await);
}

pub async fn what_a_session_sets_is_its_own_until_it_is_forgotten(bench: &Bench) {
    assert_eq!(settings(bench, "n").await, SessionSettings::default());
    assert!(set(bench, SessionChange::Level(Level::Error)).await);
    for uri in ["a:/b", "a:/a", "a:/a"] {
        assert!(set(bench, SessionChange::Subscribe(uri.to_owned(), 2)).await);
    }
    assert!(set(bench, SessionChange::Level(Level::Debug)).await);
    let follows = ["a:/a", "a:/b"].map(str::to_owned).into_iter().collect();
    assert_eq!(
        settings(bench, "n").await,
        SessionSettings { level: Some(Level::Debug), follows, ..SessionSettings::default() }
    );
    assert_eq!(settings(bench, "m").await, SessionSettings::default());
    assert!(!bench.store.has_ended("n").await.expect("the store can be read"));
    assert!(set(bench, SessionChange::Unsubscribe("a:/b".to_owned())).await);
    assert!(set(bench, SessionChange::Unsubscribe("a:/c".to_owned())).await);
    assert_eq!(settings(bench, "n").await.follows.into_iter().collect::<Vec<_>>(), ["a:/a"]);
    bench.clock.advance(Duration::from_secs(60));
    bench.store.purge(bench.clock.now(), 10).await.expect("the store can be written");
    assert_eq!(settings(bench, "n").await, SessionSettings::default());
}

pub async fn an_ended_session_sets_nothing_and_has_set_nothing(bench: &Bench) {
    assert!(set(bench, SessionChange::Level(Level::Error)).await);
    let forget_after = bench.clock.now() + Duration::from_secs(60);
    bench.store.end("n", forget_after).await.expect("a session can be ended");
    assert_eq!(bench.store.settings("n").await.expect("the store can be read"), None);
    assert!(!set(bench, SessionChange::Level(Level::Error)).await);
    assert!(bench.store.has_ended("n").await.expect("the store can be read"));
}

pub async fn what_happened_to_the_streams_of_a_session_is_counted(bench: &Bench) {
    let forget_after = bench.clock.now() + Duration::from_secs(60);
    let opened = |lease_until| {
        let event = StreamEvent::Opened { resumed: None, lease_until, now: bench.clock.now() };
        bench.store.set("n", SessionChange::Streams(event), forget_after)
    };
    let mut newest = 0;
    for _ in 0..3 {
        let set = opened(Some(forget_after)).await.expect("the store can be written");
        let streams = set.expect("the session was not ended").streams;
        assert!(streams.newest() > newest);
        newest = streams.newest();
        assert_eq!(streams.active_listener(bench.clock.now()), newest);
    }
    assert_eq!(settings(bench, "n").await.streams.newest(), newest);
    assert_eq!(settings(bench, "m").await.streams, Streams::default());
}

pub async fn a_session_follows_so_many_at_most(bench: &Bench) {
    const MOST: usize = 100;
    let follow = |n: usize| SessionChange::Subscribe(format!("a:/{n}"), MOST);
    for n in 0..MOST {
        assert!(set(bench, follow(n)).await);
    }
    assert!(!set(bench, follow(MOST)).await);
    assert!(set(bench, follow(0)).await, "that one is followed already");
    assert!(set(bench, SessionChange::Unsubscribe("a:/0".to_owned())).await);
    assert!(set(bench, follow(MOST)).await);
    // The limit has been lowered since: existing subscriptions stay, and other settings are kept.
    assert!(!set(bench, SessionChange::Subscribe("a:/new".to_owned(), 3)).await);
    assert!(set(bench, SessionChange::Subscribe("a:/1".to_owned(), 3)).await);
    assert!(set(bench, SessionChange::Level(Level::Error)).await);
    assert_eq!(settings(bench, "n").await.follows.len(), MOST);
}

pub async fn a_session_holds_a_task_of_its_client_until_it_lets_go(bench: &Bench) {
    let question_message = |n: u32| QuestionMessage { task: TaskId::from_wire("t"), key: "q1".to_owned(), n };
    let second = Duration::from_secs(1);
    let client_task = |n: u32, id: &str, stage, every| ClientTaskRecord {
        of: question_message(n),
        id: TaskId::from_wire(id),
        since: bench.clock.now(),
        stage,
        every,
    };
    let first = client_task(1, "theirs", ClientTaskStatus::Working, second);
    assert!(set(bench, SessionChange::AddClientTask(first.clone())).await);
    assert!(
        set(
            bench,
            SessionChange::AddClientTask(client_task(1, "another", ClientTaskStatus::Working, second))
        )
        .await
    );
    assert_eq!(settings(bench, "n").await.held, [first], "of one message there is one task: the first");
    assert!(
        set(bench, SessionChange::UpdateClientTask(question_message(1), ClientTaskStatus::Ended, 2 * second))
            .await
    );
    assert!(
        set(bench, SessionChange::UpdateClientTask(question_message(2), ClientTaskStatus::Ended, second))
            .await,
        "it is not held, and stays so"
    );
    assert_eq!(
        settings(bench, "n").await.held,
        [client_task(1, "theirs", ClientTaskStatus::Ended, 2 * second)]
    );
    assert_eq!(settings(bench, "m").await.held, []);
    assert!(set(bench, SessionChange::RemoveClientTask(question_message(1))).await);
    assert!(set(bench, SessionChange::RemoveClientTask(question_message(1))).await);
    assert_eq!(settings(bench, "n").await.held, []);
    for n in 0..u32::try_from(MAX_CLIENT_TASKS).expect("it is a small number") {
        assert!(
            set(
                bench,
                SessionChange::AddClientTask(client_task(n, "theirs", ClientTaskStatus::Working, second))
            )
            .await
        );
    }
    assert!(
        !set(
            bench,
            SessionChange::AddClientTask(client_task(1000, "theirs", ClientTaskStatus::Working, second))
        )
        .await
    );
}

pub async fn polled_tasks_are_kept_and_bounded(bench: &Bench) {
    let task = |n: usize| TaskId::from_wire(format!("t{n}"));
    for n in [1, 1, 2] {
        assert!(set(bench, SessionChange::Poll(task(n))).await);
    }
    assert!(set(bench, SessionChange::EndPoll(task(1))).await);
    assert!(set(bench, SessionChange::EndPoll(task(1))).await);
    assert_eq!(settings(bench, "n").await.polls, [task(2)].into());
    assert_eq!(settings(bench, "m").await.polls, [].into());
    for n in 2..MAX_POLLED_TASKS + 2 {
        assert!(set(bench, SessionChange::Poll(task(n))).await);
    }
    assert!(!set(bench, SessionChange::Poll(task(1))).await);
}
