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
use crate::mcp::session::edition::Edition;
use crate::mcp::session::{MAX_CLOCK_SKEW, USUAL_CLOCK_SKEW};
use crate::sessions::streams::{self, StreamHandover};
use crate::tasks::task::{Task, TaskId};

/// Maximum number of log cursors of a session, and of its tasks whose end was sent. When there are as many,
/// all are removed (of the latter, first the older ones). A request that waited leaves a cursor here, which
/// nothing else removes if its task had ended.
const MAX_TASKS: usize = 1024;

/// Maximum delay until other processes see a new row.
const MAX_PROPAGATION_DELAY: Duration = Duration::from_secs(10);

/// The listening streams of all sessions.
#[derive(Clone, Default)]
pub struct StreamElection {
    sessions: Arc<Mutex<HashMap<String, Arc<SessionStreams>>>>,
}

/// What a session was last sent about one task, on any of its streams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SentStatus {
    /// [`crate::tasks::task::Task::changed_at`] of the reported row.
    pub changed_at: Timestamp,
    /// Hash of the reported status.
    pub status_hash: u64,
    /// Last reported progress.
    pub progress: Option<f64>,
}

/// The listening streams of one session.
struct SessionStreams {
    /// When the first of them opened.
    since: Timestamp,
    streams: watch::Sender<StreamRegistry>,
    lists: Mutex<Edition>,
    sent_statuses: Mutex<HashMap<TaskId, SentStatus>>,
    log_cursors: Mutex<HashMap<TaskId, LogCursor>>,
    scan: Mutex<TaskScan>,
    /// What streams in other processes had sent when they gave way, as far as it was taken over.
    handovers: Mutex<HashMap<TaskId, StreamHandover>>,
}

/// What was checked of a session's tasks, to find those that began and ended between two checks.
#[derive(Default)]
struct TaskScan {
    /// Time of the last check of all tasks.
    last_scan: Option<Timestamp>,
    /// Tasks whose end was sent: when each was created, and a hash of what was sent.
    ends_sent: HashMap<TaskId, (Timestamp, u64)>,
}

#[derive(Default)]
struct StreamRegistry {
    last_number: u64,
    open: Vec<u64>,
    /// The newest stream that is known to be open in any process; 0 if none is known.
    newest_known: u64,
}

impl StreamRegistry {
    fn is_active(&self, stream: u64) -> bool {
        self.open.iter().max() == Some(&stream) && stream >= self.newest_known
    }
}

/// One listening stream in the election of its session. Dropping it removes the stream, and the newest of the
/// others becomes active.
pub struct StreamCandidate {
    session: String,
    stream: u64,
    session_streams: Arc<SessionStreams>,
    election: StreamElection,
}

impl StreamElection {
    /// Adds a stream of this session. It is active if no stream with a higher number is known. `n` is the
    /// number under which other processes know it, in the order of opening. 0 if they do not know it; it then
    /// gets the next number here. `since` and `lists` (which its client knows) apply only if no other stream
    /// of the session is open here.
    pub fn enter(&self, session: &str, n: u64, since: Timestamp, lists: Edition) -> StreamCandidate {
        let mut sessions = self.sessions.lock();
        let new = || SessionStreams {
            since,
            streams: watch::Sender::default(),
            lists: Mutex::new(lists),
            sent_statuses: Mutex::default(),
            log_cursors: Mutex::default(),
            scan: Mutex::default(),
            handovers: Mutex::default(),
        };
        let session_streams =
            Arc::clone(sessions.entry(session.to_owned()).or_insert_with(|| Arc::new(new())));
        let mut stream = 0;
        session_streams.streams.send_modify(|streams| {
            streams.last_number = if n > 0 { streams.last_number.max(n) } else { streams.last_number + 1 };
            stream = if n > 0 { n } else { streams.last_number };
            streams.open.push(stream);
        });
        StreamCandidate { session: session.to_owned(), stream, session_streams, election: self.clone() }
    }

    /// Records the newest stream of this session that is open in any process.
    pub fn set_newest_stream(&self, session: &str, newest: u64) {
        if let Some(session_streams) = self.sessions.lock().get(session) {
            session_streams
                .streams
                .send_if_modified(|streams| std::mem::replace(&mut streams.newest_known, newest) != newest);
        }
    }

    /// Returns true if a stream of this session listens here.
    pub fn is_listened(&self, session: &str) -> bool {
        self.sessions.lock().contains_key(session)
    }

    /// Stores the log cursor of a request of this session that waited for a task, if a stream of the session
    /// listens here.
    pub fn store_request_cursor(&self, session: &str, task: &Task, cursor: LogCursor) {
        if let Some(session_streams) = self.sessions.lock().get(session) {
            let cursor = if task.has_ended() { cursor } else { cursor.for_stream() };
            session_streams.store_cursor(&task.id, cursor);
        }
    }
}

impl SessionStreams {
    fn store_cursor(&self, task: &TaskId, cursor: LogCursor) {
        let mut cursors = self.log_cursors.lock();
        if cursors.len() == MAX_TASKS {
            cursors.clear();
        }
        cursors.insert(task.clone(), cursor);
    }

