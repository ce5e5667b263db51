//! Progress of a request that waits: what its job reports, and a heartbeat at intervals, so that the client
//! sees that the request is alive. The job's progress is reported at once, or after `SPACING`. It must not
//! know how a generation writes it.

use std::time::Duration;

use serde_json::Value;
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;

use crate::tasks::service::View;
use crate::tasks::task::Task;

/// What a heartbeat without news adds to the progress: every report must be above the previous one.
const STEP: f64 = 0.001;
/// Minimum time between two reports. Of faster changes, only the newest is sent.
const SPACING: Duration = Duration::from_millis(100);

/// What to report.
pub struct ProgressParams {
    /// Progress token.
    pub token: Value,
    /// When the request began.
    pub started_at: Timestamp,
    /// True if another stream may have reported before.
    pub resumed: bool,
}

/// Reporter of one stream.
pub struct ProgressReporter {
    /// Progress token.
    pub token: Value,
    /// When the next report is due, with or without news.
    next: Instant,
    /// Earliest time of the next report.
    not_before: Instant,
    interval: Duration,
    started_at: Timestamp,
    /// The last reported value. `None` for a resumed request before its first report here.
    last_value: Option<f64>,
}

/// One report.
pub struct ProgressReport {
    /// Progress value. It is above that of every earlier report under this token.
    pub progress: f64,
    /// Total, if it is known.
    pub total: Option<f64>,
    /// Status, for people.
    pub message: String,
}

impl ProgressReporter {
    /// Starts a reporter with this interval between heartbeats.
    pub fn new(params: ProgressParams, interval: Duration) -> Self {
        let ProgressParams { token, started_at, resumed } = params;
        let now = Instant::now();
        // Nothing was reported yet, so the first progress of the job is news.
        let last_value = (!resumed).then_some(-STEP);
        Self { token, interval, started_at, next: now + interval, not_before: now, last_value }
    }

    /// Returns true if a report of this task is due now.
    pub fn is_due(&self, task: &Task) -> bool {
        let now = Instant::now();
        now >= self.next || (now >= self.not_before && self.has_news(task))
    }

    /// Returns true if the job's progress is above the last report. Always false before the first report of a
    /// resumed request, because what earlier streams reported is unknown.
    pub fn has_news(&self, task: &Task) -> bool {
        task.furthest.zip(self.last_value).is_some_and(|(furthest, last_value)| furthest > last_value)
    }

    /// Returns when to check again whether a report is due, if the task does not change first.
    pub fn next_check(&self) -> Instant {
        if Instant::now() < self.not_before { self.not_before.min(self.next) } else { self.next }
    }

    /// Returns the next report: the job's progress if that is news, otherwise a step above the last one.
    pub fn next_report(&mut self, view: &View, now: Timestamp) -> ProgressReport {
        let done = view.task.progress.map_or(0.0, |progress| progress.done);
        let elapsed = now.since(self.started_at);
        let previous = self.last_value.unwrap_or_else(|| {
            // Earlier streams reported at most the furthest progress of the job, and one step for every
            // heartbeat.
            let heartbeats = elapsed.as_secs_f64() / self.interval.as_secs_f64();
            view.task.furthest.unwrap_or(0.0).max(0.0) + heartbeats.ceil() * STEP
        });
        let value = done.max(previous + STEP).max(previous.next_up());
        self.last_value = Some(value);
        (self.not_before, self.next) = (Instant::now() + SPACING, Instant::now() + self.interval);
        let total = view.task.progress.and_then(|progress| progress.total).filter(|total| *total >= value);
        let state = view.status_message().unwrap_or_else(|| "working".to_owned());
        ProgressReport { progress: value, total, message: format!("{state} ({} s)", elapsed.as_secs()) }
    }
}
