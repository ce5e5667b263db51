//! Progress of running runs: their jobs and steps as one line and a count. Jobs are read no more often than
//! the config allows, for all runs of the backend together. Between two reads, a run keeps its last progress.
//! All of it may be lost. It must not call GitHub.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{Observation, one_line};
use tokio::time::Instant;

use crate::driver::wire::{Job, Run, parse_time};

/// How long the progress of a run is kept after its last read.
const PROGRESS_TTL: Duration = Duration::from_secs(600);

/// Progress of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunProgress {
    pub(crate) message: Option<String>,
    done: f64,
    total: Option<f64>,
}

/// Last progress of each run, and when its jobs were read.
pub(crate) struct ProgressTracker {
    /// Average interval between two reads of jobs, from `progress_calls_per_minute`. `None` if progress is
    /// off.
    read_interval: Option<Duration>,
    state: Mutex<TrackerState>,
}

#[derive(Default)]
struct TrackerState {
    next_read: Option<Instant>,
    runs: HashMap<u64, (Instant, RunProgress)>,
}

impl ProgressTracker {
    pub(crate) fn new(calls_per_minute: u16) -> Self {
        let read_interval =
            (calls_per_minute > 0).then(|| Duration::from_secs(60) / u32::from(calls_per_minute));
        Self { read_interval, state: Mutex::default() }
    }

    /// Returns true if the jobs of this run may be read now, and counts the read. After a read, a run waits
    /// until each run with known progress could have been read once.
    pub(crate) fn may_read(&self, run: u64, now: Instant) -> bool {
        let Some(read_interval) = self.read_interval else { return false };
        let mut state = self.state.lock();
        state.runs.retain(|_, (at, _)| now - *at < PROGRESS_TTL);
        let min_interval = read_interval * u32::try_from(state.runs.len()).unwrap_or(u32::MAX);
        let is_due = state.runs.get(&run).is_none_or(|(at, _)| now - *at >= min_interval);
        // A small burst is allowed, so that a few runs do not delay each other.
        let burst = read_interval * 5;
        let next_read = state.next_read.unwrap_or(now).max(now);
        if !is_due || next_read > now + burst {
            return false;
        }
        state.next_read = Some(next_read + read_interval);
        true
    }

    pub(crate) fn record(&self, run: u64, progress: RunProgress, now: Instant) {
        self.state.lock().runs.insert(run, (now, progress));
    }

    /// Returns the last progress of a run.
    pub(crate) fn last(&self, run: u64) -> RunProgress {
        self.state.lock().runs.get(&run).map(|(_, progress)| progress.clone()).unwrap_or_default()
    }

    pub(crate) fn forget(&self, run: u64) {
        self.state.lock().runs.remove(&run);
    }
}

impl RunProgress {
    /// Computes the progress from the jobs of a run.
    pub(crate) fn from_jobs(jobs: &[Job]) -> Self {
        let has_ended = |status: &Option<String>| status.as_deref() == Some("completed");
        let steps = || jobs.iter().flat_map(Job::steps);
        let total = steps().count();
        let done = steps().filter(|step| has_ended(&step.status)).count();
        let running: Vec<&Job> =
            jobs.iter().filter(|job| job.status.as_deref() == Some("in_progress")).collect();
        let mut parts = Vec::new();
        if jobs.len() > 1 {
            parts.push(format!(
                "{} of {} jobs done",
                jobs.iter().filter(|job| has_ended(&job.status)).count(),
                jobs.len()
            ));
        }
        if let Some(job) = running.first() {
            let at = job.steps().iter().position(|step| step.status.as_deref() == Some("in_progress"));
            let step_text =
                at.map(|at| format!(", step {} of {}: {}", at + 1, job.steps().len(), job.steps()[at].name));
            let others = match running.len() - 1 {
                0 => String::new(),
                others => format!(" (and {others} more)"),
            };
            parts.push(format!("job {}{others} running{}", job.name, step_text.unwrap_or_default()));
        }
        let message = (!parts.is_empty()).then(|| one_line(&parts.join("; ")));
        Self { message, done: done as f64, total: (total > 0).then_some(total as f64) }
    }

