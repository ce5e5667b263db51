//! Elects the active stream of a session. A client may open several listening streams, and every message goes
//! out on exactly one of them. The newest is active, since an older one may hang on a broken connection. Also
//! keeps what a session was sent, so that the next active stream continues there. It must not know how
//! anything is sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::Timestamp;
use tokio::sync::watch;

use super::log_cursor::LogCursor;
use super::offers::Edition;
use crate::tasks::streams::{self, StreamHandover};
use crate::tasks::task::{Task, TaskId};

/// Maximum number of log cursors of a session, and of its tasks whose end was sent. When there are as many,
/// all are removed (of the latter, first the older ones). A request that waited leaves a cursor here, which
/// nothing else removes if its task had ended.
const MOST_HEARD: usize = 1024;

/// Maximum clock difference of two processes that use the store's time.
const APART: Duration = Duration::from_secs(2);

/// Usual clock difference; it is rarely larger.
const ROUGHLY: Duration = Duration::from_millis(250);

/// Maximum delay until other processes see a new row.
const LATE: Duration = Duration::from_secs(10);

/// The listening streams of all sessions.
#[derive(Clone, Default)]
pub struct StreamElection {
    floors: Arc<Mutex<HashMap<String, Arc<SessionStreams>>>>,
}

/// What a session was last sent about one task, on any of its streams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SentStatus {
    /// [`crate::tasks::task::Task::changed_at`] of the reported row.
    pub changed_at: Timestamp,
    /// Hash of the reported status.
    pub words: u64,
    /// Last reported progress.
    pub progress: Option<f64>,
}

/// The listening streams of one session.
struct SessionStreams {
    /// When the first of them opened.
    since: Timestamp,
    streams: watch::Sender<StreamRegistry>,
    lists: Mutex<Edition>,
    told: Mutex<HashMap<TaskId, SentStatus>>,
    heard: Mutex<HashMap<TaskId, LogCursor>>,
    seen: Mutex<TaskScan>,
    /// What streams in other processes had sent when they gave way, as far as it was taken over.
    taken_over: Mutex<HashMap<TaskId, StreamHandover>>,
}

/// What was checked of a session's tasks, to find those that began and ended between two checks.
#[derive(Default)]
struct TaskScan {
    /// Time of the last check of all tasks.
    at: Option<Timestamp>,
    /// Tasks whose end was sent: when each was created, and a hash of what was sent.
    over: HashMap<TaskId, (Timestamp, u64)>,
}

#[derive(Default)]
struct StreamRegistry {
    opened: u64,
    open: Vec<u64>,
    /// The newest stream that is known to be open in any process; 0 if none is known.
    anywhere: u64,
}

impl StreamRegistry {
    fn speaks(&self, stream: u64) -> bool {
        self.open.iter().max() == Some(&stream) && stream >= self.anywhere
    }
}

/// One listening stream in the election of its session. Dropping it removes the stream, and the newest of the
/// others becomes active.
pub struct StreamCandidate {
    session: String,
    stream: u64,
    floor: Arc<SessionStreams>,
    speakers: StreamElection,
}

impl StreamElection {
    /// Adds a stream of this session. It is active if no stream with a higher number is known. `n` is the
    /// number under which other processes know it, in the order of opening. 0 if they do not know it; it then
    /// gets the next number here. `since` and `lists` (which its client knows) apply only if no other stream
    /// of the session is open here.
    pub fn enter(&self, session: &str, n: u64, since: Timestamp, lists: Edition) -> StreamCandidate {
        let mut floors = self.floors.lock();
        let new = || SessionStreams {
            since,
            streams: watch::Sender::default(),
            lists: Mutex::new(lists),
            told: Mutex::default(),
            heard: Mutex::default(),
            seen: Mutex::default(),
            taken_over: Mutex::default(),
        };
        let floor = Arc::clone(floors.entry(session.to_owned()).or_insert_with(|| Arc::new(new())));
        let mut stream = 0;
        floor.streams.send_modify(|streams| {
            streams.opened = if n > 0 { streams.opened.max(n) } else { streams.opened + 1 };
            stream = if n > 0 { n } else { streams.opened };
            streams.open.push(stream);
        });
        StreamCandidate { session: session.to_owned(), stream, floor, speakers: self.clone() }
    }

    /// Records the newest stream of this session that is open in any process.
    pub fn set_newest_stream(&self, session: &str, newest: u64) {
        if let Some(floor) = self.floors.lock().get(session) {
            floor
                .streams
                .send_if_modified(|streams| std::mem::replace(&mut streams.anywhere, newest) != newest);
        }
    }

    /// Returns true if a stream of this session listens here.
    pub fn is_listened(&self, session: &str) -> bool {
        self.floors.lock().contains_key(session)
    }

