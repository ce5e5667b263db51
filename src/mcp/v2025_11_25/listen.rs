//! Sends a session what it gets outside its own requests: status, progress and log messages of its tasks,
//! questions that no waiting request carries, and changes of lists and resources. They go out on a GET
//! stream, or on stdio with everything else. Everything is derived from rows, so that a new stream misses
//! nothing that still matters. It must not decide which stream of a session is active.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use taskbridge_sdk::Timestamp;
use tokio::time::Instant;

use super::questions::QuestionSender;
use super::{SessionCall, logging, to_wire, wire};
use crate::mcp::fallback::{self, VisibleStatus};
use crate::mcp::message_sink::{MessageSink, Resume};
use crate::mcp::offers::{Edition, List};
use crate::mcp::resource_subscriptions::{ResourceChanges, ResourceSubscriptions};
use crate::mcp::session::Session;
use crate::mcp::stream_election::{SentStatus, StreamCandidate};
use crate::tasks::service::{ListenerGuard, RENEW_WATCH, View};
use crate::tasks::store::{SessionChange, StoreError};
use crate::tasks::streams::{self, StreamNote};
use crate::tasks::task::{Task, TaskId, TaskState};
use crate::tasks::watch::ChangeSubscription;

/// Minimum time between two rounds of messages. Of faster changes, only the newest is sent.
const SPACING: Duration = Duration::from_millis(200);
/// How long a new question is reserved for streams that wait for its task.
const GRACE: Duration = Duration::from_millis(500);
/// How many of an owner's newest tasks are searched for missed changes.
const MOST_MISSED: usize = 100;
/// Pause after an error of the store.
const PAUSE: Duration = Duration::from_secs(1);

/// Sends messages to the session until it is dropped. The parameters are as in `v2025_11_25::listen`.
pub(super) async fn listen(
    call: &SessionCall<'_>,
    (n, since): (u64, Timestamp),
    (lists, taken_up): (Option<Edition>, bool),
    outlet: &dyn MessageSink,
) {
    let SessionCall { bridge, session, .. } = *call;
    // Once the stream is open, the client may have read the lists before this point is reached.
    let when_opened = lists.unwrap_or_else(|| bridge.offers.edition_for(&call.caller.principal));
    let turn = bridge.speakers.enter(&session.nonce, n, since, when_opened);
    let listening = (n > 0).then(|| bridge.service.listening(&session.nonce, n, session.expires));
    let _leaving = listening.map(|listening| Leaving { call, turn: &turn, listening });
    // Messages on the broken stream may have been lost, so only the lists that its event id names count as
    // known.
    lists.filter(|_| taken_up).into_iter().for_each(|lists| turn.knows_lists(lists));
    loop {
        turn.begins().await;
        // Each turn has a new question sender. When the turn ends, the stream that takes over asks the open
        // questions again.
        let carrier = QuestionSender::new(call, outlet, GRACE, None);
        let follows = ResourceSubscriptions::new(call.bridge, &call.caller.principal);
        let (polls, looks) = (bridge.service.follow([]), HashMap::new());
        let mut speaker =
            ActiveStream { call, turn: &turn, is_known: n > 0, outlet, carrier, follows, polls, looks };
        tokio::select! {
            biased;
            () = turn.ends() => {}
            Err(error) = speaker.speak(&session.nonce) => {
                tracing::error!(%error, "a listening stream cannot read its tasks");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        }
        drop(speaker);
        if n > 0 {
            hand_over(call, &turn).await;
        }
    }
}

/// A stream that other processes know of. On drop, the active stream leaves them what it has sent.
struct Leaving<'a> {
    call: &'a SessionCall<'a>,
    turn: &'a StreamCandidate,
    listening: ListenerGuard,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if self.turn.is_active() {
            self.listening.ended(self.turn.hand_over(self.call.bridge.clock.now()));
        }
    }
}

/// Stores what was sent, for the stream in another process that continues.
async fn hand_over(call: &SessionCall<'_>, turn: &StreamCandidate) {
    let told = turn.hand_over(call.bridge.clock.now());
    if told.is_empty() {
        return;
    }
    let (Session { nonce, expires, .. }, note) = (call.session, StreamNote::Told(told));
    if let Err(error) = call.bridge.store.set(nonce, SessionChange::Streams(note), *expires).await {
        tracing::warn!(%error, "what was told on a stream is told again on the next");
    }
}

