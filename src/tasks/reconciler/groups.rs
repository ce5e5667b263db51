//! Groups: open jobs are polled group by group, each group by the process that has its lease. One call (a
//! sweep) polls up to [`SWEEP`] due jobs of a group. A job that may make the adapter crash or hang is polled
//! alone. A row is written only if the observation changed, or if the polls began or ceased to fail. The poll
//! schedule is in memory only: a process that takes a group over schedules its jobs anew, and polls all but
//! the newest at once. It must not keep facts in memory alone.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, FuturesUnordered, StreamExt};
use taskbridge_sdk::{Error, ErrorKind, JobHandle, Observation, Timestamp};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::engine::Connected;
use super::poll_schedule::{self, Due, DueJob, PollResult, PollSchedule, SweepFault};
use super::watched::WatchedGroups;
use super::{Core, Crash, Settings};
use crate::tasks::history::CallTo;
use crate::tasks::machine::{self, Event, Failure};
use crate::tasks::store::{Group, Lease, StoreError};
use crate::tasks::task::TaskId;
use crate::tasks::task_writer::PollRequest;

/// Maximum number of jobs per call.
const SWEEP: usize = 500;
/// Number of rows of one sweep that are written concurrently, so that they share the store's commits.
const WRITES: usize = 64;
/// Each read for newly opened rows of a group covers this much of the time before the previous read, because
/// a write may have been in progress then. Without a hint from another process, such a read is made this
/// often. Rows of this process arrive without a read.
const OVERLAP: Duration = Duration::from_secs(5);

/// Interval at which all open rows of a group are read, to find what the partial reads missed and to drop
/// jobs that were closed elsewhere.
const READ_WHOLE: Duration = Duration::from_secs(60);
/// Maximum pause after a rate limit error ([`ErrorKind::Limited`]). A longer one that the engine requests is
/// cut to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(900);

/// Hints that only this process received, for jobs of groups that it does not watch: handles by group.
type ForeignHints = BTreeMap<Group, HashSet<JobHandle>>;

/// The result of one sweep.
struct SweepResult {
    group: Group,
    looks: Vec<(TaskId, PollResult)>,
    /// How long no job of the group is polled, because the engine limits the rate of calls.
    pause: Option<Duration>,
}

