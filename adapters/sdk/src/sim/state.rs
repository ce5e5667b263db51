//! The simulated engine's table of jobs. Callers pass in the current time. This module must not wait, read a
//! clock, or know about faults.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::hints::Hints;
use super::job::Job;
use super::request::{Reply, Request};
use super::{Config, Mode, Outcome, Target};
use crate::{
    AnswerOutcome, DiscoveredTool, Error, JobHandle, JobKey, JobState, Observation, Result, Started,
};

/// What a job's new name adds to its first one.
pub(super) const RENAMED_SUFFIX: &str = ".run";

pub(super) struct State {
    pub(super) mode: Mode,
    remember: usize,
    /// How long polls, searches and cancellations do not find a new job.
    start_lag: Duration,
    key_lifetime: Option<Duration>,
    /// Boxed, so that unused capacity of the table costs little memory.
    jobs: HashMap<u64, Box<Job>>,
    /// Jobs of each key, oldest first. A key without jobs has no entry.
    by_key: HashMap<JobKey, Vec<u64>>,
    /// Ended jobs, ordered by their end, earliest first.
    ended: VecDeque<u64>,
    due: BTreeMap<(Instant, u64), Due>,
    pub(super) hints: Hints,
    /// Tools for discovery, by name.
    tools: BTreeMap<String, DiscoveredTool>,
    next_number: u64,
    total_starts: u64,
    journal: Option<File>,
}

/// An automatic change at some time.
enum Due {
    Job,
    Arrival(Box<Arrival>),
}

/// A start request that is still in flight.
struct Arrival {
    key: JobKey,
    target: Target,
    may_exist: bool,
}

