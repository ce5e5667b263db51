//! Groups: open jobs are polled group by group, each group by the process that has its lease. One call (a
//! sweep) polls up to [`MAX_SWEEP`] due jobs of a group. A job that may make the adapter crash or hang is
//! polled alone. A row is written only if the observation changed, or if the polls began or ceased to fail.
//! The poll schedule is in memory only: a process that takes a group over schedules its jobs anew, and polls
//! all but the newest at once. It must not keep facts in memory alone.

mod hinted;
mod sweep;

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, FuturesUnordered, StreamExt};
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::hinted::HintedJobs;
use self::sweep::SweepResult;
use super::engine::ConnectedEngines;
use super::poll_schedule::{PollResult, PollSchedule};
use super::watched::WatchedGroups;
use super::{Core, Settings};
use crate::tasks::task_writer::PollRequest;

/// Maximum number of jobs per call.
const MAX_SWEEP: usize = 500;
/// Each read for newly opened rows of a group covers this much of the time before the previous read, because
/// a write may have been in progress then. Without a hint from another process, such a read is made this
/// often. Rows of this process arrive without a read.
const OVERLAP: Duration = Duration::from_secs(5);

/// Interval at which all open rows of a group are read, to find what the partial reads missed and to drop
/// jobs that were closed elsewhere.
const FULL_READ_INTERVAL: Duration = Duration::from_secs(60);

