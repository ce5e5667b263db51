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

use super::{CONCURRENCY, CONFIG, ENDED_TASKS, ENDLESS_MS, measure_end_cost};
use crate::support::{
    BASICS, Client, Events, Fault, Generation, ModernClient, TestApp, TestDir, knob, raise_file_limit,
};

/// Memory limit in MiB for an optimized server with 5,000 listeners and a task for each (100 MB).
const MAX_MIB: u64 = 95;

/// Number of ended tasks that have a listener.
const ENDED_WITH_LISTENER: usize = 50;

/// How long the idle CPU usage is measured.
const IDLE_WINDOW: Duration = Duration::from_secs(3);

/// An event of a stream: a message, or its end.
struct StreamEvent {
    listener: usize,
    event: Result<Option<Value>, Fault>,
}

/// The streams, numbered, and their events.
struct ListenerGroup {
    generation: Generation,
    /// The task of each listener.
    tasks: Vec<String>,
    readers: JoinSet<()>,
    events: mpsc::UnboundedReceiver<StreamEvent>,
}

impl ListenerGroup {
    /// Opens this many streams, several at a time.
    async fn open_all(
        generation: Generation,
        client: &Client,
        modern: &ModernClient,
        listeners: usize,
    ) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut group = Self {
            generation,
            tasks: vec![String::new(); listeners],
            readers: JoinSet::new(),
            events: receiver,
        };
        let (mut opening, mut numbers) = (JoinSet::new(), 0..listeners);
        loop {
            while opening.len() < CONCURRENCY
                && let Some(listener) = numbers.next()
            {
                let (client, modern) = (client.clone(), modern.clone());
                opening.spawn(async move { (listener, open(generation, &client, &modern).await.unwrap()) });
            }
            let Some(opened) = opening.join_next().await else { return group };
            let (listener, (task, events)) = opened.unwrap();
            task.clone_into(&mut group.tasks[listener]);
            group.readers.spawn(read(listener, events, sender.clone()));
        }
    }

    /// Waits until as many listeners as tasks ended have received the end of their task, and returns their
    /// numbers.
    async fn wait_for_ends(&mut self, ends: usize) -> HashSet<usize> {
        let mut notified = HashSet::new();
        while notified.len() < ends {
            let StreamEvent { listener, event } = self.events.recv().await.unwrap();
            let message = event.unwrap().expect("no stream ends while the server runs");
            if self.is_end(listener, &message) {
                notified.insert(listener);
            }
        }
        notified
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
    async fn finish(mut self) {
        let mut answered = HashSet::new();
        let mut ended = 0;
        while let Some(StreamEvent { listener, event }) = self.events.recv().await {
            match event.unwrap_or_else(|fault| panic!("stream {listener} was cut: {fault:?}")) {
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
async fn open(
    generation: Generation,
    client: &Client,
    modern: &ModernClient,
) -> Result<(String, Events), Fault> {
    let arguments = json!({"delay_ms": ENDLESS_MS, "text": ""});
    match generation {
        Generation::V2025 => {
            let client = client.another().await?;
            let task = client.start("job", arguments).await?;
            Ok((task, client.listen().await?))
        }
        Generation::V2026 => {
            let task = client.start("job", arguments).await?;
            let events = modern.subscribe_to_tasks(std::slice::from_ref(&task)).await?;
            Ok((task, events))
        }
    }
}

async fn read(listener: usize, mut events: Events, sender: mpsc::UnboundedSender<StreamEvent>) {
    loop {
        let event = events.next().await;
        let is_over = !matches!(event, Ok(Some(_)));
        // Nothing receives it after the test has failed.
        let _ = sender.send(StreamEvent { listener, event });
        if is_over {
            return;
        }
    }
}

async fn run_listener_load(generation: Generation, label: &str) {
    let listeners: usize = knob("TASKBRIDGE_CROWD_LISTENERS", 500);
    raise_file_limit();
    let dir = TestDir::new(&format!("{BASICS}{CONFIG}"));
    let mut app = TestApp { server: dir.serve_with_limits("ulimit -S -n 100"), dir };
    let client = app.client().await;
    let modern = ModernClient::with_tasks(app.server.url());

    let unloaded_cost = measure_end_cost(&app, &client, 0..ENDED_TASKS).await;
    let (base_kib, started_at) = (app.server.memory_kib(), Instant::now());
    let mut group = ListenerGroup::open_all(generation, &client, &modern, listeners).await;
    println!("crowd: {listeners} {label} opened within {:.1} s", started_at.elapsed().as_secs_f64());
    let loaded_cost = measure_end_cost(&app, &client, 0..ENDED_TASKS).await;
    println!(
        "crowd: the end of a task costs {unloaded_cost:?} alone, {loaded_cost:?} while {listeners} listen for others"
    );
    assert!(
        loaded_cost < unloaded_cost * 3 + Duration::from_millis(1),
        "an end wakes more than those who listen for it"
    );

    // These tasks are spread over the clients. Each end is reported to its own listener only.
    let ended: HashSet<usize> =
        (0..ENDED_WITH_LISTENER).map(|n| n * listeners / ENDED_WITH_LISTENER).collect();
    let before = app.server.cpu();
    for listener in &ended {
        client.cancel(&group.tasks[*listener]).await.unwrap();
    }
    assert_eq!(group.wait_for_ends(ended.len()).await, ended);
    let end_cost = (app.server.cpu() - before) / u32::try_from(ended.len()).unwrap();
    println!("crowd: the end of a task that one of them listens for costs {end_cost:?}");

    let (before, since) = (app.server.cpu(), Instant::now());
    tokio::time::sleep(IDLE_WINDOW).await;
    let idle = (app.server.cpu() - before).as_secs_f64() / since.elapsed().as_secs_f64() * 100.0;
    let kib = app.server.memory_kib();
    let kib_each = kib.saturating_sub(base_kib) as f64 / listeners as f64;
    println!(
        "crowd: {} MiB with {listeners} {label} and a task for each, {kib_each:.1} KiB for the two; {idle:.2} % of a core",
        kib / 1024
    );
    assert!(kib / 1024 < MAX_MIB, "the server holds {} MiB", kib / 1024);

    let started_at = Instant::now();
    assert_eq!(app.server.stop(), Some(0));
    println!("crowd: the server stopped within {:.1} s", started_at.elapsed().as_secs_f64());
    let log = std::fs::read_to_string(app.dir.path("server.log")).unwrap();
    assert!(!log.contains("shutdown timed out"), "{log}");
    group.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_with_sessions_listens() {
    run_listener_load(Generation::V2025, "GET streams").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_subscribes() {
    run_listener_load(Generation::V2026, "subscriptions").await;
}
