//! A load test with many clients that listen to one server, each for its own task. There must be no error,
//! and memory is bounded. The end of a task wakes only its listener. When the server stops, every stream ends
//! cleanly.
//!
//! `$TASKBRIDGE_CROWD_LISTENERS` sets the number of clients.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{CONFIG, ENDLESS_MS, ENDS, HANDS, cost_of_an_end};
use crate::support::{
    BASICS, Client, Events, Fault, Generation, Modern, Place, TestApp, knob, raise_file_limit,
};

/// Memory limit in MiB for an optimized server with 5,000 listeners and a task for each (100 MB).
const MOST_MIB: u64 = 95;

/// Number of ended tasks that have a listener.
const HEARD: usize = 50;

/// How long the idle CPU usage is measured.
const IDLE: Duration = Duration::from_secs(3);

/// An event of a stream: a message, or its end.
struct Came {
    listener: usize,
    what: Result<Option<Value>, Fault>,
}

/// The streams, numbered, and their events.
struct Crowd {
    generation: Generation,
    /// The task of each listener.
    tasks: Vec<String>,
    readers: JoinSet<()>,
    came: mpsc::UnboundedReceiver<Came>,
}

impl Crowd {
    /// Opens this many streams, several at a time.
    async fn gather(generation: Generation, client: &Client, modern: &Modern, listeners: usize) -> Self {
        let (sender, came) = mpsc::unbounded_channel();
        let mut crowd =
            Self { generation, tasks: vec![String::new(); listeners], readers: JoinSet::new(), came };
        let (mut opening, mut numbers) = (JoinSet::new(), 0..listeners);
        loop {
            while opening.len() < HANDS
                && let Some(listener) = numbers.next()
            {
                let (client, modern) = (client.clone(), modern.clone());
                opening.spawn(async move { (listener, open(generation, &client, &modern).await.unwrap()) });
            }
            let Some(opened) = opening.join_next().await else { return crowd };
            let (listener, (task, events)) = opened.unwrap();
            task.clone_into(&mut crowd.tasks[listener]);
            crowd.readers.spawn(read(listener, events, sender.clone()));
        }
    }

    /// Waits until as many listeners as tasks ended have received the end of their task, and returns their
    /// numbers.
    async fn told_of_ends(&mut self, ends: usize) -> HashSet<usize> {
        let mut told = HashSet::new();
        while told.len() < ends {
            let Came { listener, what } = self.came.recv().await.unwrap();
            let message = what.unwrap().expect("no stream ends while the server runs");
            if self.is_end(listener, &message) {
                told.insert(listener);
            }
        }
        told
    }

    /// Returns true if a message reports the end of this listener's task. It must not be about any other
    /// task.
    fn is_end(&self, listener: usize, message: &Value) -> bool {
        let method = match self.generation {
            Generation::V2025 => "notifications/tasks/status",
            Generation::V2026 => "notifications/tasks",
        };
        if message["method"] != method {
            return false;
        }
        assert_eq!(message["params"]["taskId"], *self.tasks[listener], "of another's task: {message}");
        message["params"]["status"] == "cancelled"
    }

    /// Reads every stream to its end, which must be clean. No further end of a task may be reported.
    async fn disperse(mut self) {
        let mut answered = HashSet::new();
        let mut ended = 0;
        while let Some(Came { listener, what }) = self.came.recv().await {
            match what.unwrap_or_else(|fault| panic!("stream {listener} was cut: {fault:?}")) {
                Some(message) => {
                    assert!(!self.is_end(listener, &message), "told of an end that was not");
                    if message.get("method").is_none() {
                        assert_eq!(message["result"]["resultType"], "complete", "{message}");
                        answered.insert(listener);
                    }
                }
                None => ended += 1,
            }
        }
        assert_eq!(ended, self.tasks.len(), "every stream ends");
        // A GET stream has no response. A subscription is a request, and its response ends it.
        let subscriptions = if self.generation == Generation::V2026 { ended } else { 0 };
        assert_eq!(answered.len(), subscriptions);
    }
}

