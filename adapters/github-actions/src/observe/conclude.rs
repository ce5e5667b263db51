//! Result of an ended run, as text and as data: its conclusion, its jobs, the cause of a failure, and its
//! artifacts. Parts that still cannot be read after a retry period are named, and the end is reported without
//! them.

use serde_json::{Map, Value, json};
use taskbridge_sdk::{Content, JobState, Observation, Output, Result, Timestamp, one_line};
use tokio::time::Instant;

use crate::core::Actions;
use crate::driver::wire::{Annotation, Job, Run, parse_time};
use crate::identity::handle::RunHandle;
use crate::observe::{EndKind, RunConclusion};
use crate::result::artifacts::RunOutput;
use crate::result::partial_read::PartialReader;

/// Number of failed jobs whose last log lines and annotations are read.
const MAX_DETAILED_JOBS: usize = 3;
/// Number of jobs in the text. The data contains all of them.
const MAX_LISTED_JOBS: usize = 15;
/// Maximum bytes of logs in the text, for all failed jobs together.
const MAX_LOG_BYTES: usize = 1200;
/// Prefix of the line with which GitHub's runner reports a failed step. The cause is in the lines before it.
const EXIT_CODE_PREFIX: &str = "Process completed with exit code";
/// Prefix of GitHub's annotation for a job that was cancelled because of its concurrency group.
const CONCURRENCY_PREFIX: &str = "Canceling since a higher priority waiting request";
/// Part of GitHub's annotation for a job that was cancelled because of its `timeout-minutes`.
const TIME_LIMIT_TEXT: &str = "exceeded the maximum execution time";

/// Cause of a failed job.
struct FailureDetails {
    job: String,
    step: Option<String>,
    log_lines: String,
    annotations: Vec<Annotation>,
}

/// All that was read about an ended run.
struct EndedRunData {
    jobs: Vec<Job>,
    failures: Vec<FailureDetails>,
    run_output: RunOutput,
    /// Cause of a cancellation, if GitHub reports it.
    cause: Option<String>,
    /// Why other parts could not be read.
    unread_parts: Vec<String>,
}

impl Actions {
    /// Returns the observation of an ended run. While parts cannot be read but may become available, the run
    /// counts as running, for a limited time after its end was first seen.
    pub(crate) async fn observe_end(
        &self,
        run_handle: &RunHandle,
        run: &Run,
        end: RunConclusion,
    ) -> Result<Observation> {
        if let Some(reason) = self.pending_ends.reason(run_handle, Instant::now()) {
            self.record_polled(run_handle);
            return Ok(pending_observation(&end, &reason));
        }
        let mut reader = PartialReader::with_timeout(self.poll_timeout / 2);
        let mut jobs = reader.read_part("the jobs", self.jobs(run_handle)).await?;
        // Failed jobs matter most in a matrix of hundreds.
        jobs.sort_by_key(rank);
        let run_output =
            self.read_output(run_handle, full_rerun_start(run_handle, run, &jobs), &mut reader).await?;
        let mut failures = Vec::new();
        if end.kind == EndKind::Failed {
            for job in jobs.iter().filter(|job| has_failed(job)).take(MAX_DETAILED_JOBS) {
                failures.push(self.failure_details(run_handle, job, &mut reader).await?);
            }
        }
        let cause = match end.kind {
            EndKind::Cancelled => self.cancel_cause(run_handle, &jobs, &mut reader).await?,
            EndKind::Failed if failures.is_empty() => {
                reader.read_part("the reviews", self.rejection_reason(run_handle)).await?
            }
            _ => None,
        };
        if let Some(reason) = reader.retryable_reason()
            && self.pending_ends.record(run_handle, reason, Instant::now())
        {
            self.record_polled(run_handle);
            return Ok(pending_observation(&end, reason));
        }
        self.forget(run_handle.run);
        let unread_parts = reader.unread_reasons().to_vec();
        Ok(build_observation(
            run,
            run_handle,
            &end,
            EndedRunData { jobs, failures, run_output, cause, unread_parts },
        ))
    }