    /// Stores the log cursor of a request of this session that waited for a task, if a stream of the session
    /// listens here.
    pub fn store_request_cursor(&self, session: &str, task: &Task, heard: LogCursor) {
        if let Some(floor) = self.floors.lock().get(session) {
            let heard = if task.has_ended() { heard } else { heard.handed_on() };
            floor.remember(&task.id, heard);
        }
    }
}

impl SessionStreams {
    fn remember(&self, task: &TaskId, heard: LogCursor) {
        let mut all = self.heard.lock();
        if all.len() == MOST_HEARD {
            all.clear();
        }
        all.insert(task.clone(), heard);
    }

    /// Continues from what another process has sent about a task. If this stream is newer than the one that
    /// sent it, the task's status is sent again.
    fn go_on(&self, task: &TaskId, from: StreamHandover, is_older: bool) {
        let mut told = self.told.lock();
        let said = SentStatus { changed_at: from.since, words: from.words, progress: from.progress };
        let known = told.entry(task.clone()).or_insert(said);
        if is_older {
            // No progress is reported twice, or backwards.
            let further = from.progress.filter(|other| known.progress.is_none_or(|own| *other > own));
            *known = SentStatus { progress: further.or(known.progress), ..said };
        }
    }

    fn heard(&self, task: &TaskId) -> LogCursor {
        let heard = self.heard.lock().get(task).copied();
        heard.unwrap_or_else(|| LogCursor::since(self.since))
    }
}

impl StreamCandidate {
    /// Waits until this stream is active.
    pub async fn begins(&self) {
        self.until(true).await;
    }

    /// Waits until it is no longer active.
    pub async fn ends(&self) {
        self.until(false).await;
    }

    /// Returns true if this stream is active, as far as is known here.
    pub fn is_active(&self) -> bool {
        self.floor.streams.borrow().speaks(self.stream)
    }

    /// Returns the edition of the lists that the client knows.
    pub fn lists_known(&self) -> Edition {
        *self.floor.lists.lock()
    }

    /// Records the edition of the lists that the client knows.
    pub fn knows_lists(&self, lists: Edition) {
        *self.floor.lists.lock() = lists;
    }

    /// Gives the active stream access to the last sent status of each task that has not ended.
    pub fn with_sent_statuses<T>(&self, act: impl FnOnce(&mut HashMap<TaskId, SentStatus>) -> T) -> T {
        act(&mut self.floor.told.lock())
    }

    /// Records that all of the session's tasks are checked now. Returns a creation time: only tasks that were
    /// created from then on can have been missed so far.
    pub fn begin_scan(&self, now: Timestamp) -> Timestamp {
        let mut seen = self.floor.seen.lock();
        let first = self.floor.since - ROUGHLY;
        seen.at.replace(now).map_or(first, |at| (at - LATE).max(first))
    }

    /// Records that the end of a task was sent, with a hash of its words.
    pub fn record_end_sent(&self, task: &TaskId, made: Timestamp, words: u64) {
        let mut seen = self.floor.seen.lock();
        if seen.over.len() == MOST_HEARD {
            // No later check covers older ones, and hints of their end arrived long ago.
            let since = seen.at.unwrap_or(made) - LATE;
            seen.over.retain(|_, (made, _)| *made >= since);
        }
        if seen.over.len() == MOST_HEARD {
            seen.over.clear();
        }
        seen.over.insert(task.clone(), (made, words));
    }

    /// Returns true if the end of this task was sent: nothing more follows.
    pub fn is_end_sent(&self, task: &TaskId) -> bool {
        self.floor.seen.lock().over.contains_key(task)
    }

    /// Returns the session's log cursor of a task. If nothing was sent yet, everything from before the first
    /// stream counts as sent.
    pub fn heard(&self, task: &Task) -> LogCursor {
        self.floor.heard(&task.id)
    }

    /// Returns what the session was sent, for a stream in another process to continue.
    pub fn hand_over(&self, now: Timestamp) -> Vec<streams::TaskReport> {
        let handed = |task: &TaskId, words: u64, progress: Option<f64>| {
            let beside = StreamHandover { n: self.stream, at: now, since: now, words, progress };
            self.floor.heard(task).handed(task, beside)
        };
        let (told, seen) = (self.floor.told.lock(), self.floor.seen.lock());
        let going_on = told.iter().map(|(task, told)| handed(task, told.words, told.progress));
        let over = seen.over.iter().map(|(task, (_, words))| handed(task, *words, None));
        over.chain(going_on).collect()
    }

    /// Continues from what a stream in another process had sent when it gave way or ended. What it did not
    /// send is sent here, even if it is older than this stream. Reports of requests, and those from before
    /// the session's first stream here, are ignored.
    pub fn take_over(&self, told: impl IntoIterator<Item = streams::TaskReport>) {
        let mut taken = self.floor.taken_over.lock();
        for told in told {
            let Some(handed) = told.handed.filter(|handed| handed.at + APART >= self.floor.since) else {
                continue;
            };
            let task = &told.task;
            // Nothing follows after the end of a task was sent here.
            if taken.insert(task.clone(), handed) != Some(handed) && !self.is_end_sent(task) {
                self.floor.remember(task, self.floor.heard(task).with(&told));
                self.floor.go_on(task, handed, handed.n > self.stream);
            }
        }
    }