impl Core {
    /// Acquires groups, and polls their jobs on schedule and after hints, until `stop`. Then it drops the
    /// sweeps in progress.
    pub(super) async fn groups(&self, stop: &CancellationToken) {
        let mut watched = WatchedGroups::default();
        let mut sweeps = FuturesUnordered::new();
        let mut swept = VecDeque::new();
        let mut engines = self.engines.watch();
        let mut connected = engines.borrow_and_update().clone();
        let mut hints = engine_hints(&connected);
        let mut hold_again = Instant::now();
        let mut others_opened = false;
        let mut strangers = ForeignHints::new();
        loop {
            let now = Instant::now();
            if hold_again <= now {
                let hold = self.hold_groups(&mut watched, std::mem::take(&mut others_opened));
                beside(&mut sweeps, &mut swept, hold).await;
                let pass_on = self.pass_on(std::mem::take(&mut strangers));
                beside(&mut sweeps, &mut swept, pass_on).await;
                hold_again = Instant::now() + self.settings.tick.min(self.settings.lease / 3);
            }
            while let Some(one) = swept.pop_front() {
                beside(&mut sweeps, &mut swept, self.settle_sweep(&mut watched, one)).await;
            }
            for (group, agenda) in &mut watched.agendas {
                while let Some(due) = agenda.begin_sweep(Instant::now(), SWEEP) {
                    self.ledger.meter.looked(&group.backend, due.late);
                    sweeps.push(self.sweep(group.clone(), agenda.identity.clone(), due));
                }
            }
            let wake = watched.next_poll().map_or(hold_again, |look| look.min(hold_again));
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(one) = sweeps.next(), if !sweeps.is_empty() => swept.push_back(one),
                () = self.ledger.nudge.open.notified() => {
                    others_opened = true;
                    hold_again = Instant::now();
                }
                opened = self.ledger.nudge.opened.take() => {
                    // Some of these jobs are in groups that this process does not watch. It tries to lease
                    // them soon, once for all such jobs.
                    if !watched.add(opened, Instant::now()) {
                        hold_again = hold_again.min(Instant::now() + self.settings.pace.quickest);
                    }
                }
                looks = self.ledger.nudge.looks.take() => {
                    for look in looks {
                        if let Some((group, handle)) = self.of_another(&watched, &look) {
                            strangers.entry(group).or_default().insert(handle);
                        }
                        watched.poll_now(look, Instant::now());
                    }
                }
                Some(look) = hints.next() => watched.poll_now(look, Instant::now()),
                Ok(()) = engines.changed() => {
                    let before = std::mem::replace(&mut connected, engines.borrow_and_update().clone());
                    hints = engine_hints(&connected);
                    watched.engines_replaced(&before, &connected, Instant::now());
                }
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    /// Acquires and renews the leases of groups, and drops the schedules of groups that it no longer has.
    /// Reads the open jobs of groups that are new or due for a read, or of all groups if another process may
    /// have opened some. Reads which jobs clients watch. If the store fails, the schedules stay as they are.
    async fn hold_groups(&self, watched: &mut WatchedGroups, others_opened: bool) {
        let mut served = self.engines.served();
        let released: Vec<String> = watched.released(Instant::now()).collect();
        served.retain(|served| !released.contains(&served.backend));
        let held = match self.ledger.store.acquire_groups(&self.holder, self.settings.lease, &served).await {
            Ok(held) => held,
            Err(error) => {
                // Polling continues meanwhile: two polls of a job are harmless, because only writes decide.
                tracing::warn!(%error, "the groups of open jobs cannot be read");
                return;
            }
        };
        let identity_of = |backend: &str| {
            served.iter().find(|served| served.backend == backend).and_then(|served| served.identity.clone())
        };
        watched
            .agendas
            .retain(|group, agenda| held.contains(group) && agenda.identity == identity_of(&group.backend));
        for group in held {
            let now = Instant::now();
            if watched.agendas.get(&group).is_some_and(|agenda| !others_opened && now < agenda.read_again) {
                continue;
            }
            let read_at = self.ledger.now();
            let known = watched.agendas.get(&group).filter(|agenda| now < agenda.read_whole_again);
            let whole = known.is_none();
            let since = known.map_or(Timestamp::from_millis(0), |agenda| agenda.read_at - OVERLAP);
            let identity = identity_of(&group.backend);
            match self.ledger.store.open_jobs(&group, identity.as_deref(), since).await {
                Ok(jobs) => {
                    let hints = self.engines.gives_hints(&group.backend);
                    let agenda = watched
                        .agendas
                        .entry(group.clone())
                        .or_insert_with(|| PollSchedule::new(identity, self.settings.pace, hints, now));
                    agenda.read_at = read_at;
                    agenda.read_again = now + OVERLAP;
                    if whole {
                        agenda.read_whole_again = now + READ_WHOLE;
                    }
                    if whole {
                        agenda.keep_only(&jobs, now);
                    }
                    for job in jobs {
                        let age = read_at.since(job.started_at);
                        watched.add_to(&group, job, false, Instant::now(), age);
                    }
                }
                Err(error) => tracing::warn!(%error, backend = group.backend, "open jobs cannot be read"),
            }
        }
        self.ask_who_watches(watched).await;
    }

    /// Returns the group and the handle of a hint that only this process received, if it does not
    /// watch the group.
    fn of_another(&self, watched: &WatchedGroups, look: &PollRequest) -> Option<(Group, JobHandle)> {
        let PollRequest::Told(backend, handle) = look else { return None };
        let group = Group { backend: backend.clone(), key: self.engines.group(backend, handle) };
        (!watched.agendas.contains_key(&group)).then(|| (group, handle.clone()))
    }

    /// Passes hints on by a write: it makes the rows of these jobs due ([`Event::RetryNow`]), so that the
    /// process that claims a row polls its job. That may be any process that serves the backend.
    async fn pass_on(&self, strangers: ForeignHints) {
        for (group, handles) in strangers {
            let identity = self.engines.identity(&group.backend);
            let all = Timestamp::from_millis(0);
            let Ok(jobs) = self.ledger.store.open_jobs(&group, identity.as_deref(), all).await else {
                continue;
            };
            for job in jobs.iter().filter(|job| handles.contains(&job.handle)) {
                // It is only a hint: a job that cannot be read or written now is polled on schedule.
                if let Ok(Some(task)) = self.ledger.read(&job.id).await {
                    let _ = self.ledger.apply(task, Event::RetryNow, Lease::Keep).await;
                }
            }
        }
    }

    /// Reads which jobs clients watch, for each group that is due for it.
    async fn ask_who_watches(&self, watched: &mut WatchedGroups) {
        for (group, agenda) in &mut watched.agendas {
            if Instant::now() < agenda.ask_who_watches {
                continue;
            }
            match self.ledger.store.wanted(group).await {
                Ok(wanted) => agenda.set_wanted(wanted.into_iter().collect(), Instant::now()),
                Err(error) => {
                    tracing::warn!(%error, backend = group.backend, "it cannot be read which jobs are watched");
                }
            }
        }
    }

    /// Polls these jobs of a group with one call, and writes what changed. Waits for a call permit first.
    async fn sweep(&self, group: Group, identity: Option<String>, due: Due) -> SweepResult {
        let Due { subjects, jobs: due, .. } = due;
        let _place = self.engines.acquire_permit(&group.backend).await;
        let (begun, began) = (Instant::now(), self.ledger.now());
        let alone = due.iter().all(|sighting| sighting.alone);
        let answers = self
            .engines
            .call(&group.backend, self.settings.lease / 2, Error::unavailable, |backend| {
                let (key, subjects) = (&group.key, &subjects);
                async move {
                    match &subjects[..] {
                        [one] if alone => Ok(vec![backend.observe(&one.handle).await]),
                        _ => Ok(backend.observe_all(key, subjects).await),
                    }
                }
            })
            .await;
        if self.engines.identity(&group.backend) != identity {
            // The engine has reported its identity during the call, and these may be jobs of another engine.
            let looks = due.into_iter().map(|sighting| (sighting.id, PollResult::Unwritten)).collect();
            return SweepResult { group, looks, pause: None };
        }
        let fault = fault(&answers);
        let answers: Vec<Result<Observation, Error>> = match answers {
            Ok(mut answers) => {
                // A backend that returns too few answers must not drop the remaining jobs.
                let missing = || Err(Error::unavailable("the backend gave no answer for this job"));
                answers.resize_with(due.len(), missing);
                let failed = answers.iter().all(Result::is_err);
                let error = answers.first().filter(|_| failed).and_then(|first| first.as_ref().err());
                self.engines.note(&group.backend, error);
                let lag = self.engines.start_lag(&group.backend);
                subjects.iter().zip(answers).map(|(job, seen)| job.confirm(lag, seen)).collect()
            }
            Err(error) => {
                self.engines.note(&group.backend, Some(&error));
                let failure = Failure::from(&error);
                due.iter().map(|_| Err(Error::new(failure.kind, failure.message.clone()))).collect()
            }
        };
        if fault == Some(SweepFault::Crashed) && due.len() > 1 {
            let looks = due.into_iter().map(|sighting| (sighting.id, PollResult::Undecided)).collect();
            return SweepResult { group, looks, pause: None };
        }
        let took = begun.elapsed();
        let pause = answers.iter().filter_map(|answer| pause(answer.as_ref().err()?)).max();
        // Nearly all polls return what is known. Only the others get a future.
        let mut looks = Vec::with_capacity(due.len());
        let mut news = Vec::new();
        for (sighting, answer) in due.into_iter().zip(answers) {
            match nothing_new(&sighting, &answer) {
                Some(seen) => looks.push((sighting.id, seen)),
                None => news.push((sighting, answer)),
            }
        }
        let heard = stream::iter(news)
            .map(|(sighting, answer)| self.write_observation(sighting, answer, began, took));
        looks.extend(heard.buffer_unordered(WRITES).collect::<Vec<_>>().await);
        for (_, seen) in &mut looks {
            if let PollResult::Failed { fault: known, .. } = seen {
                *known = fault;
            }
        }
        SweepResult { group, looks, pause }
    }

    /// Writes one poll result, unless it leaves the row unchanged. The end of a job, and the crash that gives
    /// a job up, stay true, so they are written over any version of the row. A job that still runs and a
    /// failed poll are written only over the version that was known before the poll; otherwise the job is
    /// polled again.
    async fn write_observation(
        &self,
        sighting: DueJob,
        answer: Result<Observation, Error>,
        began: Timestamp,
        took: Duration,
    ) -> (TaskId, PollResult) {
        let same = |digest| is_same(&sighting, digest);
        let id = sighting.id.clone();
        let row = match self.ledger.read(&id).await {
            Ok(Some(row)) => row,
            Ok(None) => return (id, PollResult::RowGone),
            Err(error @ StoreError::Unreadable(_)) => {
                tracing::error!(%error, "what was seen of a job cannot be written");
                // The job leaves the schedule. It comes back with a whole read of the group ([`READ_WHOLE`])
                // that can parse its row.
                return (id, PollResult::RowGone);
            }
            Err(_) => return (id, PollResult::Unwritten),
        };
        let (event, seen) = match answer {
            Ok(observation) => {
                let log_followed = row.log_is_followed(self.ledger.now());
                let digest = poll_schedule::digest(&observation);
                let list_lag = self.engines.list_lag(&row.backend);
                // A poll within the list lag cannot distinguish a new question from an answered one
                // with the same id.
                let settled = !machine::may_ask_again(&row, &observation.questions, began - list_lag);
                let seen = PollResult::Observed {
                    digest: Some(digest).filter(|_| settled),
                    log_followed,
                    version: row.version,
                };
                let is_known = |bytes| row.printed.is_some_and(|printed| printed.bytes == bytes);
                let grew = log_followed && observation.log_bytes.is_some_and(|bytes| !is_known(bytes));
                // The digest is valid only for the row version that this process knows.
                if same(digest) && row.version == sighting.version && !grew {
                    return (id, seen);
                }
                (Event::Observed { seen: self.judged(&row.tool, observation).await, began, list_lag }, seen)
            }
            Err(error) => {
                let seen = PollResult::Failed { kind: error.kind(), version: row.version, fault: None };
                let event = match sighting.last_crash.filter(|_| Crash::caused(&error)) {
                    Some(times) => Event::LookCrashed { times },
                    None => Event::LookFailed(Failure::from(&error)),
                };
                (event, seen)
            }
        };
        if machine::next(&row, event.clone(), self.ledger.now()).task == row {
            return (id, seen.of(&row));
        }
        if !event.passes() {
            let after = self.note(&row, event.after_call(CallTo::Look, took), Lease::Keep).await;
            // `None` means that the row is gone, which the next poll finds, or that it could not be written.
            return (id, after.map_or(PollResult::Unwritten, |after| seen.of(&after)));
        }
        if row.version != sighting.version {
            return (id, PollResult::Overtaken { version: row.version });
        }
        match self.write_poll(&row, event.after_call(CallTo::Look, took), Lease::Keep).await {
            Ok(Some(after)) => (id, seen.of(&after)),
            Ok(None) => (id, PollResult::Overtaken { version: row.version }),
            Err(error) => {
                tracing::warn!(task = ?id, %error, "what was seen of a job cannot be written; it is looked at again");
                (id, PollResult::Unwritten)
            }
        }
    }

    /// Schedules the next polls after a sweep. Logs when polls begin and cease to fail, reads the usual
    /// durations of tools, and releases the backend's groups if the engine is unreachable from here.
    async fn settle_sweep(&self, watched: &mut WatchedGroups, swept: SweepResult) {
        self.release_unreachable(watched, &swept);
        let Some(agenda) = watched.agendas.get_mut(&swept.group) else { return };
        // A fault of one job was logged with that job, and is no evidence about the others.
        if !matches!(&swept.looks[..], [(_, PollResult::Failed { fault: Some(_), .. })]) {
            let failing = swept.looks.iter().find_map(|(_, seen)| seen.failure());
            if let Some(kind) = failing.filter(|_| !agenda.in_trouble) {
                tracing::warn!(backend = swept.group.backend, %kind, "jobs cannot be looked at; they are tried again");
            } else if failing.is_none() && agenda.in_trouble {
                tracing::info!(backend = swept.group.backend, "jobs can be looked at again");
            }
            agenda.in_trouble = failing.is_some();
        }
        for tool in agenda.tools_to_read(swept.looks.iter().map(|(id, _)| id), Instant::now()) {
            // Pacing is not worth a failure: without a recorded duration it uses the job's age.
            let typical = self.ledger.store.typical(&tool).await.ok().flatten();
            agenda.set_typical(tool, typical, Instant::now());
        }
        agenda.end_sweep(swept.looks, swept.pause, Instant::now());
    }

    /// Releases the groups of a backend if the store is shared and this replica cannot reach the engine,
    /// because another replica may. The next [`Core::hold_groups`] leaves the backend out, which releases the
    /// leases. It is left out until a lease, two ticks and a second have passed, so that the others have time
    /// to take the groups.
    fn release_unreachable(&self, watched: &mut WatchedGroups, swept: &SweepResult) {
        let (now, Settings { lease, tick, .. }) = (Instant::now(), &self.settings);
        let until = now + *lease + 2 * *tick + Duration::from_secs(1);
        if self.ledger.store.is_shared()
            && watched.release_after(&swept.group.backend, &swept.looks, *lease, until, now)
        {
            tracing::warn!(
                backend = swept.group.backend,
                "no job of this backend can be polled from here; its groups are released, so that another replica can try"
            );
        }
    }
}

/// Runs `work` while the sweeps continue. A sweep that is not polled keeps its resources, such as a store
/// connection or a call permit, and `work` may wait for exactly those.
async fn beside<T>(
    sweeps: &mut FuturesUnordered<impl Future<Output = SweepResult>>,
    swept: &mut VecDeque<SweepResult>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            Some(one) = sweeps.next(), if !sweeps.is_empty() => swept.push_back(one),
        }
    }
}

