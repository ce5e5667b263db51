//! Result of an ended run, as text and as data: its conclusion, its jobs, the cause of a failure, and its
//! artifacts. Parts that still cannot be read after `RETRY_FOR` are named, and the end is reported without
//! them.

use std::time::Duration;

use serde_json::{Map, Value, json};
use taskbridge_sdk::{Content, JobState, Observation, Output, Result, Timestamp, one_line};
use tokio::time::Instant;

use crate::artifacts::RunOutput;
use crate::backend::Actions;
use crate::handle::RunHandle;
use crate::partial_read::{PartialReader, RETRY_FOR};
use crate::state::{EndKind, RunConclusion};
use crate::wire::{Annotation, Job, Run, moment};

/// Number of failed jobs whose last log lines and annotations are read.
const MOST_TOLD: usize = 3;
/// Number of jobs in the text. The data contains all of them.
const MOST_NAMED: usize = 15;
/// Maximum bytes of logs in the text, for all failed jobs together.
const LOG_BYTES: usize = 1200;
/// Prefix of the line with which GitHub's runner reports a failed step. The cause is in the lines before it.
const EXIT_CODE: &str = "Process completed with exit code";
/// Prefix of GitHub's annotation for a job that was cancelled because of its concurrency group.
const CONCURRENCY: &str = "Canceling since a higher priority waiting request";
/// Part of GitHub's annotation for a job that was cancelled because of its `timeout-minutes`.
const TIME_LIMIT: &str = "exceeded the maximum execution time";
/// How long an end that is not reported yet is remembered after its first poll.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Cause of a failed job.
struct FailureDetails {
    job: String,
    step: Option<String>,
    lines: String,
    remarks: Vec<Annotation>,
}

/// End that is not reported yet, because parts of it could not be read.
pub(crate) struct PendingEnd {
    /// First and last attempt of this process to read the parts.
    first: Instant,
    last: Instant,
    why: String,
}

impl PendingEnd {
    /// Returns true if the parts may be read again. The interval between retries doubles: a link costs a
    /// request of the hourly limit, and polls are frequent.
    fn is_due(&self, now: Instant) -> bool {
        let age = now - self.first;
        age >= RETRY_FOR || age >= (self.last - self.first) * 2
    }
}

/// All that was read about an ended run.
struct Read {
    jobs: Vec<Job>,
    whys: Vec<FailureDetails>,
    left: RunOutput,
    /// Cause of a cancellation, if GitHub reports it.
    cause: Option<String>,
    /// Why other parts could not be read.
    unread: Vec<String>,
}

impl Actions {
    /// Returns the observation of an ended run. While parts cannot be read but may become available, the run
    /// counts as running, for at most `RETRY_FOR` after its end was first seen.
    pub(crate) async fn ended(
        &self,
        place: &RunHandle,
        run: &Run,
        end: RunConclusion,
    ) -> Result<Observation> {
        if let Some(why) = self.unread_lately(place, Instant::now()) {
            self.note_looked_at(place);
            return Ok(being_read(&end, &why));
        }
        let mut gathering = PartialReader::within(self.call_limit / 2);
        let mut jobs = gathering.part("the jobs", self.jobs(place)).await?;
        // Failed jobs matter most in a matrix of hundreds.
        jobs.sort_by_key(rank);
        let left = self.read_output(place, began_anew(place, run, &jobs), &mut gathering).await?;
        let mut whys = Vec::new();
        if end.kind == EndKind::Failed {
            for job in jobs.iter().filter(|job| has_failed(job)).take(MOST_TOLD) {
                whys.push(self.why(place, job, &mut gathering).await?);
            }
        }
        let cause = match end.kind {
            EndKind::Cancelled => self.cause(place, &jobs, &mut gathering).await?,
            EndKind::Failed if whys.is_empty() => {
                gathering.part("the reviews", self.rejection(place)).await?
            }
            _ => None,
        };
        if let Some(why) = gathering.retryable_reason()
            && self.may_wait(place, why, Instant::now())
        {
            self.note_looked_at(place);
            return Ok(being_read(&end, why));
        }
        self.forget(place.run);
        let unread = gathering.unread().to_vec();
        Ok(build_observation(run, place, &end, Read { jobs, whys, left, cause, unread }))
    }

    /// Records that parts could not be read. Returns false once the end of this attempt was first seen
    /// `RETRY_FOR` ago.
    fn may_wait(&self, place: &RunHandle, why: &str, now: Instant) -> bool {
        let mut unread = self.unread.lock();
        unread.retain(|_, it| now - it.first < REMEMBERED);
        let new = || PendingEnd { first: now, last: now, why: String::new() };
        let it = unread.entry((place.run, place.attempt)).or_insert_with(new);
        it.last = now;
        why.clone_into(&mut it.why);
        now - it.first < RETRY_FOR
    }