    /// Continues from what another process has sent about a task. If this stream is newer than the one that
    /// sent it, the task's status is sent again.
    fn continue_from(&self, task: &TaskId, handover: StreamHandover, is_older: bool) {
        let mut statuses = self.sent_statuses.lock();
        let received = SentStatus {
            changed_at: handover.since,
            status_hash: handover.words,
            progress: handover.progress,
        };
        let status = statuses.entry(task.clone()).or_insert(received);
        if is_older {
            // No progress is reported twice, or backwards.
            let newer_progress =
                handover.progress.filter(|other| status.progress.is_none_or(|own| *other > own));
            *status = SentStatus { progress: newer_progress.or(status.progress), ..received };
        }
    }

    fn log_cursor(&self, task: &TaskId) -> LogCursor {
        let cursor = self.log_cursors.lock().get(task).copied();
        cursor.unwrap_or_else(|| LogCursor::since(self.since))
    }
}

impl StreamCandidate {
    /// Waits until this stream is active.
    pub async fn wait_until_active(&self) {
        self.wait_for(true).await;
    }

    /// Waits until it is no longer active.
    pub async fn wait_until_inactive(&self) {
        self.wait_for(false).await;
    }

    /// Returns true if this stream is active, as far as is known here.
    pub fn is_active(&self) -> bool {
        self.session_streams.streams.borrow().is_active(self.stream)
    }

    /// Returns the edition of the lists that the client knows.
    pub fn known_lists(&self) -> Edition {
        *self.session_streams.lists.lock()
    }

    /// Records the edition of the lists that the client knows.
    pub fn set_known_lists(&self, lists: Edition) {
        *self.session_streams.lists.lock() = lists;
    }

    /// Gives the active stream access to the last sent status of each task that has not ended.
    pub fn with_sent_statuses<T>(&self, act: impl FnOnce(&mut HashMap<TaskId, SentStatus>) -> T) -> T {
        act(&mut self.session_streams.sent_statuses.lock())
    }

    /// Records that all of the session's tasks are checked now. Returns a creation time: only tasks that were
    /// created from then on can have been missed so far.
    pub fn begin_scan(&self, now: Timestamp) -> Timestamp {
        let mut scan = self.session_streams.scan.lock();
        let first = self.session_streams.since - USUAL_CLOCK_SKEW;
        scan.last_scan.replace(now).map_or(first, |last| (last - MAX_PROPAGATION_DELAY).max(first))
    }

    /// Records that the end of a task was sent, with a hash of its status.
    pub fn record_end_sent(&self, task: &TaskId, created_at: Timestamp, status_hash: u64) {
        let mut scan = self.session_streams.scan.lock();
        if scan.ends_sent.len() == MAX_TASKS {
            // No later check covers older ones, and hints of their end arrived long ago.
            let cutoff = scan.last_scan.unwrap_or(created_at) - MAX_PROPAGATION_DELAY;
            scan.ends_sent.retain(|_, (created_at, _)| *created_at >= cutoff);
        }
        if scan.ends_sent.len() == MAX_TASKS {
            scan.ends_sent.clear();
        }
        scan.ends_sent.insert(task.clone(), (created_at, status_hash));
    }

    /// Returns true if the end of this task was sent: nothing more follows.
    pub fn is_end_sent(&self, task: &TaskId) -> bool {
        self.session_streams.scan.lock().ends_sent.contains_key(task)
    }

    /// Returns the session's log cursor of a task. If nothing was sent yet, everything from before the first
    /// stream counts as sent.
    pub fn log_cursor(&self, task: &Task) -> LogCursor {
        self.session_streams.log_cursor(&task.id)
    }

    /// Returns what the session was sent, for a stream in another process to continue.
    pub fn hand_over(&self, now: Timestamp) -> Vec<streams::TaskReport> {
        let report = |task: &TaskId, status_hash: u64, progress: Option<f64>| {
            let handover =
                StreamHandover { n: self.stream, at: now, since: now, words: status_hash, progress };
            self.session_streams.log_cursor(task).stream_report(task, handover)
        };
        let (statuses, scan) = (self.session_streams.sent_statuses.lock(), self.session_streams.scan.lock());
        let open_reports =
            statuses.iter().map(|(task, status)| report(task, status.status_hash, status.progress));
        let ended_reports =
            scan.ends_sent.iter().map(|(task, (_, status_hash))| report(task, *status_hash, None));
        ended_reports.chain(open_reports).collect()
    }

