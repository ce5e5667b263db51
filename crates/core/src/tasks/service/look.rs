//! The read operations: get, wait, list, and subscriptions to hints. The only row write is that a client
//! watches a task ([`Service::mark_watched`]). They must not call an engine.

use std::time::Duration;

use taskbridge_sdk::Timestamp;
use tokio::time::Instant;

use super::{Actor, Service};
use crate::tasks::history::HistoryEntry;
use crate::tasks::machine::Event;
use crate::tasks::pace::usual::{UsualDuration, duration_keys};
use crate::tasks::store::{Lease, Position, Result};
use crate::tasks::task::slots::is_owner_slot;
use crate::tasks::task::{INITIAL_WATCH, Job, Owner, Task, TaskId};
use crate::tasks::watch::{ChangeSubscription, Listener, RowListener};

/// How long one read counts as watching. It exceeds the longest poll interval that clients receive.
const WATCH_DURATION: Duration = Duration::from_secs(180);
/// The maximum interval at which a waiting caller must renew its watch.
pub const RENEW_WATCH: Duration = Duration::from_secs(25);
/// A read renews the watch in the row only if it expires within this time.
const RENEW_MARGIN: Duration = Duration::from_secs(30);

/// A task with values that derive from more than its row.
#[derive(Clone, Debug)]
pub struct View {
    /// The row.
    pub task: Task,
    /// The number of rows ahead in its queue, if it waits. Where owners have limits, each owner has a queue.
    pub ahead: Option<u64>,
    /// How long the client should wait before the next poll.
    pub poll_interval: Duration,
    /// The age of its job, or of the task if no job was accepted yet.
    pub age: Duration,
    /// The usual duration of jobs like this one.
    pub usual: Option<UsualDuration>,
}

impl View {
    /// Returns the task's status in one line, for people and models.
    pub fn status_message(&self) -> Option<String> {
        let Some(ahead) = self.ahead else {
            let message = self.task.status_message();
            return match self.running_usual() {
                Some(usual) => Some(usual.add_to(message, self.age)),
                None => message,
            };
        };
        // Where owners have limits, queues are per owner and served round-robin.
        let queue = match self.task.slots.iter().any(|slot| is_owner_slot(slot)) {
            true => "its owner's queue (owners take turns)",
            false => "line",
        };
        Some(match ahead {
            0 => format!("waiting for a free slot, next in {queue}"),
            ahead => format!("waiting for a free slot, position {} in {queue}", ahead + 1),
        })
    }

    /// Returns the usual duration while the job runs towards its end ([`Task::running_since`]).
    pub fn running_usual(&self) -> Option<UsualDuration> {
        self.usual.filter(|_| self.task.running_since().is_some())
    }

    /// Returns when the running job is expected to end; `None` if it runs longer than usual.
    pub fn expected_end(&self) -> Option<Timestamp> {
        let since = self.task.running_since()?;
        self.usual?.expected_end(since, since + self.age)
    }
}

