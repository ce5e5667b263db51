//! [`Hints`] over LISTEN and NOTIFY, on a connection of its own. Everything here may be lost, and is made up for by the
//! ticks of the loops and, for clients that wait, by a guess that something was written: seldom while this is heard, and
//! often while it is not.
//!
//! Writes do not notify in their own transactions: the database would make their commits wait for each other. What was
//! written within a moment is told together, after it. A message names what it is about, so that nobody looks at what is
//! not his; an empty one, as replicas of older versions send it, may be about anything.

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
use super::desk::{Desk, Door};
use super::fault::Fault;
use super::place::CONNECT_WITHIN;
use crate::tasks::store::{Hint, Hints};
use crate::tasks::task::TaskId;

/// The shortest time between two messages of one process.
const GAP: Duration = Duration::from_millis(50);

/// How often a connection on which nothing is said is tried.
const LIFE_SIGN: Duration = Duration::from_secs(30);

/// The first and the longest pause before a broken connection is made again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// How often it is taken for possible that others wrote: while nobody hears of it, and while it is heard, but others may
/// have nothing to tell it on.
const UNHEARD: Duration = Duration::from_secs(1);
const HEARD: Duration = Duration::from_secs(30);

/// The most bytes of one message: the database takes less than 8,000.
const MOST_BYTES: usize = 7_900;

/// So many hints that nobody has taken are too many: then they become one that may be about anything.
const MOST_WAITING: usize = 2_000;

/// Hints on their way.
#[derive(Default)]
pub(super) struct Mail {
    waiting: Mutex<HashSet<Hint>>,
    filled: Notify,
}

impl Mail {
    /// Puts one in.
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

    /// Waits until there are some, and takes all. Dropped while it waits, it loses none.
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

/// What others are told of a task that was written.
pub(super) fn of_task(id: &str, session: Option<&String>) -> Hint {
    Hint::Task { id: TaskId::from_wire(id), session: session.cloned() }
}

/// A hint as it is sent: a task and its session, or one of both.
type Sent = (Option<String>, Option<String>);

/// These hints as messages.
fn messages(hints: Vec<Hint>) -> Vec<String> {
    let (mut messages, mut all) = (Vec::new(), String::new());
    for hint in hints {
        let sent: Sent = match hint {
            // Whoever looks at everything need not be told of parts.
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

/// The hints in a message.
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

/// Listens and tells for as long as the store is there.
pub(super) async fn run(desk: Arc<Desk>, connector: Connector, heard: Arc<Mail>) {
    let mut pause = PAUSES.0;
    let mut told = false;
    loop {
        let mut connected = false;
        let fault = session(&desk, &connector, &heard, &mut connected).await;
        if connected {
            (pause, told) = (PAUSES.0, false);
        }
        if !std::mem::replace(&mut told, true) {
            let error = fault.at(&desk.place);
            tracing::warn!(%error, "what other replicas write is noticed later for now");
        }
        let _ = timeout(pause, guess(&desk, &heard)).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Says again and again that others may have written, as long as the database can be asked what.
async fn guess(desk: &Desk, heard: &Mail) {
    loop {
        sleep(UNHEARD).await;
        if desk.read(Door::Loops, "SELECT 1", &[]).await.is_ok() {
            heard.put(Hint::Anything);
        }
    }
}

/// One connection, until it breaks.
async fn session(desk: &Desk, connector: &Connector, heard: &Mail, connected: &mut bool) -> Fault {
    let (client, mut connection) = match connector.config.connect(connector.tls.clone()).await {
        Ok(made) => made,
        Err(error) => return Fault::Connect(error),
    };
    let own = AtomicI32::new(0);
    let listening = async {
        loop {
            match poll_fn(|context| connection.poll_message(context)).await {
                // What this process wrote itself is no news to it.
                Some(Ok(AsyncMessage::Notification(note)))
                    if note.process_id() != own.load(Ordering::Relaxed) =>
                {
                    hints(note.payload()).into_iter().for_each(|hint| heard.put(hint));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Fault::from(error),
                None => return Fault::Row("the database closed the connection".to_owned()),
            }
        }
    };
    let telling = async {
        match listen(&client, &desk.place.schema).await {
            Ok(pid) => own.store(pid, Ordering::Relaxed),
            Err(fault) => return fault,
        }
        *connected = true;
        // Something may have been written while nobody listened.
        heard.put(Hint::Anything);
        loop {
            let said = tell(&client, desk).await;
            if let Err(fault) = said {
                // What was to be told is told when there is another connection.
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

/// Begins to listen; gives the number by which the database knows this connection.
async fn listen(client: &Client, schema: &str) -> Result<i32, Fault> {
    let begun = async {
        client.batch_execute(&format!("LISTEN \"{}\"", channel(schema))).await?;
        client.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)
    };
    Ok(timeout(CONNECT_WITHIN, begun).await.map_err(|_| Fault::Silent)??)
}

/// Waits for something to tell, and tells it.
async fn tell(client: &Client, desk: &Desk) -> Result<(), Fault> {
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
    timeout(CONNECT_WITHIN, said).await.map_err(|_| Fault::Silent)??;
    sleep(GAP).await;
    Ok(())
}

/// Where the processes over one schema of a database talk.
fn channel(schema: &str) -> String {
    format!("taskbridge.{schema}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, session: Option<&str>) -> Hint {
        of_task(id, session.map(str::to_owned).as_ref())
    }

    #[test]
    fn what_is_told_is_what_is_heard_however_many_messages_it_takes() {
        let mut told = vec![task("t", None), task("u\n\0", Some("s")), Hint::Session("[\"x".to_owned())];
        told.extend((0..1_000).map(|n| task(&format!("task-{n}"), Some("session"))));
        let messages = messages(told.clone());
        assert!(messages.len() > 1 && messages.iter().all(|message| message.len() < 8_000));
        let heard: Vec<Hint> = messages.iter().flat_map(|message| hints(message)).collect();
        assert_eq!(heard, told);
    }

    #[test]
    fn what_cannot_be_understood_may_be_about_anything() {
        for message in ["", "[null,null]", "something newer", "[1]"] {
            assert_eq!(hints(message), [Hint::Anything], "{message}");
        }
        assert_eq!(messages(vec![task("t", None), Hint::Anything]), [""]);
    }

    #[tokio::test]
    async fn hints_that_nobody_takes_become_one() {
        let mail = Mail::default();
        (0..=MOST_WAITING).for_each(|n| mail.put(task(&n.to_string(), None)));
        mail.put(task("last", None));
        let taken = mail.take().await;
        assert!(taken.contains(&Hint::Anything) && taken.len() <= 3, "{taken:?}");
    }
}
