//! [`Hints`] over LISTEN and NOTIFY, on a connection of its own. Every hint may be lost. The ticks of the
//! loops make up for that, and for waiting clients a periodic hint that something may have changed: every
//! [`HEARD`] while the connection works, and every [`UNHEARD`] while it does not.
//!
//! Writes do not notify in their own transactions, because the database would serialize their commits. The
//! hints of a short interval are sent together afterwards. A message names its tasks or sessions, so that
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

use super::PostgresStore;
use super::connect::Connector;
use super::connection_config::CONNECT_WITHIN;
use super::executor::{OperationPriority, PostgresExecutor};
use super::fault::PostgresError;
use crate::tasks::store::{Hint, Hints};
use crate::tasks::task::TaskId;

/// Pause after each time that a process has sent its hints, in one or more messages.
const GAP: Duration = Duration::from_millis(50);

/// Interval of keep-alive queries on an idle connection.
const LIFE_SIGN: Duration = Duration::from_secs(30);

/// The first and the longest delay before a broken connection is reopened.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Interval of hints that others may have written: without a notification connection (`UNHEARD`), and with
/// one (`HEARD`), since other replicas may be unable to notify.
const UNHEARD: Duration = Duration::from_secs(1);
const HEARD: Duration = Duration::from_secs(30);

/// Maximum size of one message, in bytes: the database accepts less than 8,000.
const MOST_BYTES: usize = 7_900;

/// Maximum number of pending hints: beyond it, they are replaced by one that may be about anything.
const MOST_WAITING: usize = 2_000;

/// Pending hints.
#[derive(Default)]
pub(super) struct HintQueue {
    waiting: Mutex<HashSet<Hint>>,
    filled: Notify,
}

impl HintQueue {
    /// Adds a hint.
    pub(super) fn put(&self, hint: Hint) {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= MOST_WAITING {
            waiting.clear();
            waiting.insert(Hint::Anything);
        }
        waiting.insert(hint);
        drop(waiting);
        self.filled.notify_one();
    }

    /// Waits until there are hints, and takes all. It loses none if it is dropped while it waits.
    pub(super) async fn take(&self) -> Vec<Hint> {
        loop {
            let hints = std::mem::take(&mut *self.waiting.lock());
            if !hints.is_empty() {
                return hints.into_iter().collect();
            }
            self.filled.notified().await;
        }
    }
}

/// Returns the hint for a task that was written.
pub(super) fn of_task(id: &str, session: Option<&String>) -> Hint {
    Hint::Task { id: TaskId::from_wire(id), session: session.cloned() }
}

/// A hint as it is sent: a task with its session, or one of the two.
type Sent = (Option<String>, Option<String>);

/// Encodes hints as messages.
fn messages(hints: Vec<Hint>) -> Vec<String> {
    let (mut messages, mut all) = (Vec::new(), String::new());
    for hint in hints {
        let sent: Sent = match hint {
            // A replica that reads everything needs no details.
            Hint::Anything => return vec![String::new()],
            Hint::Task { id, session } => (Some(id.as_str().to_owned()), session),
            Hint::Session(session) => (None, Some(session)),
        };
        let line = serde_json::to_string(&sent).unwrap_or_default();
        if !all.is_empty() && all.len() + line.len() > MOST_BYTES {
            messages.push(std::mem::take(&mut all));
        }
        all.push_str(&line);
    }
    messages.push(all);
    messages
}