    /// Stores the log cursor of a task, or removes it once the task has ended.
    pub fn store_log_cursor(&self, task: &Task, heard: LogCursor) {
        match task.has_ended() {
            true => drop(self.floor.heard.lock().remove(&task.id)),
            false => self.floor.remember(&task.id, heard),
        }
    }

    async fn until(&self, speaks: bool) {
        let mut streams = self.floor.streams.subscribe();
        let own = self.stream;
        // The sender is in `self.floor`, to which `self` owns a reference.
        let _ = streams.wait_for(|streams| streams.speaks(own) == speaks).await;
    }
}

impl Drop for StreamCandidate {
    fn drop(&mut self) {
        let mut floors = self.speakers.floors.lock();
        let own = self.stream;
        self.floor.streams.send_modify(|streams| {
            streams.open.retain(|stream| *stream != own);
            // The newest one then is known soon; until then, it is the newest here.
            if streams.anywhere == own {
                streams.anywhere = 0;
            }
        });
        if self.floor.streams.borrow().open.is_empty() {
            floors.remove(&self.session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    /// When the newest stream closes, the next newest one sends the messages.
    #[test]
    fn newest_stream_is_elected() {
        let speakers = StreamElection::default();
        let now = Timestamp::from_millis(0);
        let lists = Edition::default();
        let first = speakers.enter("s", 0, now, lists);
        assert!(first.begins().now_or_never().is_some());
        let second = speakers.enter("s", 0, now, lists);
        assert!(first.ends().now_or_never().is_some());
        assert!(first.begins().now_or_never().is_none());
        assert!(second.begins().now_or_never().is_some());
        let other = speakers.enter("t", 0, now, lists);
        assert!(other.begins().now_or_never().is_some());
        drop(second);
        assert!(first.begins().now_or_never().is_some());
        assert!(speakers.is_listened("s") && !speakers.is_listened("u"));
        drop((first, other));
        assert!(!speakers.is_listened("s"));
        assert!(speakers.floors.lock().is_empty());
    }

    /// A newer stream of another replica sends the messages until it is closed.
    #[test]
    fn newer_remote_stream_is_elected() {
        let speakers = StreamElection::default();
        let enter = |n| speakers.enter("s", n, Timestamp::from_millis(0), Edition::default());
        // They may arrive in another order than they were numbered.
        let (third, first) = (enter(3), enter(1));
        assert!(third.is_active() && !first.is_active());
        speakers.set_newest_stream("s", 4);
        assert!(!third.is_active() && third.ends().now_or_never().is_some());
        speakers.set_newest_stream("s", 3);
        assert!(third.begins().now_or_never().is_some());
        drop(third);
        assert!(first.is_active());
    }

    /// After a handover, an older stream continues where the newer one stopped, and a newest one repeats the
    /// state.
    #[test]
    fn older_stream_resumes_newer_stream_state() {
        let now = Timestamp::from_millis(1_000);
        let elsewhere = StreamElection::default().enter("s", 2, now, Edition::default());
        let [going, over] = ["going", "over"].map(TaskId::from_wire);
        let said = |words, progress| SentStatus { changed_at: now, words, progress };
        elsewhere.with_sent_statuses(|told| told.insert(going.clone(), said(7, Some(3.0))));
        elsewhere.record_end_sent(&over, now, 9);
        let handed = elsewhere.hand_over(now);

        let speakers = StreamElection::default();
        let older = speakers.enter("s", 1, now, Edition::default());
        older.with_sent_statuses(|told| told.insert(going.clone(), said(1, Some(5.0))));
        older.with_sent_statuses(|told| told.insert(over.clone(), said(1, None)));
        older.take_over(handed.clone());
        let words = |turn: &StreamCandidate, task| {
            turn.with_sent_statuses(|told| told.get(task).map(|told| (told.words, told.progress)))
        };
        assert_eq!(words(&older, &going), Some((7, Some(5.0))), "nothing is reported backwards");
        assert_eq!(words(&older, &over), Some((9, None)), "it knows how the end was told");

        let newest = StreamElection::default().enter("s", 3, now, Edition::default());
        newest.with_sent_statuses(|told| told.insert(going.clone(), said(1, Some(3.0))));
        newest.record_end_sent(&over, now, 9);
        newest.take_over(handed);
        assert_eq!(words(&newest, &going), Some((1, Some(3.0))), "where it stands is said anew");
        assert!(words(&newest, &over).is_none() && newest.is_end_sent(&over));
    }
}