    /// Adds the progress to an observation. A message that the observation already has stays.
    pub(crate) fn add_to(self, observation: Observation, usual_duration: Option<&str>) -> Observation {
        let message = match (self.message, usual_duration) {
            (Some(message), Some(usual_duration)) => Some(format!("{message}; {usual_duration}")),
            (Some(message), None) => Some(message),
            (None, usual_duration) => usual_duration.map(str::to_owned),
        };
        let observation = match self.total {
            Some(total) => observation.with_progress(self.done, Some(total)),
            None => observation,
        };
        Observation { message: observation.message.clone().or(message), ..observation }
    }
}

/// Returns text about the usual duration of a run: the median of the successful ones on a page.
pub(crate) fn usual_duration(runs: &[Run]) -> Option<String> {
    let mut durations: Vec<u64> = runs
        .iter()
        .filter(|run| run.conclusion.as_deref() == Some("success"))
        .filter_map(|run| {
            let (from, to) =
                (parse_time(run.run_started_at.as_deref())?, parse_time(run.updated_at.as_deref())?);
            Some(to.since(from).as_secs())
        })
        .collect();
    durations.sort_unstable();
    let median = *durations.get(durations.len() / 2)?;
    Some(match median {
        0..60 => "usually under a minute".to_owned(),
        seconds => format!("usually {} min", seconds.div_ceil(60)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::wire::Step;
    use taskbridge_sdk::{JobState, Progress};

    fn job(name: &str, status: &str, steps: &[&str]) -> Job {
        let step = |(at, status): (usize, &&str)| Step {
            name: format!("Step {at}"),
            status: Some((*status).to_owned()),
            conclusion: None,
        };
        let steps = steps.iter().enumerate().map(step).collect();
        Job { name: name.to_owned(), status: Some(status.to_owned()), steps: Some(steps), ..Job::default() }
    }

    /// The jobs of a run become one line and a count of steps.
    #[test]
    fn jobs_become_message_and_progress() {
        let jobs = [
            job("build", "completed", &["completed", "completed"]),
            job("test (1)", "in_progress", &["completed", "in_progress", "queued"]),
            job("test (2)", "in_progress", &["in_progress"]),
            job("deploy", "queued", &[]),
        ];
        let observation =
            RunProgress::from_jobs(&jobs).add_to(Observation::new(JobState::Running), Some("usually 9 min"));
        assert_eq!(
            observation.message.as_deref(),
            Some("1 of 4 jobs done; job test (1) (and 1 more) running, step 2 of 3: Step 1; usually 9 min")
        );
        assert_eq!(observation.progress, Some(Progress { done: 3.0, total: Some(6.0) }));
        let single = RunProgress::from_jobs(&jobs[1..2]);
        assert_eq!(single.message.as_deref(), Some("job test (1) running, step 2 of 3: Step 1"));
        let empty = RunProgress::from_jobs(&[]).add_to(Observation::new(JobState::Running), None);
        assert_eq!((empty.message, empty.progress), (None, None));
    }

    /// Jobs are read as often as the config allows, and every run gets its turn.
    #[test]
    fn job_reads_are_limited_and_fair() {
        let (tracker, start) = (ProgressTracker::new(60), Instant::now());
        let mut reads = 0;
        for second in 0..120 {
            let now = start + Duration::from_secs(second);
            for run in 0..20 {
                if tracker.may_read(run, now) {
                    tracker.record(run, RunProgress::default(), now);
                    reads += 1;
                }
            }
            assert!(second > 0 || reads <= 7, "{reads} at once");
        }
        assert!((100..=127).contains(&reads), "{reads} in two minutes");
        assert!((0..20).all(|run| tracker.state.lock().runs.contains_key(&run)), "each had its turn");
        assert!(!ProgressTracker::new(0).may_read(1, start));
    }

    /// The usual duration is the median of the runs that succeeded.
    #[test]
    fn usual_duration_is_success_median() {
        let run = |minutes: u32, conclusion: &str| Run {
            conclusion: Some(conclusion.to_owned()),
            run_started_at: Some("2026-01-01T00:00:00Z".to_owned()),
            updated_at: Some(format!("2026-01-01T00:{minutes:02}:30Z")),
            ..Run::default()
        };
        let runs = [run(8, "success"), run(50, "failure"), run(2, "success"), run(20, "success")];
        assert_eq!(usual_duration(&runs).as_deref(), Some("usually 9 min"));
        assert_eq!(usual_duration(&[run(0, "success")]).as_deref(), Some("usually under a minute"));
        assert_eq!(usual_duration(&[run(1, "failure")]), None);
    }
}