/// The active stream: the one of the session that sends.
struct ActiveStream<'a> {
    call: &'a SessionCall<'a>,
    turn: &'a StreamCandidate,
    /// True if other processes know of this stream, and may have a newer one of the session.
    is_known: bool,
    outlet: &'a dyn MessageSink,
    carrier: QuestionSender<'a>,
    follows: ResourceSubscriptions<'a>,
    /// Change hints for the tasks of other sessions that this one polls.
    polls: ChangeSubscription,
    /// When tasks with questions must be checked again, with or without a hint.
    looks: HashMap<TaskId, Timestamp>,
}

impl ActiveStream<'_> {
    /// Sends messages until the store fails.
    async fn speak(&mut self, session: &str) -> Result<std::convert::Infallible, StoreError> {
        let bridge = self.call.bridge;
        let mut editions = bridge.offers.editions();
        editions.mark_unchanged();
        let caller = &self.call.caller.principal;
        self.notify_lists(bridge.offers.edition_for(caller)).await?;
        let mut changes = bridge.service.changes(session);
        let mut behind = {
            let tasks = bridge.service.of_session(session).await?;
            self.init_sent_statuses(&tasks);
            let mut behind = self.look_up(session).await?;
            behind.extend(self.pending_tasks(&tasks));
            behind
        };
        let mut renew_watch = Instant::now() + RENEW_WATCH;
        loop {
            for id in behind.drain() {
                Box::pin(self.catch_up(&id)).await?;
            }
            let collect = Box::pin(self.carrier.collect()).await?;
            tokio::time::sleep(SPACING).await;
            let now = bridge.clock.now();
            let next = self.looks.values().copied().chain(collect).min();
            tokio::select! {
                biased;
                // First, because it is rare: tasks that change all the time must not delay it.
                news = self.follows.next() => self.notify_resources(news?).await?,
                Ok(()) = editions.changed() => {
                    editions.mark_unchanged();
                    self.notify_lists(bridge.offers.edition_for(caller)).await?;
                }
                changed = changes.next() => {
                    behind.extend(changed.tasks);
                    if changed.others {
                        let tasks = bridge.service.of_session(session).await?;
                        behind.extend(self.look_up(session).await?);
                        behind.extend(self.pending_tasks(&tasks));
                        if changed.missed {
                            behind.extend(Box::pin(self.missed(session)).await?);
                        }
                        behind.extend(self.carrier.tasks().cloned());
                    }
                }
                changed = self.polls.next() => behind.extend(changed.tasks),
                () = self.carrier.hint() => {}
                () = sleep_until(next, now) => {}
                () = tokio::time::sleep_until(renew_watch), if self.turn.with_sent_statuses(|told| !told.is_empty()) => {
                    for task in bridge.service.of_session(session).await? {
                        bridge.service.mark_watched(task).await;
                    }
                    renew_watch = Instant::now() + RENEW_WATCH;
                }
            }
            let now = bridge.clock.now();
            behind.extend(self.looks.iter().filter(|(_, at)| **at <= now).map(|(id, _)| id.clone()));
        }
    }

    /// Initializes what was sent when a stream opens. The status of each task is sent again, since changes
    /// may have been missed. Progress counts as sent, because nothing may be reported twice under a progress
    /// token.
    fn init_sent_statuses(&self, tasks: &[Task]) {
        self.turn.with_sent_statuses(|told| {
            for task in tasks {
                let nothing = VisibleStatus { state: TaskState::Working, message: None };
                told.entry(task.id.clone()).or_insert_with(|| SentStatus {
                    changed_at: task.created_at,
                    words: words(&nothing),
                    progress: task.furthest,
                });
            }
        });
    }

    /// Returns the tasks that may have something to send, with those that have ended meanwhile. `tasks` are
    /// all tasks of the session that have not ended.
    fn pending_tasks(&self, tasks: &[Task]) -> HashSet<TaskId> {
        self.turn.with_sent_statuses(|told| {
            let mut ended: HashSet<TaskId> = told.keys().cloned().collect();
            let mut behind = HashSet::new();
            for task in tasks {
                ended.remove(&task.id);
                let is_told = told.get(&task.id).is_some_and(|told| told.changed_at == task.changed_at)
                    && !self.turn.heard(task).is_behind(task);
                if !is_told || task.open_questions().next().is_some() {
                    behind.insert(task.id.clone());
                }
            }
            behind.extend(ended);
            behind
        })
    }

    /// Loads the session's resource subscriptions, and what other processes recorded for it. Returns the
    /// tasks of other sessions that it polls.
    async fn look_up(&mut self, session: &str) -> Result<HashSet<TaskId>, StoreError> {
        let settings = self.call.bridge.store.settings(session).await?.unwrap_or_default();
        self.follows.set(&settings.follows);
        settings.polls.iter().for_each(|task| self.polls.add_task(task));
        if self.is_known {
            self.turn.take_over(settings.streams.told().cloned());
        }
        Ok(settings.polls.into_iter().collect())
    }

    /// Returns the tasks that began and ended since the last check, for when hints were missed. Only the
    /// owner's newest `MOST_MISSED` tasks are searched.
    async fn missed(&self, session: &str) -> Result<Vec<TaskId>, StoreError> {
        let now = self.call.bridge.clock.now();
        let since = self.turn.begin_scan(now);
        let newest = self.call.bridge.service.newest(self.call.owner(), MOST_MISSED).await?;
        let missed = newest.into_iter().filter(|task| {
            let of_session = task.origin.session.as_deref() == Some(session);
            of_session && task.has_ended() && task.created_at >= since && !self.turn.is_end_sent(&task.id)
        });
        Ok(missed.map(|task| task.id).collect())
    }

    /// Returns true if this stream may send, by the session's row. Also returns what a request that waited in
    /// another process was sent about `task`.
    async fn may_speak(
        &self,
        task: Option<&TaskId>,
    ) -> Result<(bool, Option<streams::TaskReport>), StoreError> {
        if !self.is_known {
            return Ok((true, None));
        }
        let SessionCall { bridge, session, .. } = self.call;
        let streams = bridge.store.settings(&session.nonce).await?.unwrap_or_default().streams;
        bridge.speakers.set_newest_stream(&session.nonce, streams.speaker(bridge.clock.now()));
        let by_request = |told: &&streams::TaskReport| told.handed.is_none() && Some(&told.task) == task;
        Ok((self.turn.is_active(), streams.told().find(by_request).cloned()))
    }

    /// Sends a notification for each list that differs from what the session knows.
    async fn notify_lists(&self, now: Edition) -> Result<(), StoreError> {
        let known = self.turn.lists_known();
        if now.differing(known).next().is_some() && !Box::pin(self.may_speak(None)).await?.0 {
            return Ok(());
        }
        for list in now.differing(known) {
            let method = match list {
                List::Tools => "notifications/tools/list_changed",
                List::Prompts => "notifications/prompts/list_changed",
                List::Resources => "notifications/resources/list_changed",
            };
            self.outlet.send(to_wire::notification(method, wire::Empty {})).await;
        }
        // Only after sending: a stream that breaks earlier is resumed with the edition from before.
        self.turn.knows_lists(now);
        self.outlet.resumable(Resume::Listen { lists: Some(now) });
        Ok(())
    }

    /// Sends which resources have changed. Unsubscribes from those that cannot change again.
    async fn notify_resources(&self, news: ResourceChanges) -> Result<(), StoreError> {
        if !Box::pin(self.may_speak(None)).await?.0 {
            return Ok(());
        }
        for uri in &news.changed {
            let params = wire::ResourceUpdated { uri };
            self.outlet.send(to_wire::notification("notifications/resources/updated", params)).await;
        }
        let Session { nonce, expires, .. } = self.call.session;
        for uri in news.over {
            self.call.bridge.store.set(nonce, SessionChange::Unfollow(uri), *expires).await?;
        }
        Ok(())
    }

    /// Sends news about a task.
    async fn catch_up(&mut self, id: &TaskId) -> Result<(), StoreError> {
        let Some(view) = self.call.bridge.service.get(&self.call.actor(), id).await? else {
            self.turn.with_sent_statuses(|told| told.remove(id));
            self.looks.remove(id);
            return self.end_poll(id).await;
        };
        // Status notifications go to the session that created the task. Other sessions poll it, and only get
        // its questions.
        let is_own = view.task.origin.session.as_ref() == Some(&self.call.session.nonce);
        // The client of a plain call whose result is undelivered does not know the task. After the end of a
        // task was sent, nothing follows, however many hints still arrive.
        if is_own && self.call.has_tasks() && view.task.undelivered.is_none() && !self.turn.is_end_sent(id) {
            let mut heard = self.turn.heard(&view.task);
            let standing = fallback::standing(self.call.bridge, &view, self.call.client_for(&view.task));
            // Read after the row: another process may have sent something about the task that is not known
            // here.
            let (may, told) = match heard.is_behind(&view.task) || self.is_news(&view.task, &standing) {
                true => Box::pin(self.may_speak(Some(id))).await?,
                false => (true, None),
            };
            if may {
                heard = told.map_or(heard, |told| heard.with(&told));
                let sayings = heard.catch_up(&view.task);
                self.turn.store_log_cursor(&view.task, heard);
                logging::send_log_messages(self.call, sayings, Some(&view.task.id), self.outlet).await?;
                self.notify_status(&view, standing).await;
            }
        }
        match self.carrier.attend(&view.task).await? {
            Some(look) => self.looks.insert(id.clone(), look),
            None => self.looks.remove(id),
        };
        if view.task.has_ended() { self.end_poll(id).await } else { Ok(()) }
    }

    /// Stops asking the questions of this task, if it is polled as a task of another session.
    async fn end_poll(&mut self, task: &TaskId) -> Result<(), StoreError> {
        if self.polls.remove_task(task) {
            let Session { nonce, expires, .. } = self.call.session;
            self.call.bridge.store.set(nonce, SessionChange::EndPoll(task.clone()), *expires).await?;
        }
        Ok(())
    }

    /// Returns what the session was last sent about a task, or else what the answer to the call reported.
    fn before(&self, task: &Task, standing: &VisibleStatus) -> SentStatus {
        self.turn
            .with_sent_statuses(|told| told.get(&task.id).copied())
            .unwrap_or_else(|| first(task, standing))
    }

    /// Returns true if there is news apart from log messages.
    fn is_news(&self, task: &Task, standing: &VisibleStatus) -> bool {
        let before = self.before(task, standing);
        let further = task.furthest.is_some_and(|reached| before.progress.is_none_or(|told| reached > told));
        before.words != words(standing) || further
    }

    async fn notify_status(&self, view: &View, standing: VisibleStatus) {
        let task = &view.task;
        let before = self.before(task, &standing);
        let mut now =
            SentStatus { changed_at: task.changed_at, words: words(&standing), progress: before.progress };
        if let (Some(token), Some(reached), false) =
            (&task.origin.progress_token, task.furthest, task.has_ended())
            && before.progress.is_none_or(|told| reached > told)
        {
            now.progress = Some(reached);
            self.remember(task, now);
            let progress = wire::Progress {
                progress_token: token,
                progress: reached,
                total: task.progress.and_then(|progress| progress.total).filter(|total| *total >= reached),
                message: standing.message,
                meta: Some(to_wire::related_meta(&task.id)),
            };
            self.outlet.send(to_wire::notification("notifications/progress", progress)).await;
        }
        self.remember(task, now);
        if now.words != before.words {
            let told = to_wire::task(self.call.bridge, view, self.call.client_for(&view.task));
            self.outlet.send(to_wire::notification("notifications/tasks/status", told)).await;
        }
    }

    fn remember(&self, task: &Task, now: SentStatus) {
        self.turn.with_sent_statuses(|told| match task.has_ended() {
            true => told.remove(&task.id),
            false => told.insert(task.id.clone(), now),
        });
        if task.has_ended() {
            self.turn.record_end_sent(&task.id, task.created_at, now.words);
        }
    }
}

/// Returns what the answer to the call reported about its task.
fn first(task: &Task, standing: &VisibleStatus) -> SentStatus {
    let message = standing.message.clone().filter(|_| task.changed_at == task.created_at);
    let words = words(&VisibleStatus { state: TaskState::Working, message });
    SentStatus { changed_at: task.created_at, words, progress: None }
}

/// Returns a hash of a status, to detect whether it is new.
fn words(standing: &VisibleStatus) -> u64 {
    let mut hasher = DefaultHasher::new();
    fallback::word(standing.state).hash(&mut hasher);
    standing.message.hash(&mut hasher);
    hasher.finish()
}

async fn sleep_until(at: Option<Timestamp>, now: Timestamp) {
    match at {
        Some(at) => tokio::time::sleep(at.since(now)).await,
        None => std::future::pending().await,
    }
}