    /// Returns why parts of this end could not be read, until the next retry is due.
    fn unread_lately(&self, place: &RunHandle, now: Instant) -> Option<String> {
        let unread = self.unread.lock();
        unread.get(&(place.run, place.attempt)).filter(|it| !it.is_due(now)).map(|it| it.why.clone())
    }

    async fn annotations(&self, place: &RunHandle, job: &Job) -> Result<Vec<Annotation>> {
        let path = format!("/repos/{}/check-runs/{}/annotations?per_page=20", place.repository, job.id);
        match self.api.get::<Vec<Annotation>>("the annotations", &path).await {
            Ok(remarks) => Ok(remarks),
            // A token without the permission `checks` gets no annotations.
            Err(failure) if failure.is(403) || failure.is(404) => Ok(Vec::new()),
            Err(failure) => Err(failure.into()),
        }
    }

    async fn why(
        &self,
        place: &RunHandle,
        job: &Job,
        gathering: &mut PartialReader,
    ) -> Result<FailureDetails> {
        let failed = job.steps().iter().find(|step| step.conclusion.as_deref() == Some("failure"));
        Ok(FailureDetails {
            job: job.name.clone(),
            step: failed.map(|step| step.name.clone()),
            remarks: gathering.part("the annotations", self.annotations(place, job)).await?,
            lines: gathering.part("the log", self.last_lines(place, job)).await?,
        })
    }

    /// Returns the cause of a cancellation, if GitHub reports it: the run's concurrency group or its time
    /// limit. `None` if this process requested the cancellation.
    async fn cause(
        &self,
        place: &RunHandle,
        jobs: &[Job],
        gathering: &mut PartialReader,
    ) -> Result<Option<String>> {
        if self.was_cancelled_here(place.run) {
            return Ok(None);
        }
        let Some(job) = jobs.iter().find(|job| job.conclusion.as_deref() == Some("cancelled")) else {
            let before =
                "before a job began: by a person, or by GitHub for a newer run of its concurrency group";
            return Ok(jobs.is_empty().then(|| before.to_owned()));
        };
        let remarks = gathering.part("the annotations", self.annotations(place, job)).await?;
        let cause = |words: String| match () {
            () if words.starts_with(CONCURRENCY) => Some(format!("by its concurrency group: {words}")),
            () if words.contains(TIME_LIMIT) => Some(format!("by its time limit: {words}")),
            () => None,
        };
        Ok(remarks.into_iter().filter_map(|one| one.message).find_map(cause))
    }
}

/// Returns the observation of an ended run whose parts may become available.
fn being_read(end: &RunConclusion, why: &str) -> Observation {
    let message = format!("{}, and its result is being read: {why}", end.words());
    Observation::new(JobState::Running).with_message(one_line(&message))
}

/// Returns the start of a later attempt if all of its jobs ran in it: only artifacts from then on are its
/// own. `None` for the first attempt, and if only some jobs were rerun: then all artifacts of the run count.
fn began_anew(place: &RunHandle, run: &Run, jobs: &[Job]) -> Option<Timestamp> {
    let began = moment(run.run_started_at.as_deref()).filter(|_| place.attempt > 1 && !jobs.is_empty())?;
    let is_anew = |job: &Job| moment(job.started_at.as_deref()).is_none_or(|at| at >= began);
    jobs.iter().all(is_anew).then_some(began)
}

/// Sorts failed jobs first, then those that did not run to completion.
fn rank(job: &Job) -> u8 {
    match job.conclusion.as_deref() {
        _ if has_failed(job) => 0,
        Some("success" | "skipped" | "neutral") => 2,
        _ => 1,
    }
}

fn has_failed(job: &Job) -> bool {
    matches!(job.conclusion.as_deref(), Some("failure" | "timed_out" | "startup_failure"))
}