/// Opens one more stream with its own task: the stream of a new session, or a subscription.
async fn open(generation: Generation, client: &Client, modern: &Modern) -> Result<(String, Events), Fault> {
    let arguments = json!({"delay_ms": ENDLESS_MS, "text": ""});
    match generation {
        Generation::V2025 => {
            let client = client.another().await?;
            let task = client.start("job", arguments).await?;
            Ok((task, client.listen().await?))
        }
        Generation::V2026 => {
            let task = client.start("job", arguments).await?;
            let events = modern.follow(std::slice::from_ref(&task)).await?;
            Ok((task, events))
        }
    }
}

async fn read(listener: usize, mut events: Events, came: mpsc::UnboundedSender<Came>) {
    loop {
        let what = events.next().await;
        let is_over = !matches!(what, Ok(Some(_)));
        // Nothing receives it after the test has failed.
        let _ = came.send(Came { listener, what });
        if is_over {
            return;
        }
    }
}

async fn a_crowd_listens(generation: Generation, what: &str) {
    let listeners: usize = knob("TASKBRIDGE_CROWD_LISTENERS", 500);
    raise_file_limit();
    let place = Place::new(&format!("{BASICS}{CONFIG}"));
    let mut app = TestApp { server: place.serve_under("ulimit -S -n 100"), place };
    let client = app.client().await;
    let modern = Modern::with_tasks(app.server.url());

    let alone = cost_of_an_end(&app, &client, 0..ENDS).await;
    let (empty, began) = (app.server.memory_kib(), Instant::now());
    let mut crowd = Crowd::gather(generation, &client, &modern, listeners).await;
    println!("crowd: {listeners} {what} opened within {:.1} s", began.elapsed().as_secs_f64());
    let amid = cost_of_an_end(&app, &client, 0..ENDS).await;
    println!("crowd: the end of a task costs {alone:?} alone, {amid:?} while {listeners} listen for others");
    assert!(amid < alone * 3 + Duration::from_millis(1), "an end wakes more than those who listen for it");

    // These tasks are spread over the clients. Each end is reported to its own listener only.
    let ended: HashSet<usize> = (0..HEARD).map(|n| n * listeners / HEARD).collect();
    let before = app.server.cpu();
    for listener in &ended {
        client.cancel(&crowd.tasks[*listener]).await.unwrap();
    }
    assert_eq!(crowd.told_of_ends(ended.len()).await, ended);
    let heard = (app.server.cpu() - before) / u32::try_from(ended.len()).unwrap();
    println!("crowd: the end of a task that one of them listens for costs {heard:?}");

    let (before, since) = (app.server.cpu(), Instant::now());
    tokio::time::sleep(IDLE).await;
    let idle = (app.server.cpu() - before).as_secs_f64() / since.elapsed().as_secs_f64() * 100.0;
    let kib = app.server.memory_kib();
    let each = kib.saturating_sub(empty) as f64 / listeners as f64;
    println!(
        "crowd: {} MiB with {listeners} {what} and a task for each, {each:.1} KiB for the two; {idle:.2} % of a core",
        kib / 1024
    );
    assert!(kib / 1024 < MOST_MIB, "the server holds {} MiB", kib / 1024);

    let began = Instant::now();
    assert_eq!(app.server.stop(), Some(0));
    println!("crowd: the server stopped within {:.1} s", began.elapsed().as_secs_f64());
    let log = std::fs::read_to_string(app.place.path("server.log")).unwrap();
    assert!(!log.contains("not everything ended in time"), "{log}");
    crowd.disperse().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_with_sessions_listens() {
    a_crowd_listens(Generation::V2025, "GET streams").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_subscribes() {
    a_crowd_listens(Generation::V2026, "subscriptions").await;
}
