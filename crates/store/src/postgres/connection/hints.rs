//! [`Hints`] over LISTEN and NOTIFY, on a connection of its own. Every hint may be lost. The ticks of the
//! loops make up for that, and for waiting clients a periodic hint that something may have changed: every
//! [`ONLINE_HINT_INTERVAL`] while the connection works, and every [`OFFLINE_HINT_INTERVAL`] while it does
//! not.
//!
//! Writes do not notify in their own transactions, because the database would serialize their commits. The
//! hints of a short interval are sent together afterwards. A message names its tasks or channels, so that
//! no replica reads unrelated rows. An empty message, which replicas of older versions send, may be about
//! anything.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};

use super::connect::Connector;
use super::connection_config::CONNECT_TIMEOUT;
use super::executor::{OperationPriority, PostgresExecutor};
use super::fault::PostgresError;
use crate::postgres::PostgresStore;
use taskbridge_core::tasks::store::{Hint, Hints};
use taskbridge_core::tasks::task::TaskId;

/// Pause after each time that a process has sent its hints, in one or more messages.
const SEND_INTERVAL: Duration = Duration::from_millis(50);

/// Interval of keep-alive queries on an idle connection.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// The first and the longest delay before a broken connection is reopened.
const RECONNECT_BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Interval of hints that others may have written, while there is no notification connection.
const OFFLINE_HINT_INTERVAL: Duration = Duration::from_secs(1);
/// The same interval while there is one, since other replicas may be unable to notify.
const ONLINE_HINT_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum size of one message, in bytes: the database accepts less than 8,000.
const MAX_MESSAGE_BYTES: usize = 7_900;

/// Maximum number of pending hints: beyond it, they are replaced by one that may be about anything.
const MAX_PENDING: usize = 2_000;

/// Pending hints.
#[derive(Default)]
pub(in crate::postgres) struct HintQueue {
    pending: Mutex<HashSet<Hint>>,
    not_empty: Notify,
}

impl HintQueue {
    /// Adds a hint.
    pub(super) fn push(&self, hint: Hint) {
        let mut pending = self.pending.lock();
        if pending.len() >= MAX_PENDING {
            pending.clear();
            pending.insert(Hint::Anything);
        }
        pending.insert(hint);
        drop(pending);
        self.not_empty.notify_one();
    }

    /// Waits until there are hints, and takes all. It loses none if it is dropped while it waits.
    pub(super) async fn take_all(&self) -> Vec<Hint> {
        loop {
            let hints = std::mem::take(&mut *self.pending.lock());
            if !hints.is_empty() {
                return hints.into_iter().collect();
            }
            self.not_empty.notified().await;
        }
    }
}

/// Returns the hint for a task that was written.
pub(in crate::postgres) fn task_hint(id: &str, channel: Option<&String>) -> Hint {
    Hint::Task { id: TaskId::from_wire(id), channel: channel.cloned() }
}

/// A hint as it is sent: a task with its channel, or one of the two.
type EncodedHint = (Option<String>, Option<String>);

/// Encodes hints as messages.
fn encode_hints(hints: Vec<Hint>) -> Vec<String> {
    let (mut messages, mut message) = (Vec::new(), String::new());
    for hint in hints {
        let encoded: EncodedHint = match hint {
            // A replica that reads everything needs no details.
            Hint::Anything => return vec![String::new()],
            Hint::Task { id, channel } => (Some(id.as_str().to_owned()), channel),
            Hint::Channel(channel) => (None, Some(channel)),
        };
        let line = serde_json::to_string(&encoded).unwrap_or_default();
        if !message.is_empty() && message.len() + line.len() > MAX_MESSAGE_BYTES {
            messages.push(std::mem::take(&mut message));
        }
        message.push_str(&line);
    }
    messages.push(message);
    messages
}

/// Decodes the hints of a message.
fn decode_hints(message: &str) -> Vec<Hint> {
    let entries = serde_json::Deserializer::from_str(message).into_iter::<EncodedHint>();
    let hints: Result<Vec<Hint>, _> = entries
        .map(|entry| {
            entry.map(|parts| match parts {
                (Some(id), channel) => Hint::Task { id: TaskId::from_wire(&id), channel },
                (None, Some(channel)) => Hint::Channel(channel),
                (None, None) => Hint::Anything,
            })
        })
        .collect();
    match hints {
        Ok(hints) if !hints.is_empty() => hints,
        _ => vec![Hint::Anything],
    }
}