/// Decodes the hints of a message.
fn hints(message: &str) -> Vec<Hint> {
    let sent = serde_json::Deserializer::from_str(message).into_iter::<Sent>();
    let hints: Result<Vec<Hint>, _> = sent
        .map(|sent| {
            sent.map(|sent| match sent {
                (Some(id), session) => Hint::Task { id: TaskId::from_wire(&id), session },
                (None, Some(session)) => Hint::Session(session),
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
        self.heard.take().await
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// Receives and sends hints for as long as the store exists.
pub(super) async fn run(desk: Arc<PostgresExecutor>, connector: Connector, heard: Arc<HintQueue>) {
    let mut pause = PAUSES.0;
    let mut told = false;
    loop {
        let mut connected = false;
        let fault = session(&desk, &connector, &heard, &mut connected).await;
        if connected {
            (pause, told) = (PAUSES.0, false);
        }
        if !std::mem::replace(&mut told, true) {
            let error = fault.into_store_error(&desk.place);
            tracing::warn!(%error, "what other replicas write is noticed later for now");
        }
        let _ = timeout(pause, hint_periodically(&desk, &heard)).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Repeatedly adds a hint that others may have written, while the database can be reached.
async fn hint_periodically(desk: &PostgresExecutor, heard: &HintQueue) {
    loop {
        sleep(UNHEARD).await;
        if desk.read(OperationPriority::Loops, "SELECT 1", &[]).await.is_ok() {
            heard.put(Hint::Anything);
        }
    }
}

/// Uses one connection until it breaks.
async fn session(
    desk: &PostgresExecutor,
    connector: &Connector,
    heard: &HintQueue,
    connected: &mut bool,
) -> PostgresError {
    let (client, mut connection) = match connector.config.connect(connector.tls.clone()).await {
        Ok(made) => made,
        Err(error) => return PostgresError::Connect(error),
    };
    let own = AtomicI32::new(0);
    let listening = async {
        loop {
            match poll_fn(|context| connection.poll_message(context)).await {
                // This process already knows its own writes.
                Some(Ok(AsyncMessage::Notification(note)))
                    if note.process_id() != own.load(Ordering::Relaxed) =>
                {
                    hints(note.payload()).into_iter().for_each(|hint| heard.put(hint));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return PostgresError::from(error),
                None => return PostgresError::Row("the database closed the connection".to_owned()),
            }
        }
    };
    let telling = async {
        match listen(&client, &desk.place.schema).await {
            Ok(pid) => own.store(pid, Ordering::Relaxed),
            Err(fault) => return fault,
        }
        *connected = true;
        // Something may have been written before LISTEN took effect.
        heard.put(Hint::Anything);
        loop {
            let said = send_hints(&client, desk).await;
            if let Err(fault) = said {
                // The lost hints are replaced by one that is sent on the next connection.
                desk.wrote.put(Hint::Anything);
                return fault;
            }
        }
    };
    let guessing = async {
        loop {
            sleep(HEARD).await;
            heard.put(Hint::Anything);
        }
    };
    tokio::select! {
        fault = listening => fault,
        fault = telling => fault,
        fault = guessing => fault,
    }
}

/// Starts to listen; returns the backend process id of this connection.
async fn listen(client: &Client, schema: &str) -> Result<i32, PostgresError> {
    let begun = async {
        client.batch_execute(&format!("LISTEN \"{}\"", channel(schema))).await?;
        client.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)
    };
    Ok(timeout(CONNECT_WITHIN, begun).await.map_err(|_| PostgresError::Silent)??)
}

/// Waits for hints and sends them. After [`LIFE_SIGN`] without one, sends a keep-alive query instead.
async fn send_hints(client: &Client, desk: &PostgresExecutor) -> Result<(), PostgresError> {
    let wrote = timeout(LIFE_SIGN, desk.wrote.take()).await;
    let said = async {
        match wrote {
            Ok(hints) => {
                let sql = "SELECT pg_notify($1, message) FROM unnest($2::text[]) AS message";
                client.query(sql, &[&channel(&desk.place.schema), &messages(hints)]).await
            }
            Err(_) => client.query("SELECT 1", &[]).await,
        }
    };
    timeout(CONNECT_WITHIN, said).await.map_err(|_| PostgresError::Silent)??;
    sleep(GAP).await;
    Ok(())
}

/// Returns the channel of the replicas of one schema.
fn channel(schema: &str) -> String {
    format!("taskbridge.{schema}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, session: Option<&str>) -> Hint {
        of_task(id, session.map(str::to_owned).as_ref())
    }

    /// Hints are split over as many messages as they need.
    #[test]
    fn postgres_hints_round_trip() {
        let mut told = vec![task("t", None), task("u\n\0", Some("s")), Hint::Session("[\"x".to_owned())];
        told.extend((0..1_000).map(|n| task(&format!("task-{n}"), Some("session"))));
        let messages = messages(told.clone());
        assert!(messages.len() > 1 && messages.iter().all(|message| message.len() < 8_000));
        let heard: Vec<Hint> = messages.iter().flat_map(|message| hints(message)).collect();
        assert_eq!(heard, told);
    }

    /// A message that cannot be parsed may be about any task.
    #[test]
    fn unknown_hint_means_anything() {
        for message in ["", "[null,null]", "something newer", "[1]"] {
            assert_eq!(hints(message), [Hint::Anything], "{message}");
        }
        assert_eq!(messages(vec![task("t", None), Hint::Anything]), [""]);
    }

    #[tokio::test]
    async fn hint_overflow_becomes_anything() {
        let mail = HintQueue::default();
        (0..=MOST_WAITING).for_each(|n| mail.put(task(&n.to_string(), None)));
        mail.put(task("last", None));
        let taken = mail.take().await;
        assert!(taken.contains(&Hint::Anything) && taken.len() <= 3, "{taken:?}");
    }
}