impl Service {
    /// Returns one task; `None` if the caller can read none with this id, or it has expired.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn get(&self, by: &dyn Actor, id: &TaskId) -> Result<Option<View>> {
        match self.find(by, id).await? {
            Some(task) => {
                let task = self.mark_watched(task).await;
                self.view(task).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// Records that a client watches the progress of the task's open job, unless the current watch lasts for
    /// another half a minute. A caller that keeps watching must call this again within [`RENEW_WATCH`].
    /// Returns the row, changed or not; a failed write is ignored.
    pub async fn mark_watched(&self, task: Task) -> Task {
        let now = self.writer.now();
        let Job::Open { started_at, .. } = &task.job else { return task };
        let watched_until = task.watched_until.max(Some(*started_at + INITIAL_WATCH));
        if task.has_ended() || watched_until > Some(now + RENEW_MARGIN) {
            return task;
        }
        let event = Event::Watched { until: now + WATCH_DURATION };
        match self.writer.apply(task.clone(), event, Lease::Keep).await {
            Ok(Some(task)) => task,
            // The watch is only a hint for polling; the next read renews it.
            Ok(None) | Err(_) => task,
        }
    }

    /// Waits until `is_done` returns true for the task, or the `timeout` expires. Without a timeout it
    /// waits indefinitely.
    ///
    /// Returns the task's state then; `None` if the caller can read no such task any more.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn wait(
        &self,
        by: &dyn Actor,
        id: &TaskId,
        timeout: Option<Duration>,
        is_done: impl Fn(&Task) -> bool,
    ) -> Result<Option<View>> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut listener = self.listen(id);
        loop {
            let Some(task) = self.find(by, id).await? else { return Ok(None) };
            let task = self.mark_watched(task).await;
            let out_of_time = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if out_of_time || is_done(&task) {
                return self.view(task).await.map(Some);
            }
            // A task that expires during the wait becomes "not found", and no write notifies about it.
            let remaining = task.kept_until().since(self.writer.now()) + Duration::from_millis(1);
            let until_expiry = Instant::now() + remaining.min(Duration::from_secs(86_400));
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

    /// Returns up to `limit` tasks of this owner, newest first, starting after `after`.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn list(&self, owner: &Owner, after: Option<&Position>, limit: usize) -> Result<Vec<View>> {
        let rows = self.writer.store.list(owner, after, limit).await?;
        let mut views = Vec::with_capacity(rows.len());
        for task in rows {
            views.push(self.view(task).await?);
        }
        Ok(views)
    }

    /// Returns up to `limit` tasks of this owner, newest first, as plain rows.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn newest(&self, owner: &Owner, limit: usize) -> Result<Vec<Task>> {
        self.writer.store.list(owner, None, limit).await
    }

    /// Subscribes to hints about a task.
    pub fn listen(&self, id: &TaskId) -> Listener {
        self.writer.watch.listen(id)
    }

    /// Subscribes to the writes of this row, or of all rows.
    pub fn listen_to_rows(&self, id: Option<&TaskId>) -> RowListener {
        self.writer.watch.listen_to_rows(id)
    }

    /// Returns the history of a task that the caller was given, oldest entry first. It is empty if none is
    /// kept.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn history(&self, task: &Task) -> Result<Vec<HistoryEntry>> {
        self.writer.store.entries(&task.id).await
    }

    /// Subscribes to hints about the tasks of a channel.
    pub fn changes(&self, channel: &str) -> ChangeSubscription {
        self.writer.watch.changes(channel)
    }

    /// Subscribes to hints about these tasks.
    pub fn follow(&self, tasks: impl IntoIterator<Item = TaskId>) -> ChangeSubscription {
        self.writer.watch.follow(tasks)
    }

    /// Returns the tasks of a channel that have not ended.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn of_channel(&self, channel: &str) -> Result<Vec<Task>> {
        self.writer.store.of_channel(channel).await
    }

    /// Returns a row with the derived values for a client.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn view(&self, task: Task) -> Result<View> {
        let ahead = if task.is_queued() { Some(self.writer.store.ahead(&task).await?) } else { None };
        let since = match &task.job {
            Job::Open { started_at, .. } => *started_at,
            _ => task.created_at,
        };
        let age = self.writer.now().since(since);
        let usual = self.usual_duration_of(&task).await?;
        let poll_interval = self.poll_intervals.poll_interval(age, usual);
        Ok(View { task, ahead, poll_interval, age, usual })
    }

    /// Returns the usual duration of this task's variant of its tool, or else that of all the tool's jobs.
    ///
    /// # Errors
    /// If the store is unavailable.
    async fn usual_duration_of(&self, task: &Task) -> Result<Option<UsualDuration>> {
        for key in duration_keys(task) {
            if let Some(usual) = self.usual_duration(&key).await? {
                return Ok(Some(usual));
            }
        }
        Ok(None)
    }

    /// Returns the usual duration of a tool's jobs, cached for ten seconds, so that a poll costs no second
    /// query.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn usual_duration(&self, tool: &str) -> Result<Option<UsualDuration>> {
        if let Some((read_at, usual)) = self.usual_durations.lock().get(tool)
            && read_at.elapsed() < Duration::from_secs(10)
        {
            return Ok(*usual);
        }
        let usual = self.writer.store.usual_duration(tool).await?;
        self.usual_durations.lock().insert(tool.to_owned(), (Instant::now(), usual));
        Ok(usual)
    }
}