impl State {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            mode: config.mode.unwrap_or_default(),
            remember: config.remember,
            start_lag: config.start_lag,
            key_lifetime: config.key_lifetime,
            jobs: HashMap::new(),
            by_key: HashMap::new(),
            ended: VecDeque::new(),
            due: BTreeMap::new(),
            hints: Hints::default(),
            tools: BTreeMap::new(),
            next_number: 0,
            total_starts: 0,
            journal: None,
        }
    }

    pub(super) fn keep_journal(&mut self, file: File) {
        self.journal = Some(file);
    }

    pub(super) fn offer(&mut self, tools: Vec<DiscoveredTool>) {
        self.tools = tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect();
    }

    /// Applies all changes that are due by now, in the order of their times.
    pub(super) fn apply_due_changes(&mut self, now: Instant) {
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            let ((at, number), due) = entry.remove_entry();
            match due {
                Due::Job => self.advance(number, at),
                // No caller waits for the reply to a late request.
                Due::Arrival(arrival) => drop(self.start(at, arrival.key, arrival.target, arrival.may_exist)),
            }
        }
        self.evict();
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// Executes a request.
    pub(super) fn perform(&mut self, now: Instant, request: Request) -> Result<Reply> {
        Ok(match request {
            Request::Start { key, target, may_exist } => {
                let started = self.start(now, key, target, may_exist)?;
                self.evict();
                Reply::Started(started)
            }
            Request::Find { key } => Reply::Found(self.find(&key, now)),
            Request::Observe { handles } if handles.iter().any(|handle| self.panics_on_poll(handle)) => {
                Reply::Panic
            }
            Request::Observe { handles } => {
                Reply::Seen(handles.iter().map(|handle| self.observe(handle, now)).collect())
            }
            Request::Cancel { handle } => {
                let listed = self.get(&handle).filter(|job| job.is_listed(now));
                if listed.is_some_and(|job| job.cannot_be_cancelled() && !job.has_ended()) {
                    return Err(Error::unsupported("the simulated engine has no way to stop this job"));
                }
                if listed.is_some() {
                    self.change(&handle, now, |job| job.cancel(now));
                }
                Reply::Done
            }
            Request::Answer { handle, question, answer } => {
                let outcome = self.change(&handle, now, |job| job.answer(&question, answer, now));
                Reply::Taken(outcome.unwrap_or(AnswerOutcome::TooLate))
            }
            Request::Log { handle, request } => {
                Reply::Log(self.get(&handle).map(|job| job.log(&request, now)).unwrap_or_default())
            }
            Request::File { handle, name, max_bytes } => {
                let content = self.get(&handle).and_then(|job| job.file(&name));
                if let Some(content) = content
                    && content.len() as u64 > max_bytes
                {
                    return Err(Error::rejected(format!(
                        "{name:?} has {} bytes, the limit is {max_bytes}",
                        content.len()
                    )));
                }
                Reply::File(content.map(str::to_owned))
            }
            Request::Discover => Reply::Discovered(self.tools.values().cloned().collect()),
        })
    }

    fn start(&mut self, now: Instant, key: JobKey, target: Target, may_exist: bool) -> Result<Started> {
        if target.outcome == Outcome::Refuse {
            return Err(Error::rejected(target.text.as_deref().unwrap_or("the engine refuses this job")));
        }
        match self.mode {
            // A keyed engine knows a key until `evict` removes the job, even if `forget` made the job unknown
            // to polls and searches.
            Mode::Keyed => {
                if let Some(number) = self.job_of_key(&key, now) {
                    return Ok(self.started(number, now));
                }
            }
            Mode::Unkeyed if may_exist => {
                return self.find(&key, now).ok_or_else(|| {
                    Error::uncertain(format!(
                        "no job with the key {key} is listed, but a start may still be in flight"
                    ))
                });
            }
            Mode::Unkeyed => {}
        }
        self.accept(now, key, target)
    }

    /// Returns the job that a start under this key returns, if the engine still knows the key.
    fn job_of_key(&self, key: &JobKey, now: Instant) -> Option<u64> {
        let is_known = |number: &&u64| {
            let age = self.jobs.get(number).map(|job| now.saturating_duration_since(job.accepted_at));
            self.key_lifetime.zip(age).is_none_or(|(lifetime, age)| age < lifetime)
        };
        self.by_key.get(key)?.iter().find(is_known).copied()
    }

    fn accept(&mut self, now: Instant, key: JobKey, target: Target) -> Result<Started> {
        let number = self.next_number;
        if let Some(journal) = &mut self.journal {
            // Written as JSON, so that no text can look like two lines.
            let text = json!(target.text.as_deref().unwrap_or_default());
            let line = format!("{key} {} {text}\n", handle(number, &key));
            journal.write_all(line.as_bytes()).map_err(|e| {
                Error::unavailable("the simulated engine cannot write its journal").caused_by(e)
            })?;
        }
        self.next_number += 1;
        self.total_starts += 1;
        self.by_key.entry(key.clone()).or_default().push(number);
        let mut job = Box::new(Job::new(key, target, now, self.start_lag));
        if job.due().is_some_and(|due| due <= now) {
            job.advance(now);
        }
        self.schedule(number, &job);
        if job.has_ended() {
            self.ended.push_back(number);
        } else if job.due().is_none() {
            self.hints.push(number);
        }
        self.jobs.insert(number, job);
        Ok(self.started(number, now))
    }

    /// Schedules a start request that arrives at a later time.
    pub(super) fn start_later(&mut self, at: Instant, request: Request) {
        if let Request::Start { key, target, may_exist } = request {
            let arrival = Arrival { key, target, may_exist };
            self.due.insert((at, self.next_number), Due::Arrival(Box::new(arrival)));
            self.next_number += 1;
        }
    }

    fn schedule(&mut self, number: u64, job: &Job) {
        if let Some(due) = job.due() {
            self.due.insert((due, number), Due::Job);
        }
    }

    fn advance(&mut self, number: u64, at: Instant) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        if job.advance(at) {
            if job.has_ended() {
                self.ended.push_back(number);
            }
            self.hints.push(number);
        }
    }

    /// Applies an action to a known job, and updates the schedule and the list of ended jobs.
    fn change<T>(
        &mut self,
        handle: &JobHandle,
        now: Instant,
        action: impl FnOnce(&mut Job) -> T,
    ) -> Option<T> {
        let number = self.number(handle)?;
        self.change_numbered(number, now, action)
    }

    fn change_numbered<T>(
        &mut self,
        number: u64,
        now: Instant,
        action: impl FnOnce(&mut Job) -> T,
    ) -> Option<T> {
        let job = self.jobs.get_mut(&number)?;
        let (before, had_ended) = (job.due(), job.has_ended());
        let result = action(job);
        let (after, has_ended) = (job.due(), job.has_ended());
        if before != after {
            if let Some(due) = before {
                self.due.remove(&(due, number));
            }
            if let Some(due) = after {
                self.due.insert((due, number), Due::Job);
            }
        }
        if has_ended && !had_ended {
            self.ended.push_back(number);
            self.hints.push(number);
        }
        // After an answer, the job may have no work left.
        self.apply_due_changes(now);
        Some(result)
    }

    pub(super) fn finish(&mut self, handle: &JobHandle, state: JobState, now: Instant) {
        self.change(handle, now, |job| job.finish(state, now));
    }

    pub(super) fn hasten(&mut self, now: Instant) {
        let mut numbers: Vec<u64> = self.jobs.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            self.change_numbered(number, now, |job| job.hasten(now));
        }
    }

    pub(super) fn forget(&mut self, handle: &JobHandle, now: Instant) {
        self.change(handle, now, |job| job.forget(now));
    }

    /// Removes the oldest ended jobs beyond `remember`, and the entries of their keys.
    fn evict(&mut self) {
        while self.ended.len() > self.remember {
            let Some(number) = self.ended.pop_front() else { return };
            let Some(job) = self.jobs.remove(&number) else { continue };
            if let Some(numbers) = self.by_key.get_mut(&job.key) {
                numbers.retain(|other| *other != number);
                if numbers.is_empty() {
                    self.by_key.remove(&job.key);
                }
            }
        }
    }

    fn number(&self, handle: &JobHandle) -> Option<u64> {
        let (number, key) = handle.as_str().split_once('.')?;
        let number = number.parse().ok()?;
        let job = self.jobs.get(&number)?;
        let first_key = key.strip_suffix(RENAMED_SUFFIX).filter(|_| job.renames()).unwrap_or(key);
        (job.key.as_str() == first_key).then_some(number)
    }

    fn get(&self, handle: &JobHandle) -> Option<&Job> {
        self.number(handle)
            .and_then(|number| self.jobs.get(&number))
            .map(Box::as_ref)
            .filter(|job| !job.is_forgotten())
    }

    fn panics_on_poll(&self, handle: &JobHandle) -> bool {
        self.get(handle).is_some_and(Job::panics_on_poll)
    }

    fn observe(&self, handle: &JobHandle, now: Instant) -> Observation {
        let listed_job = self.get(handle).filter(|job| job.is_listed(now));
        let Some(job) = listed_job else { return Observation::new(JobState::Gone) };
        let mut observation = job.observe(now);
        if job.renames() && !handle.as_str().ends_with(RENAMED_SUFFIX) {
            observation.renamed_to = Some(JobHandle::new(format!("{handle}{RENAMED_SUFFIX}")));
        }
        observation
    }

    fn find(&self, key: &JobKey, now: Instant) -> Option<Started> {
        let is_visible = |job: &Job| !job.is_forgotten() && job.is_listed(now);
        let job_is_visible = |number: &&u64| self.jobs.get(number).is_some_and(|job| is_visible(job));
        self.by_key.get(key)?.iter().find(job_is_visible).map(|number| self.started(*number, now))
    }

    fn started(&self, number: u64, now: Instant) -> Started {
        let job = &self.jobs[&number];
        Started { handle: handle(number, &job.key), first: job.has_ended().then(|| job.observe(now)) }
    }

    pub(super) fn jobs_of(&self, key: &JobKey) -> Vec<JobHandle> {
        self.by_key.get(key).into_iter().flatten().map(|number| handle(*number, key)).collect()
    }

    pub(super) fn starts(&self, key: &JobKey) -> usize {
        self.by_key.get(key).map_or(0, Vec::len)
    }

    pub(super) fn total_starts(&self) -> u64 {
        self.total_starts
    }

    pub(super) fn running(&self) -> Vec<JobKey> {
        let mut running: Vec<_> = self.jobs.iter().filter(|(_, job)| !job.has_ended()).collect();
        running.sort_unstable_by_key(|(number, _)| **number);
        running.into_iter().map(|(_, job)| job.key.clone()).collect()
    }

    pub(super) fn remembered(&self) -> usize {
        self.ended.len()
    }

    /// Returns the next hint at or after `cursor`, and the new value of `cursor`.
    pub(super) fn hint_after(&self, mut cursor: u64) -> (Option<JobHandle>, u64) {
        while let Some((number, next_cursor)) = self.hints.after(cursor) {
            cursor = next_cursor;
            if let Some(job) = self.jobs.get(&number) {
                return (Some(handle(number, &job.key)), cursor);
            }
        }
        (None, cursor)
    }
}

/// Returns the handle of a job. It consists of the job's number in this engine and its key, so that it never
/// matches a job of another engine.
fn handle(number: u64, key: &JobKey) -> JobHandle {
    JobHandle::new(format!("{number}.{key}"))
}
