//! Sends a session what it gets outside its own requests: status, progress and log messages of its tasks,
//! questions that no waiting request carries, and changes of lists and resources. They go out on a GET
//! stream, or on stdio with everything else. Everything is derived from rows, so that a new stream misses
//! nothing that still matters. It must not decide which stream of a session is active.

mod status;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::json;
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;

use super::questions::QuestionSender;
use super::{SessionCall, logging, to_wire};
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::features::resources::subscriptions::{ResourceChanges, ResourceSubscriptions};
use crate::mcp::features::tools::handle;
use crate::mcp::session::edition::{Edition, List};
use crate::mcp::session::listener_guard::ListenerGuard;
use crate::mcp::session::message_sink::{MessageSink, Resume};
use crate::mcp::session::stream_election::StreamCandidate;
use crate::mcp::session::token::Session;
use crate::sessions::SessionChange;
use crate::sessions::streams::{self, StreamEvent};
use crate::tasks::service::RENEW_WATCH;
use crate::tasks::store::StoreError;
use crate::tasks::task::{Task, TaskId};
use crate::tasks::watch::ChangeSubscription;

/// Minimum time between two rounds of messages. Of faster changes, only the newest is sent.
const SPACING: Duration = Duration::from_millis(200);
/// How long a new question is reserved for streams that wait for its task.
const GRACE: Duration = Duration::from_millis(500);
/// How many of an owner's newest tasks are searched for missed changes.
const MAX_SEARCHED: usize = 100;
/// Pause after an error of the store.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Sends messages to the session until it is dropped. The parameters are as in `v2025_11_25::listen`.
pub(super) async fn listen(
    call: &SessionCall<'_>,
    (n, since): (u64, Timestamp),
    (lists, is_resumed): (Option<Edition>, bool),
    sink: &dyn MessageSink,
) {
    let SessionCall { bridge, session, .. } = *call;
    // Once the stream is open, the client may have read the lists before this point is reached.
    let edition = lists.unwrap_or_else(|| bridge.context.offers.edition_for(&call.caller.principal));
    let candidate = bridge.sessions.stream_election.enter(&session.nonce, n, since, edition);
    let listener = (n > 0).then(|| bridge.sessions.guard_listener(&bridge.context.service, session, n));
    let _handover = listener.map(|listener| ListenerHandover { call, candidate: &candidate, listener });
    // Messages on the broken stream may have been lost, so only the lists that its event id names count as
    // known.
    lists.filter(|_| is_resumed).into_iter().for_each(|lists| candidate.set_known_lists(lists));
    loop {
        candidate.wait_until_active().await;
        // Each turn has a new question sender. When the turn ends, the stream that takes over asks the open
        // questions again.
        let question_sender = QuestionSender::new(call, sink, GRACE, None);
        let subscriptions = ResourceSubscriptions::new(&call.bridge.context, &call.caller.principal);
        let (polled_changes, recheck_at) = (bridge.context.service.follow([]), HashMap::new());
        let mut active_stream = ActiveStream {
            call,
            candidate: &candidate,
            is_known: n > 0,
            sink,
            question_sender,
            subscriptions,
            polled_changes,
            recheck_at,
        };
        tokio::select! {
            biased;
            () = candidate.wait_until_inactive() => {}
            Err(error) = active_stream.run(&session.nonce) => {
                tracing::error!(%error, "a listening stream cannot read its tasks");
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
        }
        drop(active_stream);
        if n > 0 {
            hand_over(call, &candidate).await;
        }
    }
}

/// A stream that other processes know of. On drop, the active stream leaves them what it has sent.
struct ListenerHandover<'a> {
    call: &'a SessionCall<'a>,
    candidate: &'a StreamCandidate,
    listener: ListenerGuard,
}

impl Drop for ListenerHandover<'_> {
    fn drop(&mut self) {
        if self.candidate.is_active() {
            self.listener.set_reports(self.candidate.hand_over(self.call.bridge.context.clock.now()));
        }
    }
}

/// Stores what was sent, for the stream in another process that continues.
async fn hand_over(call: &SessionCall<'_>, candidate: &StreamCandidate) {
    let reports = candidate.hand_over(call.bridge.context.clock.now());
    if reports.is_empty() {
        return;
    }
    let (Session { nonce, expires, .. }, note) = (call.session, StreamEvent::Reported(reports));
    if let Err(error) = call.bridge.sessions.store.set(nonce, SessionChange::Streams(note), *expires).await {
        tracing::warn!(%error, "the state of a stream cannot be stored; the next stream repeats its messages");
    }
}

/// The active stream: the one of the session that sends.
struct ActiveStream<'a> {
    call: &'a SessionCall<'a>,
    candidate: &'a StreamCandidate,
    /// True if other processes know of this stream, and may have a newer one of the session.
    is_known: bool,
    sink: &'a dyn MessageSink,
    question_sender: QuestionSender<'a>,
    subscriptions: ResourceSubscriptions<'a>,
    /// Change hints for the tasks of other sessions that this one polls.
    polled_changes: ChangeSubscription,
    /// When tasks with questions must be checked again, with or without a hint.
    recheck_at: HashMap<TaskId, Timestamp>,
}