    /// Continues from what a stream in another process had sent when it gave way or ended. What it did not
    /// send is sent here, even if it is older than this stream. Reports of requests, and those from before
    /// the session's first stream here, are ignored.
    pub fn take_over(&self, reports: impl IntoIterator<Item = streams::TaskReport>) {
        let mut handovers = self.session_streams.handovers.lock();
        for report in reports {
            let Some(handover) =
                report.handed.filter(|handover| handover.at + MAX_CLOCK_SKEW >= self.session_streams.since)
            else {
                continue;
            };
            let task = &report.task;
            // Nothing follows after the end of a task was sent here.
            if handovers.insert(task.clone(), handover) != Some(handover) && !self.is_end_sent(task) {
                self.session_streams.store_cursor(task, self.session_streams.log_cursor(task).merge(&report));
                self.session_streams.continue_from(task, handover, handover.n > self.stream);
            }
        }
    }

    /// Stores the log cursor of a task, or removes it once the task has ended.
    pub fn store_log_cursor(&self, task: &Task, cursor: LogCursor) {
        match task.has_ended() {
            true => drop(self.session_streams.log_cursors.lock().remove(&task.id)),
            false => self.session_streams.store_cursor(&task.id, cursor),
        }
    }

    async fn wait_for(&self, active: bool) {
        let mut streams = self.session_streams.streams.subscribe();
        let own = self.stream;
        // The sender is in `self.session_streams`, to which `self` owns a reference.
        let _ = streams.wait_for(|streams| streams.is_active(own) == active).await;
    }
}

impl Drop for StreamCandidate {
    fn drop(&mut self) {
        let mut sessions = self.election.sessions.lock();
        let own = self.stream;
        self.session_streams.streams.send_modify(|streams| {
            streams.open.retain(|stream| *stream != own);
            // The newest one then is known soon; until then, it is the newest here.
            if streams.newest_known == own {
                streams.newest_known = 0;
            }
        });
        if self.session_streams.streams.borrow().open.is_empty() {
            sessions.remove(&self.session);
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
        let election = StreamElection::default();
        let now = Timestamp::from_millis(0);
        let lists = Edition::default();
        let first = election.enter("s", 0, now, lists);
        assert!(first.wait_until_active().now_or_never().is_some());
        let second = election.enter("s", 0, now, lists);
        assert!(first.wait_until_inactive().now_or_never().is_some());
        assert!(first.wait_until_active().now_or_never().is_none());
        assert!(second.wait_until_active().now_or_never().is_some());
        let other = election.enter("t", 0, now, lists);
        assert!(other.wait_until_active().now_or_never().is_some());
        drop(second);
        assert!(first.wait_until_active().now_or_never().is_some());
        assert!(election.is_listened("s") && !election.is_listened("u"));
        drop((first, other));
        assert!(!election.is_listened("s"));
        assert!(election.sessions.lock().is_empty());
    }

    /// A newer stream of another replica sends the messages until it is closed.
    #[test]
    fn newer_remote_stream_is_elected() {
        let election = StreamElection::default();
        let enter = |n| election.enter("s", n, Timestamp::from_millis(0), Edition::default());
        // They may arrive in another order than they were numbered.
        let (third, first) = (enter(3), enter(1));
        assert!(third.is_active() && !first.is_active());
        election.set_newest_stream("s", 4);
        assert!(!third.is_active() && third.wait_until_inactive().now_or_never().is_some());
        election.set_newest_stream("s", 3);
        assert!(third.wait_until_active().now_or_never().is_some());
        drop(third);
        assert!(first.is_active());
    }

    /// After a handover, an older stream continues where the newer one stopped, and a newest one repeats the
    /// state.
    #[test]
    fn older_stream_resumes_newer_stream_state() {
        let now = Timestamp::from_millis(1_000);
        let remote = StreamElection::default().enter("s", 2, now, Edition::default());
        let [open, ended] = ["going", "over"].map(TaskId::from_wire);
        let sent_status = |words, progress| SentStatus { changed_at: now, status_hash: words, progress };
        remote.with_sent_statuses(|statuses| statuses.insert(open.clone(), sent_status(7, Some(3.0))));
        remote.record_end_sent(&ended, now, 9);
        let reports = remote.hand_over(now);

        let election = StreamElection::default();
        let older = election.enter("s", 1, now, Edition::default());
        older.with_sent_statuses(|statuses| statuses.insert(open.clone(), sent_status(1, Some(5.0))));
        older.with_sent_statuses(|statuses| statuses.insert(ended.clone(), sent_status(1, None)));
        older.take_over(reports.clone());
        let words = |candidate: &StreamCandidate, task| {
            candidate.with_sent_statuses(|statuses| {
                statuses.get(task).map(|status| (status.status_hash, status.progress))
            })
        };
        assert_eq!(words(&older, &open), Some((7, Some(5.0))), "nothing is reported backwards");
        assert_eq!(words(&older, &ended), Some((9, None)), "it knows how the end was told");

        let newest = StreamElection::default().enter("s", 3, now, Edition::default());
        newest.with_sent_statuses(|statuses| statuses.insert(open.clone(), sent_status(1, Some(3.0))));
        newest.record_end_sent(&ended, now, 9);
        newest.take_over(reports);
        assert_eq!(words(&newest, &open), Some((1, Some(3.0))), "where it stands is said anew");
        assert!(words(&newest, &ended).is_none() && newest.is_end_sent(&ended));
    }
}
