//! Waiting for a task on an open stream: while it lasts, the task's questions are asked there and progress is
//! reported. It must not decide what the request is answered with.

use std::time::Duration;

use serde_json::Value;
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;

use super::questions::Carrier;
use super::{Call, to_wire, wire};
use crate::mcp::outlet::Outlet;
use crate::tasks::service::View;
use crate::tasks::store::StoreError;
use crate::tasks::task::TaskId;

/// What a heartbeat without news adds to the progress: every report must be above the one before.
const STEP: f64 = 0.001;

/// How long a request waits, and what it hears meanwhile.
pub(super) struct Patience {
    /// Until when at most; absent for as long as it takes.
    pub(super) until: Option<Timestamp>,
    /// What is reported meanwhile, if anything.
    pub(super) reports: Option<Reports>,
}

/// Progress of a request that waits.
pub(super) struct Reports {
    /// The token that it is reported under.
    pub(super) token: Value,
    /// When the request began.
    pub(super) began: Timestamp,
    /// True if another stream reported before.
    pub(super) resumed: bool,
}

/// Waits until the task has ended or patience is over. Returns what the task is then; `None` once the caller has no
/// such task.
///
/// # Errors
/// If the store cannot be used.
pub(super) async fn wait(
    call: &Call<'_>,
    id: &TaskId,
    patience: Patience,
    outlet: &dyn Outlet,
) -> Result<Option<View>, StoreError> {
    let bridge = call.bridge;
    let now = || bridge.clock.now();
    let until = patience.until.map(|until| Instant::now() + until.since(now()));
    let mut carrier = Carrier::new(call, outlet, Duration::ZERO);
    let mut attend_at: Option<Instant> = None;
    let mut heart = patience.reports.map(|reports| Heart::new(reports, bridge.settings().progress_every));
    loop {
        let wake = [until, attend_at, heart.as_ref().map(|heart| heart.next)].into_iter().flatten().min();
        let at_most = wake.map(|wake| wake.saturating_duration_since(Instant::now()));
        let view = bridge
            .service
            .wait(call.owner(), id, at_most, |task| task.has_ended() || carrier.is_behind(task))
            .await?;
        let Some(view) = view else { return Ok(None) };
        let look = carrier.attend(&view.task).await?;
        attend_at = look.map(|at| Instant::now() + at.since(now()));
        if view.task.has_ended() || until.is_some_and(|until| Instant::now() >= until) {
            carrier.leave().await?;
            return Ok(Some(view));
        }
        if let Some(heart) = heart.as_mut().filter(|heart| Instant::now() >= heart.next) {
            outlet.send(heart.beat(&view, now())).await;
        }
    }
}

/// Reports progress at intervals, so that a client which waits sees that somebody still works for it.
struct Heart {
    token: Value,
    every: Duration,
    began: Timestamp,
    next: Instant,
    /// The newest report. Not known of a request that was taken up again, before its first here.
    last: Option<f64>,
}

impl Heart {
    fn new(reports: Reports, every: Duration) -> Self {
        let Reports { token, began, resumed } = reports;
        Self { token, every, began, next: Instant::now() + every, last: (!resumed).then_some(0.0) }
    }

    /// The next report: what the job says if that is news, else a little more than before.
    fn beat(&mut self, view: &View, now: Timestamp) -> Value {
        let done = view.task.progress.map_or(0.0, |progress| progress.done);
        let elapsed = now.since(self.began);
        let before = self.last.unwrap_or_else(|| {
            // Earlier streams cannot have reported more than the furthest of the job, and a step for every beat.
            let beats = elapsed.as_secs_f64() / self.every.as_secs_f64();
            view.task.furthest.unwrap_or(0.0).max(0.0) + beats.ceil() * STEP
        });
        let reached = done.max(before + STEP).max(before.next_up());
        self.last = Some(reached);
        self.next = Instant::now() + self.every;
        let total = view.task.progress.and_then(|progress| progress.total).filter(|total| *total >= reached);
        let elapsed = elapsed.as_secs();
        let state = view.status_message().unwrap_or_else(|| "working".to_owned());
        to_wire::notification(
            "notifications/progress",
            wire::Progress {
                progress_token: &self.token,
                progress: reached,
                total,
                message: Some(format!("{state} ({elapsed} s)")),
                meta: None,
            },
        )
    }
}
