//! What is said to a session without being asked: how its tasks move, how far they have come, and the questions that
//! no waiting request carries; and which lists have changed. It goes out on a GET stream, or beside everything else on stdio. Everything is derived
//! from the rows, so that a stream which opens anew misses nothing that still matters.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use taskbridge_sdk::Timestamp;
use tokio::time::Instant;

use super::questions::Carrier;
use super::{Call, logging, to_wire, wire};
use crate::mcp::fallback::{self, Standing};
use crate::mcp::follows::{Follows, News};
use crate::mcp::offers::{Edition, List};
use crate::mcp::outlet::{Outlet, Resume};
use crate::mcp::session::Session;
use crate::mcp::speakers::{Told, Turn};
use crate::tasks::service::{Listening, RENEW_WATCH, View};
use crate::tasks::store::{Setting, StoreError};
use crate::tasks::streams::{self, StreamNote};
use crate::tasks::task::{Task, TaskId, TaskState};
use crate::tasks::watch::Changes;

/// The shortest time between two rounds of messages: of what changes faster, the newest is told.
const SPACING: Duration = Duration::from_millis(200);
/// How long a new question is left to streams that wait for its task; they come first.
const GRACE: Duration = Duration::from_millis(500);
/// How many of an owner's newest tasks are looked through for what was missed.
const MOST_MISSED: usize = 100;
/// How long to wait after a fault of the store.
const PAUSE: Duration = Duration::from_secs(1);

/// Speaks to the session until it is dropped.
pub(super) async fn listen(
    call: &Call<'_>,
    (n, since): (u64, Timestamp),
    (lists, taken_up): (Option<Edition>, bool),
    outlet: &dyn Outlet,
) {
    let Call { bridge, session, .. } = *call;
    // Whoever was told that the stream is open may have read the lists before this is reached.
    let when_opened = lists.unwrap_or_else(|| bridge.offers.edition_for(&call.caller.principal));
    let turn = bridge.speakers.enter(&session.nonce, n, since, when_opened);
    let listening = (n > 0).then(|| bridge.service.listening(&session.nonce, n, session.expires));
    let _leaving = listening.map(|listening| Leaving { call, turn: &turn, listening });
    // What was sent on a stream that is taken up again perhaps never came.
    lists.filter(|_| taken_up).into_iter().for_each(|lists| turn.knows_lists(lists));
    loop {
        turn.begins().await;
        // What this stream has asked is asked anew by the one that takes over, and dropped here.
        let carrier = Carrier::new(call, outlet, GRACE, None);
        let follows = Follows::new(call.bridge, &call.caller.principal);
        let (polls, looks) = (bridge.service.follow([]), HashMap::new());
        let mut speaker =
            Speaker { call, turn: &turn, is_known: n > 0, outlet, carrier, follows, polls, looks };
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

/// A stream that other processes know of. Dropped, it leaves to them what it told if it was the one that spoke.
struct Leaving<'a> {
    call: &'a Call<'a>,
    turn: &'a Turn,
    listening: Listening,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if self.turn.speaks() {
            self.listening.ended(self.turn.hand_over(self.call.bridge.clock.now()));
        }
    }
}

/// Keeps what was told for the stream in another process that goes on from there.
async fn hand_over(call: &Call<'_>, turn: &Turn) {
    let told = turn.hand_over(call.bridge.clock.now());
    if told.is_empty() {
        return;
    }
    let (Session { nonce, expires, .. }, note) = (call.session, StreamNote::Told(told));
    if let Err(error) = call.bridge.store.set(nonce, Setting::Streams(note), *expires).await {
        tracing::warn!(%error, "what was told on a stream is told again on the next");
    }
}

/// The stream that speaks now.
struct Speaker<'a> {
    call: &'a Call<'a>,
    turn: &'a Turn,
    /// True if other processes know of this stream, and may have one of the session that is newer.
    is_known: bool,
    outlet: &'a dyn Outlet,
    carrier: Carrier<'a>,
    follows: Follows<'a>,
    /// Hints about the tasks of other sessions that this one polls.
    polls: Changes,
    /// When tasks with questions must be looked at again, hint or not.
    looks: HashMap<TaskId, Timestamp>,
}