    async fn annotations(&self, run_handle: &RunHandle, job: &Job) -> Result<Vec<Annotation>> {
        let path = format!("/repos/{}/check-runs/{}/annotations?per_page=20", run_handle.repository, job.id);
        match self.api.get::<Vec<Annotation>>("the annotations", &path).await {
            Ok(annotations) => Ok(annotations),
            // A token without the permission `checks` gets no annotations.
            Err(failure) if failure.has_status(403) || failure.has_status(404) => Ok(Vec::new()),
            Err(failure) => Err(failure.into()),
        }
    }

    async fn failure_details(
        &self,
        run_handle: &RunHandle,
        job: &Job,
        reader: &mut PartialReader,
    ) -> Result<FailureDetails> {
        let failed_step = job.steps().iter().find(|step| step.conclusion.as_deref() == Some("failure"));
        Ok(FailureDetails {
            job: job.name.clone(),
            step: failed_step.map(|step| step.name.clone()),
            annotations: reader.read_part("the annotations", self.annotations(run_handle, job)).await?,
            log_lines: reader.read_part("the log", self.failure_excerpt(run_handle, job)).await?,
        })
    }

    /// Returns the cause of a cancellation, if GitHub reports it: the run's concurrency group or its time
    /// limit. `None` if this process requested the cancellation.
    async fn cancel_cause(
        &self,
        run_handle: &RunHandle,
        jobs: &[Job],
        reader: &mut PartialReader,
    ) -> Result<Option<String>> {
        if self.was_cancelled_here(run_handle.run) {
            return Ok(None);
        }
        let Some(job) = jobs.iter().find(|job| job.conclusion.as_deref() == Some("cancelled")) else {
            let reason =
                "before a job began: by a person, or by GitHub for a newer run of its concurrency group";
            return Ok(jobs.is_empty().then(|| reason.to_owned()));
        };
        let annotations = reader.read_part("the annotations", self.annotations(run_handle, job)).await?;
        let classify = |message: String| match () {
            () if message.starts_with(CONCURRENCY_PREFIX) => {
                Some(format!("by its concurrency group: {message}"))
            }
            () if message.contains(TIME_LIMIT_TEXT) => Some(format!("by its time limit: {message}")),
            () => None,
        };
        Ok(annotations.into_iter().filter_map(|annotation| annotation.message).find_map(classify))
    }
}

/// Returns the observation of an ended run whose parts may become available.
fn pending_observation(end: &RunConclusion, reason: &str) -> Observation {
    let message = format!("{}, and its result is being read: {reason}", end.describe());
    Observation::new(JobState::Running).with_message(one_line(&message))
}

