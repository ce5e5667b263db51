//! Progress of running runs: their jobs and steps as one line and a count. Jobs are read no more often than
//! the config allows, for all runs of the backend together. Between two reads, a run keeps its last progress.
//! All of it may be lost. It must not call GitHub.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{Observation, one_line};
use tokio::time::Instant;

use crate::wire::{Job, Run, moment};

/// How long the progress of a run is kept after its last read.
const REMEMBERED: Duration = Duration::from_secs(600);

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
    between: Option<Duration>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    next: Option<Instant>,
    runs: HashMap<u64, (Instant, RunProgress)>,
}

impl ProgressTracker {
    pub(crate) fn new(calls_per_minute: u16) -> Self {
        let between = (calls_per_minute > 0).then(|| Duration::from_secs(60) / u32::from(calls_per_minute));
        Self { between, seen: Mutex::default() }
    }

    /// Returns true if the jobs of this run may be read now, and counts the read. After a read, a run waits
    /// until each run with known progress could have been read once.
    pub(crate) fn may_read(&self, run: u64, now: Instant) -> bool {
        let Some(between) = self.between else { return false };
        let mut seen = self.seen.lock();
        seen.runs.retain(|_, (at, _)| now - *at < REMEMBERED);
        let turn = between * u32::try_from(seen.runs.len()).unwrap_or(u32::MAX);
        let in_turn = seen.runs.get(&run).is_none_or(|(at, _)| now - *at >= turn);
        // A small burst is allowed, so that a few runs do not delay each other.
        let allowance = between * 5;
        let next = seen.next.unwrap_or(now).max(now);
        if !in_turn || next > now + allowance {
            return false;
        }
        seen.next = Some(next + between);
        true
    }

    pub(crate) fn keep(&self, run: u64, told: RunProgress, now: Instant) {
        self.seen.lock().runs.insert(run, (now, told));
    }

    /// Returns the last progress of a run.
    pub(crate) fn last(&self, run: u64) -> RunProgress {
        self.seen.lock().runs.get(&run).map(|(_, told)| told.clone()).unwrap_or_default()
    }

    pub(crate) fn forget(&self, run: u64) {
        self.seen.lock().runs.remove(&run);
    }
}

impl RunProgress {
    /// Computes the progress from the jobs of a run.
    pub(crate) fn of(jobs: &[Job]) -> Self {
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
            let place =
                at.map(|at| format!(", step {} of {}: {}", at + 1, job.steps().len(), job.steps()[at].name));
            let others = match running.len() - 1 {
                0 => String::new(),
                others => format!(" (and {others} more)"),
            };
            parts.push(format!("job {}{others} running{}", job.name, place.unwrap_or_default()));
        }
        let message = (!parts.is_empty()).then(|| one_line(&parts.join("; ")));
        Self { message, done: done as f64, total: (total > 0).then_some(total as f64) }
    }

    /// Adds the progress to an observation. A message that the observation already has stays.
    pub(crate) fn within(self, seen: Observation, usual: Option<&str>) -> Observation {
        let message = match (self.message, usual) {
            (Some(message), Some(usual)) => Some(format!("{message}; {usual}")),
            (Some(one), None) => Some(one),
            (None, usual) => usual.map(str::to_owned),
        };
        let seen = match self.total {
            Some(total) => seen.with_progress(self.done, Some(total)),
            None => seen,
        };
        Observation { message: seen.message.clone().or(message), ..seen }
    }
}

/// Returns text about the usual duration of a run: the median of the successful ones on a page.
pub(crate) fn usual(runs: &[Run]) -> Option<String> {
    let mut took: Vec<u64> = runs
        .iter()
        .filter(|run| run.conclusion.as_deref() == Some("success"))
        .filter_map(|run| {
            let (from, to) = (moment(run.run_started_at.as_deref())?, moment(run.updated_at.as_deref())?);
            Some(to.since(from).as_secs())
        })
        .collect();
    took.sort_unstable();
    let median = *took.get(took.len() / 2)?;
    Some(match median {
        0..60 => "usually under a minute".to_owned(),
        seconds => format!("usually {} min", seconds.div_ceil(60)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Step;
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
        let seen = RunProgress::of(&jobs).within(Observation::new(JobState::Running), Some("usually 9 min"));
        assert_eq!(
            seen.message.as_deref(),
            Some("1 of 4 jobs done; job test (1) (and 1 more) running, step 2 of 3: Step 1; usually 9 min")
        );
        assert_eq!(seen.progress, Some(Progress { done: 3.0, total: Some(6.0) }));
        let alone = RunProgress::of(&jobs[1..2]);
        assert_eq!(alone.message.as_deref(), Some("job test (1) running, step 2 of 3: Step 1"));
        let nothing = RunProgress::of(&[]).within(Observation::new(JobState::Running), None);
        assert_eq!((nothing.message, nothing.progress), (None, None));
    }

    /// Jobs are read as often as the config allows, and every run gets its turn.
    #[test]
    fn job_reads_are_limited_and_fair() {
        let (watch, start) = (ProgressTracker::new(60), Instant::now());
        let mut read = 0;
        for second in 0..120 {
            let now = start + Duration::from_secs(second);
            for run in 0..20 {
                if watch.may_read(run, now) {
                    watch.keep(run, RunProgress::default(), now);
                    read += 1;
                }
            }
            assert!(second > 0 || read <= 7, "{read} at once");
        }
        assert!((100..=127).contains(&read), "{read} in two minutes");
        assert!((0..20).all(|run| watch.seen.lock().runs.contains_key(&run)), "each had its turn");
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
        assert_eq!(usual(&runs).as_deref(), Some("usually 9 min"));
        assert_eq!(usual(&[run(0, "success")]).as_deref(), Some("usually under a minute"));
        assert_eq!(usual(&[run(1, "failure")]), None);
    }
}