impl ActiveStream<'_> {
    /// Sends messages until the store fails.
    async fn run(&mut self, session: &str) -> Result<std::convert::Infallible, StoreError> {
        let bridge = self.call.bridge;
        let mut editions = bridge.context.offers.editions();
        editions.mark_unchanged();
        let caller = &self.call.caller.principal;
        self.notify_lists(bridge.context.offers.edition_for(caller)).await?;
        let mut changes = bridge.context.service.changes(session);
        let mut pending = {
            let tasks = bridge.context.service.of_channel(session).await?;
            self.init_sent_statuses(&tasks);
            let mut pending = self.load_settings(session).await?;
            pending.extend(self.pending_tasks(&tasks));
            pending
        };
        let mut renew_watch = Instant::now() + RENEW_WATCH;
        loop {
            for id in pending.drain() {
                Box::pin(self.catch_up(&id)).await?;
            }
            let next_collection = Box::pin(self.question_sender.collect()).await?;
            tokio::time::sleep(SPACING).await;
            let now = bridge.context.clock.now();
            let next = self.recheck_at.values().copied().chain(next_collection).min();
            tokio::select! {
                biased;
                // First, because it is rare: tasks that change all the time must not delay it.
                resource_changes = self.subscriptions.next() => self.notify_resources(resource_changes?).await?,
                Ok(()) = editions.changed() => {
                    editions.mark_unchanged();
                    self.notify_lists(bridge.context.offers.edition_for(caller)).await?;
                }
                changed = changes.next() => {
                    pending.extend(changed.tasks);
                    if changed.others {
                        let tasks = bridge.context.service.of_channel(session).await?;
                        pending.extend(self.load_settings(session).await?);
                        pending.extend(self.pending_tasks(&tasks));
                        if changed.missed {
                            pending.extend(Box::pin(self.find_missed(session)).await?);
                        }
                        pending.extend(self.question_sender.tasks().cloned());
                    }
                }
                changed = self.polled_changes.next() => pending.extend(changed.tasks),
                () = self.question_sender.wait_for_hint() => {}
                () = sleep_until(next, now) => {}
                () = tokio::time::sleep_until(renew_watch), if self.candidate.with_sent_statuses(|statuses| !statuses.is_empty()) => {
                    for task in bridge.context.service.of_channel(session).await? {
                        bridge.context.service.mark_watched(task).await;
                    }
                    renew_watch = Instant::now() + RENEW_WATCH;
                }
            }
            let now = bridge.context.clock.now();
            pending.extend(self.recheck_at.iter().filter(|(_, at)| **at <= now).map(|(id, _)| id.clone()));
        }
    }

    /// Returns the tasks that may have something to send, with those that have ended meanwhile. `tasks` are
    /// all tasks of the session that have not ended.
    fn pending_tasks(&self, tasks: &[Task]) -> HashSet<TaskId> {
        self.candidate.with_sent_statuses(|statuses| {
            let mut ended: HashSet<TaskId> = statuses.keys().cloned().collect();
            let mut pending = HashSet::new();
            for task in tasks {
                ended.remove(&task.id);
                let is_reported =
                    statuses.get(&task.id).is_some_and(|sent| sent.changed_at == task.changed_at)
                        && !self.candidate.log_cursor(task).is_behind(task);
                if !is_reported || task.open_questions().next().is_some() {
                    pending.insert(task.id.clone());
                }
            }
            pending.extend(ended);
            pending
        })
    }

    /// Loads the session's resource subscriptions, and what other processes recorded for it. Returns the
    /// tasks of other sessions that it polls.
    async fn load_settings(&mut self, session: &str) -> Result<HashSet<TaskId>, StoreError> {
        let settings = self.call.bridge.sessions.store.settings(session).await?.unwrap_or_default();
        self.subscriptions.set(&settings.follows);
        settings.polls.iter().for_each(|task| self.polled_changes.add_task(task));
        if self.is_known {
            self.candidate.take_over(settings.streams.reports().cloned());
        }
        Ok(settings.polls.into_iter().collect())
    }

    /// Returns the tasks that began and ended since the last check, for when hints were missed. Only the
    /// owner's newest `MAX_SEARCHED` tasks are searched.
    async fn find_missed(&self, session: &str) -> Result<Vec<TaskId>, StoreError> {
        let now = self.call.bridge.context.clock.now();
        let since = self.candidate.begin_scan(now);
        let newest = self.call.bridge.context.service.newest(self.call.owner(), MAX_SEARCHED).await?;
        let missed = newest.into_iter().filter(|task| {
            let of_session = task.origin.channel.as_deref() == Some(session);
            of_session
                && task.has_ended()
                && task.created_at >= since
                && !self.candidate.is_end_sent(&task.id)
        });
        Ok(missed.map(|task| task.id).collect())
    }

    /// Returns true if this stream may send, by the session's row. Also returns what a request that waited in
    /// another process was sent about `task`.
    async fn may_send(
        &self,
        task: Option<&TaskId>,
    ) -> Result<(bool, Option<streams::TaskReport>), StoreError> {
        if !self.is_known {
            return Ok((true, None));
        }
        let SessionCall { bridge, session, .. } = self.call;
        let streams = bridge.sessions.store.settings(&session.nonce).await?.unwrap_or_default().streams;
        bridge
            .sessions
            .stream_election
            .set_newest_stream(&session.nonce, streams.active_listener(bridge.context.clock.now()));
        let by_request =
            |report: &&streams::TaskReport| report.handed.is_none() && Some(&report.task) == task;
        Ok((self.candidate.is_active(), streams.reports().find(by_request).cloned()))
    }

    /// Sends a notification for each list that differs from what the session knows.
    async fn notify_lists(&self, edition: Edition) -> Result<(), StoreError> {
        let known_lists = self.candidate.known_lists();
        if edition.differing(known_lists).next().is_some() && !Box::pin(self.may_send(None)).await?.0 {
            return Ok(());
        }
        for list in edition.differing(known_lists) {
            let method = match list {
                List::Tools => "notifications/tools/list_changed",
                List::Prompts => "notifications/prompts/list_changed",
                List::Resources => "notifications/resources/list_changed",
            };
            self.sink.send(to_wire::notification(method, json!({}))).await;
        }
        // Only after sending: a stream that breaks earlier is resumed with the edition from before.
        self.candidate.set_known_lists(edition);
        self.sink.set_resume(Resume::Listen { lists: Some(edition) });
        Ok(())
    }

    /// Sends which resources have changed. Unsubscribes from those that cannot change again.
    async fn notify_resources(&self, changes: ResourceChanges) -> Result<(), StoreError> {
        if !Box::pin(self.may_send(None)).await?.0 {
            return Ok(());
        }
        for uri in &changes.changed {
            let params = json!({ "uri": uri });
            self.sink.send(to_wire::notification("notifications/resources/updated", params)).await;
        }
        let Session { nonce, expires, .. } = self.call.session;
        for uri in changes.ended {
            self.call.bridge.sessions.store.set(nonce, SessionChange::Unsubscribe(uri), *expires).await?;
        }
        Ok(())
    }

    /// Sends news about a task.
    async fn catch_up(&mut self, id: &TaskId) -> Result<(), StoreError> {
        let Some(view) = self.call.bridge.context.service.get(&self.call.actor(), id).await? else {
            self.candidate.with_sent_statuses(|statuses| statuses.remove(id));
            self.recheck_at.remove(id);
            return self.end_poll(id).await;
        };
        // Status notifications go to the session that created the task. Other sessions poll it, and only get
        // its questions.
        let is_own = view.task.origin.channel.as_ref() == Some(&self.call.session.nonce);
        // The client of a plain call whose result is undelivered does not know the task. After the end of a
        // task was sent, nothing follows, however many hints still arrive.
        if is_own
            && self.call.has_tasks()
            && view.task.undelivered.is_none()
            && !self.candidate.is_end_sent(id)
        {
            let mut cursor = self.candidate.log_cursor(&view.task);
            let status =
                handle::visible_status(&self.call.bridge.context, &view, self.call.client_for(&view.task));
            // Read after the row: another process may have sent something about the task that is not known
            // here.
            let (is_allowed, report) = match cursor.is_behind(&view.task) || self.is_news(&view.task, &status)
            {
                true => Box::pin(self.may_send(Some(id))).await?,
                false => (true, None),
            };
            if is_allowed {
                cursor = report.map_or(cursor, |report| cursor.merge(&report));
                let messages = cursor.catch_up(&view.task);
                self.candidate.store_log_cursor(&view.task, cursor);
                logging::send_log_messages(self.call, messages, Some(&view.task.id), self.sink).await?;
                self.notify_status(&view, status).await;
            }
        }
        match self.question_sender.sync(&view.task).await? {
            Some(at) => self.recheck_at.insert(id.clone(), at),
            None => self.recheck_at.remove(id),
        };
        if view.task.has_ended() { self.end_poll(id).await } else { Ok(()) }
    }

    /// Stops asking the questions of this task, if it is polled as a task of another session.
    async fn end_poll(&mut self, task: &TaskId) -> Result<(), StoreError> {
        if self.polled_changes.remove_task(task) {
            let Session { nonce, expires, .. } = self.call.session;
            self.call
                .bridge
                .sessions
                .store
                .set(nonce, SessionChange::EndPoll(task.clone()), *expires)
                .await?;
        }
        Ok(())
    }
}

async fn sleep_until(at: Option<Timestamp>, now: Timestamp) {
    match at {
        Some(at) => tokio::time::sleep(at.since(now)).await,
        None => std::future::pending().await,
    }
}