fn build_observation(run: &Run, place: &RunHandle, end: &RunConclusion, read: Read) -> Observation {
    let Read { jobs, whys, left, cause, unread } = read;
    let link = attempt_url(run, place.attempt);
    let at = whys.first().map(|why| match &why.step {
        Some(step) => format!(" in the job {}, step {step}", why.job),
        None => format!(" in the job {}", why.job),
    });
    let reason = whys.first().and_then(|why| reason(&why.lines)).map(|line| format!(": {line}"));
    let words = [Some(end.words()), cause].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let headline = format!("{words}{}", at.unwrap_or_default());
    let message = one_line(&format!("{headline}{}", reason.unwrap_or_default()));

    let mut text = format!("{}\nThe run: {link}", capital(&headline));
    if place.attempt > 1 {
        let before = attempt_url(run, place.attempt - 1);
        text.push_str(&format!("\nIt is the attempt {} of the run, after {before}", place.attempt));
    }
    for job in jobs.iter().take(MOST_NAMED) {
        text.push_str(&format!("\n- {}: {}", job.name, job.conclusion.as_deref().unwrap_or("no conclusion")));
    }
    if jobs.len() > MOST_NAMED {
        text.push_str(&format!("\n- and {} more", jobs.len() - MOST_NAMED));
    }
    for why in whys.iter().filter(|why| !why.lines.is_empty()) {
        let step = why.step.as_deref().map(|step| format!(", step {step}")).unwrap_or_default();
        let lines = last_lines(&why.lines, LOG_BYTES / whys.len());
        text.push_str(&format!("\n\nThe last lines of {}{step}:\n{lines}", why.job));
    }
    if !unread.is_empty() {
        text.push_str(&format!("\n\nThis could not be read:\n- {}", unread.join("\n- ")));
    }
    let mut content = vec![Content::text(text)];
    let structured = match left.output {
        Some(output) => {
            content.push(Content::text(output.to_string()));
            output
        }
        None => data(run, place, end, &jobs, &whys, &unread),
    };
    let (structured, artifacts) = (Some(structured), left.artifacts);
    let output = Output { content, structured, artifacts, ..Output::default() };
    let seen = Observation::new(end.state(output));
    match end.kind {
        EndKind::Succeeded => seen,
        EndKind::Failed | EndKind::Cancelled => seen.with_message(message),
    }
}

/// Returns the log line with the cause of a failed step: the last one before the runner's own line.
fn reason(lines: &str) -> Option<&str> {
    let says_why = |line: &&str| !line.trim().is_empty() && !line.starts_with(EXIT_CODE);
    lines.lines().rfind(says_why).or_else(|| lines.lines().next_back())
}

/// Returns the last whole lines that fit into `most` bytes, but at least the last line.
fn last_lines(lines: &str, most: usize) -> &str {
    let cut = lines.len().saturating_sub(most);
    let mut starts = lines.match_indices('\n').map(|(at, _)| at + 1);
    match starts.find(|at| *at >= cut) {
        Some(at) if cut > 0 && at < lines.len() => &lines[at..],
        _ => lines,
    }
}

/// Returns the end as data, for a workflow that returns no data of its own.
fn data(
    run: &Run,
    place: &RunHandle,
    end: &RunConclusion,
    jobs: &[Job],
    whys: &[FailureDetails],
    unread: &[String],
) -> Value {
    let job = |job: &Job| {
        let why = whys.iter().find(|why| why.job == job.name);
        let mut told = Map::new();
        told.insert("name".to_owned(), job.name.as_str().into());
        told.insert("conclusion".to_owned(), job.conclusion.as_deref().into());
        told.insert("url".to_owned(), job.html_url.as_deref().into());
        if let Some(why) = why {
            told.insert("failed_step".to_owned(), why.step.as_deref().into());
            let remark = |one: &Annotation| json!({"level": one.annotation_level, "path": one.path, "line": one.start_line, "message": one.message});
            told.insert("annotations".to_owned(), why.remarks.iter().map(remark).collect());
        }
        Value::from(told)
    };
    let mut data = json!({
        "conclusion": end.conclusion, "run_id": place.run, "attempt": place.attempt, "url": attempt_url(run, place.attempt),
        "attempt_before": (place.attempt > 1).then(|| attempt_url(run, place.attempt - 1)),
        "jobs": jobs.iter().map(job).collect::<Vec<_>>(),
    });
    if !unread.is_empty() {
        data["not_read"] = unread.into();
    }
    data
}

/// Returns the address of an attempt. A run that is named by it is rerun at most once.
fn attempt_url(run: &Run, attempt: u64) -> String {
    let link = run.html_url.as_deref().unwrap_or_default();
    let run = link.split("/attempts/").next().unwrap_or_default();
    format!("{run}/attempts/{attempt}")
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link that stays missing is polled five times a second, but requested only a few times.
    #[test]
    fn retries_of_unread_parts_become_rarer() {
        let first = Instant::now();
        let mut unread = PendingEnd { first, last: first, why: String::new() };
        let mut tries = 0;
        for poll in 1..=RETRY_FOR.as_secs() * 5 {
            let now = first + Duration::from_millis(200) * u32::try_from(poll).unwrap();
            if unread.is_due(now) {
                (unread.last, tries) = (now, tries + 1);
            }
        }
        assert!((5..=10).contains(&tries), "{tries}");
        assert!(unread.is_due(first + RETRY_FOR), "the last try is at the end");
    }
}