impl Speaker<'_> {
    /// Speaks for as long as the store can be read.
    async fn speak(&mut self, session: &str) -> Result<std::convert::Infallible, StoreError> {
        let bridge = self.call.bridge;
        let mut editions = bridge.offers.editions();
        editions.mark_unchanged();
        let caller = &self.call.caller.principal;
        self.tell_of_lists(bridge.offers.edition_for(caller)).await?;
        let mut changes = bridge.service.changes(session);
        let mut behind = {
            let tasks = bridge.service.of_session(session).await?;
            self.take_up(&tasks);
            let mut behind = self.look_up(session).await?;
            behind.extend(self.behind(&tasks));
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
                // First, since there is seldom anything: tasks that change all the time must not keep it waiting.
                news = self.follows.next() => self.tell_of_resources(news?).await?,
                Ok(()) = editions.changed() => {
                    editions.mark_unchanged();
                    self.tell_of_lists(bridge.offers.edition_for(caller)).await?;
                }
                changed = changes.next() => {
                    behind.extend(changed.tasks);
                    if changed.others {
                        let tasks = bridge.service.of_session(session).await?;
                        behind.extend(self.look_up(session).await?);
                        behind.extend(self.behind(&tasks));
                        if changed.missed {
                            behind.extend(Box::pin(self.missed(session)).await?);
                        }
                        behind.extend(self.carrier.tasks().cloned());
                    }
                }
                changed = self.polls.next() => behind.extend(changed.tasks),
                () = self.carrier.hint() => {}
                () = sleep_until(next, now) => {}
                () = tokio::time::sleep_until(renew_watch), if self.turn.told(|told| !told.is_empty()) => {
                    for task in bridge.service.of_session(session).await? {
                        bridge.service.is_watched(task).await;
                    }
                    renew_watch = Instant::now() + RENEW_WATCH;
                }
            }
            let now = bridge.clock.now();
            behind.extend(self.looks.iter().filter(|(_, at)| **at <= now).map(|(id, _)| id.clone()));
        }
    }

    /// Takes up what is known when a stream opens. Where the tasks stand is told anew, since changes may have been
    /// missed; how far they have come counts as told, for under a progress token nothing must be reported twice.
    fn take_up(&self, tasks: &[Task]) {
        self.turn.told(|told| {
            for task in tasks {
                let nothing = Standing { state: TaskState::Working, message: None };
                told.entry(task.id.clone()).or_insert_with(|| Told {
                    changed_at: task.created_at,
                    words: words(&nothing),
                    progress: task.furthest,
                });
            }
        });
    }

    /// Which tasks there is something to say of, where these are all of the session that have not ended.
    fn behind(&self, tasks: &[Task]) -> HashSet<TaskId> {
        self.turn.told(|told| {
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

    /// Loads what the session follows, and what other processes recorded for it. Returns the tasks of other sessions that it polls.
    async fn look_up(&mut self, session: &str) -> Result<HashSet<TaskId>, StoreError> {
        let settings = self.call.bridge.store.settings(session).await?.unwrap_or_default();
        self.follows.set(&settings.follows);
        settings.polls.iter().for_each(|task| self.polls.take_up(task));
        if self.is_known {
            self.turn.take_over(settings.streams.told().cloned());
        }
        Ok(settings.polls.into_iter().collect())
    }

    /// Where hints were missed, a task may have begun and ended since the last look: that it ended is told late then.
    async fn missed(&self, session: &str) -> Result<Vec<TaskId>, StoreError> {
        let now = self.call.bridge.clock.now();
        let since = self.turn.looks(now);
        let newest = self.call.bridge.service.newest(self.call.owner(), MOST_MISSED).await?;
        let missed = newest.into_iter().filter(|task| {
            let of_session = task.origin.session.as_deref() == Some(session);
            of_session && task.has_ended() && task.created_at >= since && !self.turn.was_over(&task.id)
        });
        Ok(missed.map(|task| task.id).collect())
    }

    /// True if this stream may speak, as the session's row has it. What a request that waited in another process was
    /// told of `task` comes with it.
    async fn may_speak(&self, task: Option<&TaskId>) -> Result<(bool, Option<streams::Told>), StoreError> {
        if !self.is_known {
            return Ok((true, None));
        }
        let Call { bridge, session, .. } = self.call;
        let streams = bridge.store.settings(&session.nonce).await?.unwrap_or_default().streams;
        bridge.speakers.heed(&session.nonce, streams.speaker(bridge.clock.now()));
        let by_request = |told: &&streams::Told| told.handed.is_none() && Some(&told.task) == task;
        Ok((self.turn.speaks(), streams.told().find(by_request).cloned()))
    }

    /// Tells which lists differ from those that the session knows.
    async fn tell_of_lists(&self, now: Edition) -> Result<(), StoreError> {
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
        // Only once it was told: a stream that breaks before is taken up where it does not know it yet.
        self.turn.knows_lists(now);
        self.outlet.resumable(Resume::Listen { lists: Some(now) });
        Ok(())
    }

    /// Tells which resources have changed. What never will again is not followed any longer.
    async fn tell_of_resources(&self, news: News) -> Result<(), StoreError> {
        if !Box::pin(self.may_speak(None)).await?.0 {
            return Ok(());
        }
        for uri in &news.changed {
            let params = wire::ResourceUpdated { uri };
            self.outlet.send(to_wire::notification("notifications/resources/updated", params)).await;
        }
        let Session { nonce, expires, .. } = self.call.session;
        for uri in news.over {
            self.call.bridge.store.set(nonce, Setting::Unfollow(uri), *expires).await?;
        }
        Ok(())
    }

    /// Tells what is new of a task.
    async fn catch_up(&mut self, id: &TaskId) -> Result<(), StoreError> {
        let Some(view) = self.call.bridge.service.get(&self.call.actor(), id).await? else {
            self.turn.told(|told| told.remove(id));
            self.looks.remove(id);
            return self.end_poll(id).await;
        };
        // Status notifications go to the session that made the task; other sessions poll it, and get its questions alone.
        let is_own = view.task.origin.session.as_ref() == Some(&self.call.session.nonce);
        // A plain call whose job is still waited for is nothing that its client knows as a task.
        // Nor is there more to say of one whose end was told, however many hints of it are still on their way.
        if is_own && self.call.has_tasks() && view.task.undelivered.is_none() && !self.turn.was_over(id) {
            let mut heard = self.turn.heard(&view.task);
            let standing = fallback::standing(self.call.bridge, &view, self.call.client_for(&view.task));
            // Read after the row: what another process has said of it since then, this one does not know of.
            let (may, told) = match heard.is_behind(&view.task) || self.is_news(&view.task, &standing) {
                true => Box::pin(self.may_speak(Some(id))).await?,
                false => (true, None),
            };
            if may {
                heard = told.map_or(heard, |told| heard.with(&told));
                let sayings = heard.catch_up(&view.task);
                self.turn.now_heard(&view.task, heard);
                logging::tell(self.call, sayings, Some(&view.task.id), self.outlet).await?;
                self.tell(&view, standing).await;
            }
        }
        match self.carrier.attend(&view.task).await? {
            Some(look) => self.looks.insert(id.clone(), look),
            None => self.looks.remove(id),
        };
        if view.task.has_ended() { self.end_poll(id).await } else { Ok(()) }
    }

    /// There is nothing more to ask for this task of another session, if it is one.
    async fn end_poll(&mut self, task: &TaskId) -> Result<(), StoreError> {
        if self.polls.let_go(task) {
            let Session { nonce, expires, .. } = self.call.session;
            self.call.bridge.store.set(nonce, Setting::EndPoll(task.clone()), *expires).await?;
        }
        Ok(())
    }

    /// What the session was told of a task.
    fn before(&self, task: &Task, standing: &Standing) -> Told {
        self.turn.told(|told| told.get(&task.id).copied()).unwrap_or_else(|| first(task, standing))
    }

    /// True if there is something to tell, beside notes.
    fn is_news(&self, task: &Task, standing: &Standing) -> bool {
        let before = self.before(task, standing);
        let further = task.furthest.is_some_and(|reached| before.progress.is_none_or(|told| reached > told));
        before.words != words(standing) || further
    }

    async fn tell(&self, view: &View, standing: Standing) {
        let task = &view.task;
        let before = self.before(task, &standing);
        let mut now =
            Told { changed_at: task.changed_at, words: words(&standing), progress: before.progress };
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

    fn remember(&self, task: &Task, now: Told) {
        self.turn.told(|told| match task.has_ended() {
            true => told.remove(&task.id),
            false => told.insert(task.id.clone(), now),
        });
        if task.has_ended() {
            self.turn.is_over(&task.id, task.created_at, now.words);
        }
    }
}

/// What the answer to its call told of a task.
fn first(task: &Task, standing: &Standing) -> Told {
    let message = standing.message.clone().filter(|_| task.changed_at == task.created_at);
    let words = words(&Standing { state: TaskState::Working, message });
    Told { changed_at: task.created_at, words, progress: None }
}

/// A short form of what a status says, to tell whether it says something new.
fn words(standing: &Standing) -> u64 {
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