#[async_trait]
impl Hints for PostgresStore {
    async fn changed_elsewhere(&self) -> Vec<Hint> {
        self.received_hints.take_all().await
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// Receives and sends hints for as long as the store exists.
pub(in crate::postgres) async fn run(
    executor: Arc<PostgresExecutor>,
    connector: Connector,
    received: Arc<HintQueue>,
) {
    let mut pause = RECONNECT_BACKOFF.0;
    let mut is_logged = false;
    loop {
        let mut connected = false;
        let fault = run_connection(&executor, &connector, &received, &mut connected).await;
        if connected {
            (pause, is_logged) = (RECONNECT_BACKOFF.0, false);
        }
        if !std::mem::replace(&mut is_logged, true) {
            let error = fault.into_store_error(&executor.config);
            tracing::warn!(%error, "what other replicas write is noticed later for now");
        }
        let _ = timeout(pause, hint_periodically(&executor, &received)).await;
        pause = (pause * 2).min(RECONNECT_BACKOFF.1);
    }
}

/// Repeatedly adds a hint that others may have written, while the database can be reached.
async fn hint_periodically(executor: &PostgresExecutor, received: &HintQueue) {
    loop {
        sleep(OFFLINE_HINT_INTERVAL).await;
        if executor.read(OperationPriority::Loops, "SELECT 1", &[]).await.is_ok() {
            received.push(Hint::Anything);
        }
    }
}

/// Uses one connection until it breaks.
async fn run_connection(
    executor: &PostgresExecutor,
    connector: &Connector,
    received: &HintQueue,
    connected: &mut bool,
) -> PostgresError {
    let (client, mut connection) = match connector.config.connect(connector.tls.clone()).await {
        Ok(made) => made,
        Err(error) => return PostgresError::Connect(error),
    };
    let own_pid = AtomicI32::new(0);
    let receive_loop = async {
        loop {
            match poll_fn(|context| connection.poll_message(context)).await {
                // This process already knows its own writes.
                Some(Ok(AsyncMessage::Notification(note)))
                    if note.process_id() != own_pid.load(Ordering::Relaxed) =>
                {
                    decode_hints(note.payload()).into_iter().for_each(|hint| received.push(hint));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return PostgresError::from(error),
                None => return PostgresError::Broken("the database closed the connection".to_owned()),
            }
        }
    };
    let send_loop = async {
        match listen(&client, &executor.config.schema).await {
            Ok(pid) => own_pid.store(pid, Ordering::Relaxed),
            Err(fault) => return fault,
        }
        *connected = true;
        // Something may have been written before LISTEN took effect.
        received.push(Hint::Anything);
        loop {
            let result = send_hints(&client, executor).await;
            if let Err(fault) = result {
                // The lost hints are replaced by one that is sent on the next connection.
                executor.outgoing_hints.push(Hint::Anything);
                return fault;
            }
        }
    };
    let hint_loop = async {
        loop {
            sleep(ONLINE_HINT_INTERVAL).await;
            received.push(Hint::Anything);
        }
    };
    tokio::select! {
        fault = receive_loop => fault,
        fault = send_loop => fault,
        fault = hint_loop => fault,
    }
}

/// Starts to listen; returns the backend process id of this connection.
async fn listen(client: &Client, schema: &str) -> Result<i32, PostgresError> {
    let setup = async {
        client.batch_execute(&format!("LISTEN \"{}\"", notification_channel(schema))).await?;
        client.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)
    };
    Ok(timeout(CONNECT_TIMEOUT, setup).await.map_err(|_| PostgresError::ResponseTimeout)??)
}

/// Waits for hints and sends them. After [`KEEPALIVE_INTERVAL`] without one, sends a keep-alive query
/// instead.
async fn send_hints(client: &Client, executor: &PostgresExecutor) -> Result<(), PostgresError> {
    let pending = timeout(KEEPALIVE_INTERVAL, executor.outgoing_hints.take_all()).await;
    let send = async {
        match pending {
            Ok(hints) => {
                let sql = "SELECT pg_notify($1, message) FROM unnest($2::text[]) AS message";
                let channel = notification_channel(&executor.config.schema);
                client.query(sql, &[&channel, &encode_hints(hints)]).await
            }
            Err(_) => client.query("SELECT 1", &[]).await,
        }
    };
    timeout(CONNECT_TIMEOUT, send).await.map_err(|_| PostgresError::ResponseTimeout)??;
    sleep(SEND_INTERVAL).await;
    Ok(())
}

/// Returns the name of the notification channel of one schema.
fn notification_channel(schema: &str) -> String {
    format!("taskbridge.{schema}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, session: Option<&str>) -> Hint {
        task_hint(id, session.map(str::to_owned).as_ref())
    }

    /// Hints are split over as many messages as they need.
    #[test]
    fn postgres_hints_round_trip() {
        let mut expected = vec![task("t", None), task("u\n\0", Some("s")), Hint::Channel("[\"x".to_owned())];
        expected.extend((0..1_000).map(|n| task(&format!("task-{n}"), Some("session"))));
        let messages = encode_hints(expected.clone());
        assert!(messages.len() > 1 && messages.iter().all(|message| message.len() < 8_000));
        let decoded: Vec<Hint> = messages.iter().flat_map(|message| decode_hints(message)).collect();
        assert_eq!(decoded, expected);
    }

    /// A message that cannot be parsed may be about any task.
    #[test]
    fn unknown_hint_means_anything() {
        for message in ["", "[null,null]", "something newer", "[1]"] {
            assert_eq!(decode_hints(message), [Hint::Anything], "{message}");
        }
        assert_eq!(encode_hints(vec![task("t", None), Hint::Anything]), [""]);
    }

    #[tokio::test]
    async fn hint_overflow_becomes_anything() {
        let queue = HintQueue::default();
        (0..=MAX_PENDING).for_each(|n| queue.push(task(&n.to_string(), None)));
        queue.push(task("last", None));
        let taken = queue.take_all().await;
        assert!(taken.contains(&Hint::Anything) && taken.len() <= 3, "{taken:?}");
    }
}
