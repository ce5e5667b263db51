//! Progress of a request that waits: what its job says as soon as it says it, and a little more at intervals, so that
//! its client sees that somebody still works for it. It must not know how a generation writes it.

use std::time::Duration;

use serde_json::Value;
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;

use crate::tasks::service::View;
use crate::tasks::task::Task;

/// What a heartbeat without news adds to the progress: every report must be above the one before.
const STEP: f64 = 0.001;
/// The shortest time between two reports: of what moves faster, the newest is told.
const SPACING: Duration = Duration::from_millis(100);

/// What is to be reported, and how often.
pub struct Reports {
    /// The token that it is reported under.
    pub token: Value,
    /// When the request began.
    pub began: Timestamp,
    /// True if another stream reported before.
    pub resumed: bool,
}

/// The reports of one stream.
pub struct Heart {
    /// The token that it is reported under.
    pub token: Value,
    /// When the next report is due, news or not.
    next: Instant,
    /// Before this moment none is made.
    soonest: Instant,
    every: Duration,
    began: Timestamp,
    /// The newest report. Not known of a request that was taken up again, before its first here.
    last: Option<f64>,
}

/// One report.
pub struct Beat {
    /// How far the request has come; above every report before.
    pub progress: f64,
    /// Of how much, where that is known.
    pub total: Option<f64>,
    /// Where it stands, for people.
    pub message: String,
}

impl Heart {
    /// Reports from now on, this often.
    pub fn new(reports: Reports, every: Duration) -> Self {
        let Reports { token, began, resumed } = reports;
        let now = Instant::now();
        // Nothing was reported yet, so that where the job begins is news.
        let last = (!resumed).then_some(-STEP);
        Self { token, every, began, next: now + every, soonest: now, last }
    }

    /// True if a report of this task is to be made now.
    pub fn is_due(&self, task: &Task) -> bool {
        let now = Instant::now();
        now >= self.next || (now >= self.soonest && self.has_news(task))
    }

    /// True if the job has come further than was reported.
    pub fn has_news(&self, task: &Task) -> bool {
        task.furthest.zip(self.last).is_some_and(|(reached, last)| reached > last)
    }

    /// When to see again whether a report is due, if no change of the task comes before.
    pub fn look_at(&self) -> Instant {
        if Instant::now() < self.soonest { self.soonest.min(self.next) } else { self.next }
    }

    /// The next report: what the job says if that is news, else a little more than before.
    pub fn beat(&mut self, view: &View, now: Timestamp) -> Beat {
        let done = view.task.progress.map_or(0.0, |progress| progress.done);
        let elapsed = now.since(self.began);
        let before = self.last.unwrap_or_else(|| {
            // Earlier streams cannot have reported more than the furthest of the job, and a step for every beat.
            let beats = elapsed.as_secs_f64() / self.every.as_secs_f64();
            view.task.furthest.unwrap_or(0.0).max(0.0) + beats.ceil() * STEP
        });
        let reached = done.max(before + STEP).max(before.next_up());
        self.last = Some(reached);
        (self.soonest, self.next) = (Instant::now() + SPACING, Instant::now() + self.every);
        let total = view.task.progress.and_then(|progress| progress.total).filter(|total| *total >= reached);
        let state = view.status_message().unwrap_or_else(|| "working".to_owned());
        Beat { progress: reached, total, message: format!("{state} ({} s)", elapsed.as_secs()) }
    }
}
