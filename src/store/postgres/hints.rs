//! [`Hints`] over LISTEN and NOTIFY, on a connection of its own. Everything here may be lost, and is made up for by the
//! ticks of the loops and, for clients that wait, by a guess that something was written: seldom while this is heard, and
//! often while it is not.
//!
//! Writes do not notify in their own transactions: the database would make their commits wait for each other. What was
//! written within a moment is told in one message, after it.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};

use super::PostgresStore;
use super::connect::Connector;
use super::desk::{Desk, Door};
use super::fault::Fault;
use super::place::CONNECT_WITHIN;
use crate::tasks::store::Hints;

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

#[async_trait]
impl Hints for PostgresStore {
    async fn changed_elsewhere(&self) {
        self.heard.notified().await;
    }
}

/// Listens and tells for as long as the store is there.
pub(super) async fn run(desk: Arc<Desk>, connector: Connector, heard: Arc<Notify>) {
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
async fn guess(desk: &Desk, heard: &Notify) {
    loop {
        sleep(UNHEARD).await;
        if desk.read(Door::Loops, "SELECT 1", &[]).await.is_ok() {
            heard.notify_one();
        }
    }
}

/// One connection, until it breaks.
async fn session(desk: &Desk, connector: &Connector, heard: &Notify, connected: &mut bool) -> Fault {
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
                    heard.notify_one()
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
        heard.notify_one();
        loop {
            let said = tell(&client, desk).await;
            if let Err(fault) = said {
                return fault;
            }
        }
    };
    let guessing = async {
        loop {
            sleep(HEARD).await;
            heard.notify_one();
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
    let wrote = timeout(LIFE_SIGN, desk.wrote.notified()).await.is_ok();
    let said = async {
        match wrote {
            true => client.query("SELECT pg_notify($1, '')", &[&channel(&desk.place.schema)]).await,
            false => client.query("SELECT 1", &[]).await,
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
