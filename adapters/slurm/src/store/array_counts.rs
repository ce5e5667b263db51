//! Counts how the tasks of an array ended, while other tasks are still active. The controller forgets a task
//! some time after its end (`MinJobAge`), but a reported count must not shrink. All of it may be lost: the
//! markers in the job's folder restore it, and the accounting database does for tasks without one. It does
//! not decide how the whole job ended.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::driver::state::{Phase, State};
use crate::driver::{Record, Row, Tasks};
use crate::store::end_marker::{EndMarker, Run};

/// Interval of accounting queries about tasks whose ends are unknown. The database may be late.
const QUERY_INTERVAL: Duration = Duration::from_secs(10);
/// Number of successive queries that leave a task's end unknown. After that many, such tasks are not queried
/// again.
const MAX_INCONCLUSIVE_QUERIES: u32 = 3;

/// What was seen of an array.
#[derive(Debug, Default)]
pub(crate) struct ArrayCounts {
    task_ends: HashMap<u32, ArrayTaskEnd>,
    /// The highest number of done tasks that was reported.
    max_done: usize,
    inconclusive_queries: u32,
    last_query: Option<Instant>,
}

/// How one of its tasks ended.
#[derive(Clone, Copy, Debug, Default)]
struct ArrayTaskEnd {
    /// According to Slurm.
    slurm_outcome: Option<SlurmOutcome>,
    /// According to its wrapper.
    marker_outcome: Option<MarkerOutcome>,
    /// The accounting database did not know the end either: see [`MAX_INCONCLUSIVE_QUERIES`].
    unknown: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlurmOutcome {
    Good,
    Bad,
    OutOfMemory,
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkerOutcome {
    Good,
    Bad,
    /// A signal stopped it, and it did not end successfully.
    Stopped,
}

impl ArrayTaskEnd {
    /// Returns true for a failure. The marker takes precedence over Slurm, as it does for the final result. A
    /// script may not notice that a process was killed for lack of memory.
    fn is_bad(self) -> bool {
        match (self.marker_outcome, self.slurm_outcome) {
            (Some(MarkerOutcome::Good), Some(SlurmOutcome::OutOfMemory)) => true,
            (Some(MarkerOutcome::Good), _) => false,
            (Some(MarkerOutcome::Stopped), slurm_outcome) => slurm_outcome != Some(SlurmOutcome::Cancelled),
            (Some(MarkerOutcome::Bad), _) => true,
            (None, slurm_outcome) => {
                matches!(slurm_outcome, Some(SlurmOutcome::Bad | SlurmOutcome::OutOfMemory))
            }
        }
    }
}

impl ArrayCounts {
    /// Adds the controller's rows of tasks that ended, and removes tasks that were requeued.
    pub(crate) fn add_rows(&mut self, rows: &[Row]) {
        for row in rows {
            for task in tasks(&row.tasks) {
                match slurm_outcome(row.state) {
                    Some(outcome) => self.task_ends.entry(task).or_default().slurm_outcome = Some(outcome),
                    None => drop(self.task_ends.remove(&task)),
                }
            }
        }
    }

    /// Returns the tasks that are neither pending nor running, and whose markers have not been read.
    pub(crate) fn unread_tasks(&self, all: &[u32], rows: &[Row]) -> HashSet<u32> {
        let active = active_tasks(rows);
        let has_marker =
            |task: &u32| self.task_ends.get(task).is_some_and(|end| end.marker_outcome.is_some());
        all.iter().copied().filter(|task| !active.contains(task) && !has_marker(task)).collect()
    }

    /// Adds markers. The last one of each task counts.
    pub(crate) fn add_markers(&mut self, ends: &BTreeMap<Run, EndMarker>) {
        for (run, end) in ends {
            if let Some(task) = run.task {
                self.task_ends.entry(task).or_default().marker_outcome = Some(marker_outcome(end));
            }
        }
    }

    /// Returns true if the accounting database must be queried: some tasks have left the queue, and no other
    /// source knows how they ended.
    pub(crate) fn needs_accounting(&self, all: &[u32], rows: &[Row]) -> bool {
        let is_due = self.last_query.is_none_or(|at| at.elapsed() >= QUERY_INTERVAL);
        is_due && self.unknown_tasks(all, rows).next().is_some()
    }

    /// Adds the array's accounting records.
    pub(crate) fn add_records(&mut self, all: &[u32], rows: &[Row], records: &[Record]) {
        let mut unknown: HashSet<u32> = self.unknown_tasks(all, rows).collect();
        for record in records {
            let Some(outcome) = record.state.and_then(slurm_outcome) else { continue };
            for task in tasks(&record.tasks).into_iter().filter(|task| unknown.remove(task)) {
                self.task_ends.entry(task).or_default().slurm_outcome = Some(outcome);
            }
        }
        self.inconclusive_queries = if unknown.is_empty() { 0 } else { self.inconclusive_queries + 1 };
        self.last_query = Some(Instant::now());
        if self.inconclusive_queries >= MAX_INCONCLUSIVE_QUERIES {
            for task in unknown {
                self.task_ends.entry(task).or_default().unknown = true;
            }
            self.inconclusive_queries = 0;
        }
    }

    /// Returns how many of all tasks are pending, if a row of pending tasks does not list them. These are all
    /// tasks that nothing else mentions.
    pub(crate) fn pending_count(&self, total: usize, rows: &[Row]) -> Option<usize> {
        if !rows.iter().any(is_unlisted) {
            return None;
        }
        let mut known_tasks: HashSet<u32> = rows.iter().flat_map(|row| tasks(&row.tasks)).collect();
        known_tasks.extend(self.task_ends.keys());
        let pending_counts =
            rows.iter().filter(|row| row.state.phase() == Phase::Waiting).map(|row| tasks(&row.tasks).len());
        Some(total.saturating_sub(known_tasks.len()) + pending_counts.sum::<usize>())
    }

    /// Returns the tasks that are neither pending nor running and whose ends are unknown. Empty if the
    /// pending tasks are not listed.
    fn unknown_tasks(&self, all: &[u32], rows: &[Row]) -> impl Iterator<Item = u32> {
        let active = active_tasks(rows);
        let all = if rows.iter().any(is_unlisted) { &[] } else { all };
        let is_known =
            |end: &ArrayTaskEnd| end.slurm_outcome.is_some() || end.marker_outcome.is_some() || end.unknown;
        let is_unknown =
            move |task: &u32| !active.contains(task) && !self.task_ends.get(task).is_some_and(is_known);
        all.iter().copied().filter(is_unknown)
    }

    /// Returns how many tasks have failed.
    pub(crate) fn failed(&self) -> usize {
        self.task_ends.values().filter(|end| end.is_bad()).count()
    }

    /// Returns the number of done tasks to report. It never decreases: after a crash, a controller can show
    /// an ended task as running again.
    pub(crate) fn done(&mut self, done: usize) -> usize {
        self.max_done = self.max_done.max(done);
        self.max_done
    }
}

/// Returns true for pending tasks without a list: slurmrestd truncates long expressions.
fn is_unlisted(row: &Row) -> bool {
    row.tasks == Tasks::Single && row.state.phase() == Phase::Waiting
}

fn tasks(tasks: &Tasks) -> Vec<u32> {
    match tasks {
        Tasks::Single => Vec::new(),
        Tasks::One(task) => vec![*task],
        Tasks::Many(tasks) => tasks.clone(),
    }
}

fn active_tasks(rows: &[Row]) -> HashSet<u32> {
    rows.iter().filter(|row| !row.state.has_ended()).flat_map(|row| tasks(&row.tasks)).collect()
}

fn slurm_outcome(state: State) -> Option<SlurmOutcome> {
    match state {
        State::Completed => Some(SlurmOutcome::Good),
        State::Cancelled => Some(SlurmOutcome::Cancelled),
        State::OutOfMemory => Some(SlurmOutcome::OutOfMemory),
        state => state.has_ended().then_some(SlurmOutcome::Bad),
    }
}

fn marker_outcome(end: &EndMarker) -> MarkerOutcome {
    match end.code {
        0 => MarkerOutcome::Good,
        _ if end.was_stopped() => MarkerOutcome::Stopped,
        _ => MarkerOutcome::Bad,
    }
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::{JobHandle, Subject};

    use super::*;
    use crate::core::Slurm;
    use crate::driver::tests::fake::{Fake, row};
    use crate::store::folder::PLAN;
    use crate::store::plan::Plan;

    fn task(task: u32, state: State) -> Row {
        Row { tasks: Tasks::One(task), ..row(7, "tb-a", state) }
    }

    /// Slurm's state still counts if it knows more than the marker, such as out of memory.
    #[test]
    fn end_marker_overrides_element_state() {
        let ends = |all: &[(&str, &str)]| {
            let parse =
                |(run, text): &(&str, &str)| (Run::parse(run).unwrap(), EndMarker::parse(text).unwrap());
            all.iter().map(parse).collect::<BTreeMap<_, _>>()
        };
        let mut counts = ArrayCounts::default();
        let rows = [
            // Slurm started it a second time.
            task(0, State::Failed),
            task(1, State::Completed),
            task(2, State::Cancelled),
            // The node failed, and its wrapper with it.
            task(3, State::NodeFail),
            task(4, State::Timeout),
            task(5, State::Running),
        ];
        let all = [0, 1, 2, 3, 4, 5];
        counts.add_rows(&rows);
        assert_eq!(counts.failed(), 3);
        let stopped = "code=143\ntold=TERM\n";
        counts.add_markers(&ends(&[
            ("0.0", "code=0\n"),
            ("1.0", "code=2\n"),
            ("2.0", stopped),
            ("4.0", stopped),
        ]));
        assert_eq!(counts.failed(), 3, "1, 3 and 4: {counts:?}");
        // It is requeued, and its last run counts.
        counts.add_rows(&[task(1, State::Pending)]);
        assert_eq!(counts.failed(), 2);
        assert_eq!(counts.unread_tasks(&all, &rows), HashSet::from([1, 3]));
        counts.add_markers(&ends(&[("1.0", "code=2\n"), ("1.1", "code=0\n")]));
        assert_eq!(counts.failed(), 2);
        // The script did not notice.
        counts.add_rows(&[task(6, State::OutOfMemory)]);
        counts.add_markers(&ends(&[("6.0", "code=0\n")]));
        assert_eq!(counts.failed(), 3);
    }

    /// Tasks of unknown state are queried in the accounting a few times, and then counted as done.
    #[test]
    fn unknown_elements_are_queried_repeatedly() {
        let mut counts = ArrayCounts::default();
        let all = [0, 1, 2];
        assert!(counts.needs_accounting(&all, &[]));
        assert!(
            !counts.needs_accounting(
                &all,
                &[Row { tasks: Tasks::Many(all.to_vec()), ..task(0, State::Pending) }]
            )
        );
        let records = crate::driver::accounting_text::records(
            "7_0|FAILED|3:0|1795339653|1795339654|1795339655|1|UNLIMITED||00:00:00|1|10M|vm|tb-a\n",
        );
        for _ in 0..MAX_INCONCLUSIVE_QUERIES {
            assert!(counts.unknown_tasks(&all, &[]).next().is_some());
            counts.add_records(&all, &[], &records);
            assert_eq!(counts.failed(), 1);
        }
        assert!(!counts.needs_accounting(&all, &[]));
        assert_eq!(counts.unknown_tasks(&all, &[]).count(), 0, "unknown tasks are not queried again");
        assert_eq!((counts.done(2), counts.done(1)), (2, 2));
    }

    /// Polls an array of five tasks while the controller forgets one after the other.
    #[tokio::test(start_paused = true)]
    async fn forgotten_elements_count_as_failed() {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::default();
        let mut slurm = Slurm::for_test(Box::new(fake.clone()), dir.path());
        slurm.assume_accounting();
        let folder = slurm.folder("tb-a");
        folder.create(None).unwrap();
        folder.write_json(PLAN, &Plan { array: Some("0-4".to_owned()), ..Plan::default() }).unwrap();
        let show = |rows: &[(u32, State)]| {
            fake.state().rows = rows.iter().map(|(number, state)| task(*number, *state)).collect();
        };
        let poll = async |slurm: &Slurm| {
            let observation =
                slurm.poll_jobs(&Subject::watched(&[JobHandle::new("lab/7/tb-a")])).await.remove(0).unwrap();
            (observation.message.unwrap_or_default(), observation.progress.unwrap().done)
        };
        let (failed, ran) = (State::Failed, State::Running);
        show(&[(0, failed), (1, failed), (2, ran), (3, ran), (4, ran)]);
        assert_eq!(poll(&slurm).await, ("job 7: 2 of 5 done, 2 of them failed, 3 running".to_owned(), 2.0));
        show(&[(2, ran), (3, ran), (4, ran)]);
        let expected = ("job 7: 2 of 5 done, 2 of them failed, 3 running".to_owned(), 2.0);
        assert_eq!(poll(&slurm).await, expected);
        assert!(fake.state().accounting_jobs.is_empty(), "the ends were in the queue");

        // Another process, which has seen none of them. One task has left a marker, the other none.
        let mut slurm = Slurm::for_test(Box::new(fake.clone()), dir.path());
        slurm.assume_accounting();
        std::fs::write(folder.file("ends/0.0"), "code=3\n").unwrap();
        assert!(poll(&slurm).await.0.contains("2 of 5 done, 1 of them failed"));
        let accounting_text =
            "7_1|NODE_FAIL|0:0|1795339653|1795339654|1795339655|1|UNLIMITED||00:00:00|1|10M|vm|tb-a\n";
        fake.state().records = Some(crate::driver::accounting_text::records(accounting_text));
        fake.state().accounting_jobs.clear();
        for _ in 0..3 {
            tokio::time::advance(QUERY_INTERVAL).await;
            assert_eq!(poll(&slurm).await, expected);
        }
        assert_eq!(fake.state().accounting_jobs, [7], "one query is enough");

        // After a crash, the controller shows an ended task as running.
        show(&[(1, ran), (2, ran), (3, ran), (4, ran)]);
        let (message, done) = poll(&slurm).await;
        assert_eq!((message.contains("1 of 5 done, 1 of them failed"), done), (true, 2.0), "{message}");
    }
}
