//! The verbs that only look. They read rows; they never reach an engine.

use std::time::Duration;

use tokio::time::Instant;

use super::{Actor, Service};
use crate::tasks::machine::Event;
use crate::tasks::slots::is_of_owner;
use crate::tasks::store::{Lease, Position, Result};
use crate::tasks::task::{Job, NEWLY_STARTED, Owner, Task, TaskId};
use crate::tasks::watch::{Changes, Listener};

/// For how long one look counts as watching: longer than the longest wait between two polls that clients are told.
const WATCHED: Duration = Duration::from_secs(180);
/// How often whoever goes on looking must look again to count as watching all the while.
pub const RENEW_WATCH: Duration = Duration::from_secs(25);
/// It is written down anew when it is known for less than this.
const KNOWN_FOR: Duration = Duration::from_secs(30);

/// A task with what is derived from more than its row.
#[derive(Clone, Debug)]
pub struct View {
    /// The row.
    pub task: Task,
    /// How many wait before it in its line, which is its owner's own where owners have limits; if it waits.
    pub ahead: Option<u64>,
    /// How long to wait before asking again.
    pub poll_interval: Duration,
}

impl View {
    /// One line on where the task stands, for people and models.
    pub fn status_message(&self) -> Option<String> {
        let Some(ahead) = self.ahead else { return self.task.status_message() };
        // Where owners have limits, each has a line of their own, and the lines have their turns.
        let line = match self.task.slots.iter().any(|slot| is_of_owner(slot)) {
            true => "its owner's line, by turns with others",
            false => "line",
        };
        Some(match ahead {
            0 => format!("waiting for a free slot, next in {line}"),
            ahead => format!("waiting for a free slot, position {} in {line}", ahead + 1),
        })
    }
}

impl Service {
    /// One task; `None` if there is none that they can look at, or it has expired.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub async fn get(&self, by: &dyn Actor, id: &TaskId) -> Result<Option<View>> {
        match self.find(by, id).await? {
            Some(task) => {
                let task = self.is_watched(task).await;
                self.view(task).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// Has it noted that somebody wants to know how far the task's job comes, where that is not known for a while yet. Whoever
    /// looks for long says so again within [`RENEW_WATCH`].
    pub async fn is_watched(&self, task: Task) -> Task {
        let now = self.ledger.now();
        let Job::Open { started_at, .. } = &task.job else { return task };
        let known_until = task.watched_until.max(Some(*started_at + NEWLY_STARTED));
        if task.has_ended() || known_until > Some(now + KNOWN_FOR) {
            return task;
        }
        let event = Event::Watched { until: now + WATCHED };
        match self.ledger.apply(task.clone(), event, Lease::Keep).await {
            Ok(Some(task)) => task,
            // It is no more than a hint for the engine's sake: the next look says so again.
            Ok(None) | Err(_) => task,
        }
    }

    /// Waits until `enough` says so of the task, or `patience` is over (without one: for as long as it takes).
    ///
    /// Returns what the task is then; `None` once there is none that they can look at.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub async fn wait(
        &self,
        by: &dyn Actor,
        id: &TaskId,
        patience: Option<Duration>,
        enough: impl Fn(&Task) -> bool,
    ) -> Result<Option<View>> {
        let deadline = patience.map(|patience| Instant::now() + patience);
        let mut listener = self.listen(id);
        loop {
            let Some(task) = self.find(by, id).await? else { return Ok(None) };
            let task = self.is_watched(task).await;
            let out_of_time = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if out_of_time || enough(&task) {
                return self.view(task).await.map(Some);
            }
            // A task that expires while somebody waits for it becomes "not found", and no write says so.
            let lives = task.kept_until().since(self.ledger.now()) + Duration::from_millis(1);
            let until_expiry = Instant::now() + lives.min(Duration::from_secs(86_400));
            let renew_watch = Instant::now() + RENEW_WATCH;
            let wake = until_expiry.min(renew_watch);
            let wake = deadline.map_or(wake, |deadline| deadline.min(wake));
            tokio::select! {
                biased;
                () = listener.hint() => {}
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    /// Up to `limit` tasks of this owner, newest first, those after `after`.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub async fn list(&self, owner: &Owner, after: Option<&Position>, limit: usize) -> Result<Vec<View>> {
        let rows = self.ledger.store.list(owner, after, limit).await?;
        let mut views = Vec::with_capacity(rows.len());
        for task in rows {
            views.push(self.view(task).await?);
        }
        Ok(views)
    }

    /// Up to `limit` tasks of this owner, newest first, without what is derived from more than their rows.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub async fn newest(&self, owner: &Owner, limit: usize) -> Result<Vec<Task>> {
        self.ledger.store.list(owner, None, limit).await
    }

    /// Hints about a task, from now on.
    pub fn listen(&self, id: &TaskId) -> Listener {
        self.ledger.watch.listen(id)
    }

    /// Hints about the tasks of a session, from now on.
    pub fn changes(&self, session: &str) -> Changes {
        self.ledger.watch.changes(session)
    }

    /// Hints about these tasks, from now on.
    pub fn follow(&self, tasks: impl IntoIterator<Item = TaskId>) -> Changes {
        self.ledger.watch.follow(tasks)
    }

    /// The tasks that a session made and that have not ended.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub async fn of_session(&self, session: &str) -> Result<Vec<Task>> {
        self.ledger.store.of_session(session).await
    }

    /// A row with what a client is told beside it.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub async fn view(&self, task: Task) -> Result<View> {
        let ahead = if task.is_queued() { Some(self.ledger.store.ahead(&task).await?) } else { None };
        let since = match &task.job {
            Job::Open { started_at, .. } => *started_at,
            _ => task.created_at,
        };
        let age = self.ledger.now().since(since);
        let typical = self.typical(&task.tool).await?;
        let poll_interval = self.pace.poll_interval(age, typical);
        Ok(View { task, ahead, poll_interval })
    }

    /// How long jobs of a tool usually take, as it was known ten seconds ago at the earliest: a poll shall not pay
    /// for a second query.
    async fn typical(&self, tool: &str) -> Result<Option<Duration>> {
        if let Some((read_at, typical)) = self.typical.lock().get(tool)
            && read_at.elapsed() < Duration::from_secs(10)
        {
            return Ok(*typical);
        }
        let typical = self.ledger.store.typical(tool).await?;
        self.typical.lock().insert(tool.to_owned(), (Instant::now(), typical));
        Ok(typical)
    }
}