impl Core {
    /// Acquires groups, and polls their jobs on schedule and after hints, until `stop`. Then it drops the
    /// sweeps in progress.
    pub(super) async fn groups(&self, stop: &CancellationToken) {
        let mut groups = WatchedGroups::default();
        let mut sweeps = FuturesUnordered::new();
        let mut finished = VecDeque::new();
        let mut engines = self.engines.watch();
        let mut connected = engines.borrow_and_update().clone();
        let mut hints = engine_hints(&connected);
        let mut next_acquire = Instant::now();
        let mut others_opened = false;
        let mut hinted = HintedJobs::default();
        loop {
            let now = Instant::now();
            if next_acquire <= now {
                let acquire = self.acquire_groups(&mut groups, std::mem::take(&mut others_opened));
                run_with_sweeps(&mut sweeps, &mut finished, acquire).await;
                run_with_sweeps(&mut sweeps, &mut finished, self.forward_hints(&mut hinted)).await;
                next_acquire = Instant::now() + self.settings.tick.min(self.settings.lease / 3);
            }
            if hinted.watched_due.is_some_and(|due| due <= now) {
                run_with_sweeps(&mut sweeps, &mut finished, self.apply_watched_hints(&mut hinted)).await;
            }
            while let Some(sweep) = finished.pop_front() {
                run_with_sweeps(&mut sweeps, &mut finished, self.apply_sweep(&mut groups, sweep)).await;
            }
            for (group, schedule) in &mut groups.schedules {
                while let Some(due) = schedule.begin_sweep(Instant::now(), MAX_SWEEP) {
                    self.writer.meter.sweep_started(&group.backend, due.delay);
                    sweeps.push(self.sweep(group.clone(), schedule.identity.clone(), due));
                }
            }
            let wake = [groups.next_poll(), hinted.watched_due]
                .into_iter()
                .flatten()
                .fold(next_acquire, Instant::min);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(sweep) = sweeps.next(), if !sweeps.is_empty() => finished.push_back(sweep),
                () = self.writer.nudge.remote_jobs.notified() => {
                    others_opened = true;
                    next_acquire = Instant::now();
                }
                opened = self.writer.nudge.opened_jobs.take() => {
                    // Some of these jobs are in groups that this process does not watch. It tries to lease
                    // them soon, once for all such jobs.
                    if !groups.add(opened, Instant::now()) {
                        next_acquire = next_acquire.min(Instant::now() + self.settings.poll_intervals.shortest);
                    }
                }
                requests = self.writer.nudge.polls.take() => {
                    for request in requests {
                        self.keep_hint(&mut hinted, &groups, &request);
                        groups.poll_now(request, Instant::now());
                    }
                }
                Some(request) = hints.next() => {
                    self.keep_hint(&mut hinted, &groups, &request);
                    groups.poll_now(request, Instant::now());
                }
                Ok(()) = engines.changed() => {
                    let before = std::mem::replace(&mut connected, engines.borrow_and_update().clone());
                    hints = engine_hints(&connected);
                    groups.engines_replaced(&before, &connected, Instant::now());
                }
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    /// Acquires and renews the leases of groups, and drops the schedules of groups that it no longer has.
    /// Reads the open jobs of groups that are new or due for a read, or of all groups if another process may
    /// have opened some. Reads which jobs clients watch. If the store fails, the schedules stay as they are.
    async fn acquire_groups(&self, groups: &mut WatchedGroups, others_opened: bool) {
        let mut served = self.engines.served();
        let released: Vec<String> = groups.released(Instant::now()).collect();
        served.retain(|served| !released.contains(&served.backend));
        let acquired =
            match self.writer.store.acquire_groups(&self.holder, self.settings.lease, &served).await {
                Ok(acquired) => acquired,
                Err(error) => {
                    // Polling continues meanwhile: two polls of a job are harmless, because only writes
                    // decide.
                    tracing::warn!(%error, "groups of open jobs cannot be leased");
                    return;
                }
            };
        let identity_of = |backend: &str| {
            served.iter().find(|served| served.backend == backend).and_then(|served| served.identity.clone())
        };
        groups.schedules.retain(|group, schedule| {
            acquired.contains(group) && schedule.identity == identity_of(&group.backend)
        });
        for group in acquired {
            let now = Instant::now();
            if groups.schedules.get(&group).is_some_and(|schedule| !others_opened && now < schedule.next_read)
            {
                continue;
            }
            let read_at = self.writer.now();
            let known = groups.schedules.get(&group).filter(|schedule| now < schedule.next_full_read);
            let is_full_read = known.is_none();
            let since = known.map_or(Timestamp::from_millis(0), |schedule| schedule.read_at - OVERLAP);
            let identity = identity_of(&group.backend);
            match self.writer.store.open_jobs(&group, identity.as_deref(), since).await {
                Ok(jobs) => {
                    let hints = self.engines.gives_hints(&group.backend);
                    let schedule = groups.schedules.entry(group.clone()).or_insert_with(|| {
                        PollSchedule::new(identity, self.settings.poll_intervals, hints, now)
                    });
                    schedule.read_at = read_at;
                    schedule.next_read = now + OVERLAP;
                    if is_full_read {
                        schedule.next_full_read = now + FULL_READ_INTERVAL;
                    }
                    if is_full_read {
                        schedule.retain_open(&jobs, now);
                    }
                    for job in jobs {
                        let age = read_at.since(job.started_at);
                        groups.add_to(&group, job, false, Instant::now(), age);
                    }
                }
                Err(error) => tracing::warn!(%error, backend = group.backend, "open jobs cannot be read"),
            }
        }
        self.read_watched_jobs(groups).await;
    }

    /// Reads which jobs clients watch, for each group that is due for it.
    async fn read_watched_jobs(&self, groups: &mut WatchedGroups) {
        for (group, schedule) in &mut groups.schedules {
            if Instant::now() < schedule.next_watch_read {
                continue;
            }
            match self.writer.store.watched_jobs(group).await {
                Ok(ids) => schedule.set_watched(ids.into_iter().collect(), Instant::now()),
                Err(error) => {
                    tracing::warn!(%error, backend = group.backend, "watched jobs cannot be read");
                }
            }
        }
    }

    /// Schedules the next polls after a sweep. Logs when polls begin and cease to fail, reads the usual
    /// durations of tools, and releases the backend's groups if the engine is unreachable from here.
    async fn apply_sweep(&self, groups: &mut WatchedGroups, sweep: SweepResult) {
        self.release_unreachable(groups, &sweep);
        let Some(schedule) = groups.schedules.get_mut(&sweep.group) else { return };
        // A fault of one job was logged with that job, and is no evidence about the others.
        if !matches!(&sweep.results[..], [(_, PollResult::Failed { fault: Some(_), .. })]) {
            let failing = sweep.results.iter().find_map(|(_, result)| result.failure());
            if let Some(kind) = failing.filter(|_| !schedule.is_failing) {
                let (backend, reason) = (&sweep.group.backend, sweep.reason.as_deref());
                tracing::warn!(backend, %kind, reason, "polls of jobs fail; they are retried");
            } else if failing.is_none() && schedule.is_failing {
                tracing::info!(backend = sweep.group.backend, "polls of jobs succeed again");
            }
            schedule.is_failing = failing.is_some();
        }
        for tool in schedule.tools_to_read(sweep.results.iter().map(|(id, _)| id), Instant::now()) {
            // Pacing is not worth a failure: without a usual duration it uses the job's age.
            let usual = self.writer.store.usual_duration(&tool).await.ok().flatten();
            schedule.set_usual_duration(tool, usual, Instant::now());
        }
        for (id, wait) in sweep.waits {
            schedule.hold_back(&id, Instant::now() + wait);
        }
        schedule.end_sweep(sweep.results, sweep.pause, Instant::now());
    }

    /// Releases the groups of a backend if the store is shared and this replica cannot reach the engine,
    /// because another replica may. The next [`Core::acquire_groups`] leaves the backend out, which releases
    /// the leases. It is left out until a lease, two ticks and a second have passed, so that the others have
    /// time to take the groups.
    fn release_unreachable(&self, groups: &mut WatchedGroups, sweep: &SweepResult) {
        let (now, Settings { lease, tick, .. }) = (Instant::now(), &self.settings);
        let until = now + *lease + 2 * *tick + Duration::from_secs(1);
        if self.writer.store.is_shared()
            && groups.release_after(&sweep.group.backend, &sweep.results, *lease, until, now)
        {
            tracing::warn!(
                backend = sweep.group.backend,
                "no job of this backend can be polled from here; its groups are released, so that another replica can try"
            );
        }
    }
}

/// Runs `work` while the sweeps continue. A sweep that is not polled keeps its resources, such as a store
/// connection or a call permit, and `work` may wait for exactly those.
async fn run_with_sweeps<T>(
    sweeps: &mut FuturesUnordered<impl Future<Output = SweepResult>>,
    finished: &mut VecDeque<SweepResult>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            Some(one) = sweeps.next(), if !sweeps.is_empty() => finished.push_back(one),
        }
    }
}

/// Returns the merged hints of all engines that give any.
fn engine_hints(connected: &ConnectedEngines) -> BoxStream<'static, PollRequest> {
    let with_hints = connected.iter().filter(|(_, engine)| engine.gives_hints());
    let hints = with_hints.map(|(name, engine)| {
        let state = (name.clone(), engine.clone());
        Box::pin(stream::unfold(state, |(name, engine)| async move {
            let handle = engine.next_hint().await;
            Some((PollRequest::EngineHint(name.clone(), handle), (name, engine)))
        }))
    });
    stream::select_all(hints).boxed()
}