/// Classifies a failure of the whole call that one of its jobs may have caused.
fn fault(answers: &Result<Vec<Result<Observation, Error>>, Error>) -> Option<SweepFault> {
    let crashed = |answer: &Result<Observation, Error>| answer.as_ref().is_err_and(Crash::caused);
    match answers {
        Ok(answers) if !answers.is_empty() && answers.iter().all(crashed) => Some(SweepFault::Crashed),
        Err(error) if error.kind() == ErrorKind::Unavailable => Some(SweepFault::Hung),
        _ => None,
    }
}

/// Returns true if this digest was already written, and no failed poll was written since.
fn is_same(sighting: &DueJob, digest: u64) -> bool {
    !sighting.troubled && sighting.digest == Some(digest)
}

/// Returns the result of a poll for which the row need not be read: the observation is known, or the poll
/// failed as the one before. `None` if the row must be read.
fn nothing_new(sighting: &DueJob, answer: &Result<Observation, Error>) -> Option<PollResult> {
    match answer {
        // Whether a client follows the log is only in the row, so `ask_of_log` has the row read.
        Ok(seen) if !sighting.ask_of_log => {
            let digest = poll_schedule::digest(seen);
            let same = is_same(sighting, digest);
            let (digest, version) = (Some(digest), sighting.version);
            same.then_some(PollResult::Observed { digest, log_followed: false, version })
        }
        Err(error) if sighting.troubled && sighting.last_crash.is_none() => {
            Some(PollResult::Failed { kind: error.kind(), version: sighting.version, fault: None })
        }
        _ => None,
    }
}

/// Returns the merged hints of all engines that give any.
fn engine_hints(connected: &Connected) -> BoxStream<'static, PollRequest> {
    let giving = connected.iter().filter(|(_, engine)| engine.gives_hints());
    let hints = giving.map(|(name, engine)| {
        let of = (name.clone(), engine.clone());
        Box::pin(stream::unfold(of, |(name, engine)| async move {
            let handle = engine.next_hint().await;
            Some((PollRequest::Job(name.clone(), handle), (name, engine)))
        }))
    });
    stream::select_all(hints).boxed()
}

/// Returns the pause after a rate limit error: as long as the engine requests, or else five seconds; at most
/// [`LONGEST_PAUSE`]. `None` for other errors.
fn pause(error: &Error) -> Option<Duration> {
    match error.kind() {
        ErrorKind::Limited { after } => Some(after.unwrap_or(Duration::from_secs(5)).min(LONGEST_PAUSE)),
        _ => None,
    }
}