/// Returns the start of a later attempt if all of its jobs ran in it: only artifacts from then on are its
/// own. `None` for the first attempt, and if only some jobs were rerun: then all artifacts of the run count.
fn full_rerun_start(run_handle: &RunHandle, run: &Run, jobs: &[Job]) -> Option<Timestamp> {
    let started_at =
        parse_time(run.run_started_at.as_deref()).filter(|_| run_handle.attempt > 1 && !jobs.is_empty())?;
    let ran_in_attempt = |job: &Job| parse_time(job.started_at.as_deref()).is_none_or(|at| at >= started_at);
    jobs.iter().all(ran_in_attempt).then_some(started_at)
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

fn build_observation(
    run: &Run,
    run_handle: &RunHandle,
    end: &RunConclusion,
    ended_run: EndedRunData,
) -> Observation {
    let EndedRunData { jobs, failures, run_output, cause, unread_parts } = ended_run;
    let url = attempt_url(run, run_handle.attempt);
    let location = failures.first().map(|failure| match &failure.step {
        Some(step) => format!(" in the job {}, step {step}", failure.job),
        None => format!(" in the job {}", failure.job),
    });
    let reason =
        failures.first().and_then(|failure| failure_line(&failure.log_lines)).map(|line| format!(": {line}"));
    let summary = [Some(end.describe()), cause].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let headline = format!("{summary}{}", location.unwrap_or_default());
    let message = one_line(&format!("{headline}{}", reason.unwrap_or_default()));

    let mut text = format!("{}\nThe run: {url}", capitalize(&headline));
    if run_handle.attempt > 1 {
        let previous_url = attempt_url(run, run_handle.attempt - 1);
        text.push_str(&format!("\nAttempt {} of the run, after {previous_url}", run_handle.attempt));
    }
    for job in jobs.iter().take(MAX_LISTED_JOBS) {
        text.push_str(&format!("\n- {}: {}", job.name, job.conclusion.as_deref().unwrap_or("no conclusion")));
    }
    if jobs.len() > MAX_LISTED_JOBS {
        text.push_str(&format!("\n- and {} more", jobs.len() - MAX_LISTED_JOBS));
    }
    for failure in failures.iter().filter(|failure| !failure.log_lines.is_empty()) {
        let step = failure.step.as_deref().map(|step| format!(", step {step}")).unwrap_or_default();
        let lines = last_lines(&failure.log_lines, MAX_LOG_BYTES / failures.len());
        text.push_str(&format!("\n\nThe last lines of {}{step}:\n{lines}", failure.job));
    }
    if !unread_parts.is_empty() {
        text.push_str(&format!("\n\nThis could not be read:\n- {}", unread_parts.join("\n- ")));
    }
    let mut content = vec![Content::text(text)];
    let structured = match run_output.output {
        Some(output) => {
            content.push(Content::text(output.to_string()));
            output
        }
        None => end_as_json(run, run_handle, end, &jobs, &failures, &unread_parts),
    };
    let (structured, artifacts) = (Some(structured), run_output.artifacts);
    let output = Output { content, structured, artifacts, ..Output::default() };
    let observation = Observation::new(end.state(output));
    match end.kind {
        EndKind::Succeeded => observation,
        EndKind::Failed | EndKind::Cancelled => observation.with_message(message),
    }
}

/// Returns the log line with the cause of a failed step: the last one before the runner's own line.
fn failure_line(lines: &str) -> Option<&str> {
    let is_relevant = |line: &&str| !line.trim().is_empty() && !line.starts_with(EXIT_CODE_PREFIX);
    lines.lines().rfind(is_relevant).or_else(|| lines.lines().next_back())
}

/// Returns the last whole lines that fit into `max_bytes`, but at least the last line.
fn last_lines(lines: &str, max_bytes: usize) -> &str {
    let min_start = lines.len().saturating_sub(max_bytes);
    let mut starts = lines.match_indices('\n').map(|(at, _)| at + 1);
    match starts.find(|at| *at >= min_start) {
        Some(at) if min_start > 0 && at < lines.len() => &lines[at..],
        _ => lines,
    }
}

/// Returns the end as data, for a workflow that returns no data of its own.
fn end_as_json(
    run: &Run,
    run_handle: &RunHandle,
    end: &RunConclusion,
    jobs: &[Job],
    failures: &[FailureDetails],
    unread_parts: &[String],
) -> Value {
    let job_json = |job_json: &Job| {
        let failure = failures.iter().find(|failure| failure.job == job_json.name);
        let mut fields = Map::new();
        fields.insert("name".to_owned(), job_json.name.as_str().into());
        fields.insert("conclusion".to_owned(), job_json.conclusion.as_deref().into());
        fields.insert("url".to_owned(), job_json.html_url.as_deref().into());
        if let Some(failure) = failure {
            fields.insert("failed_step".to_owned(), failure.step.as_deref().into());
            let annotation_json = |annotation: &Annotation| json!({"level": annotation.annotation_level, "path": annotation.path, "line": annotation.start_line, "message": annotation.message});
            fields
                .insert("annotations".to_owned(), failure.annotations.iter().map(annotation_json).collect());
        }
        Value::from(fields)
    };
    let mut data = json!({
        "conclusion": end.conclusion, "run_id": run_handle.run, "attempt": run_handle.attempt, "url": attempt_url(run, run_handle.attempt),
        "attempt_before": (run_handle.attempt > 1).then(|| attempt_url(run, run_handle.attempt - 1)),
        "jobs": jobs.iter().map(job_json).collect::<Vec<_>>(),
    });
    if !unread_parts.is_empty() {
        data["not_read"] = unread_parts.into();
    }
    data
}

/// Returns the address of an attempt. A run that is named by it is rerun at most once.
pub(super) fn attempt_url(run_url: &Run, attempt: u64) -> String {
    let url = run_url.html_url.as_deref().unwrap_or_default();
    let run_url = url.split("/attempts/").next().unwrap_or_default();
    format!("{run_url}/attempts/{attempt}")
}

fn capitalize(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
