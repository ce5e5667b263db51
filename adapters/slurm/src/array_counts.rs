//! Counts how the tasks of an array ended, while other tasks are still active. The controller forgets a task
//! some time after its end (`MinJobAge`), but a reported count must not shrink. All of it may be lost: the
//! markers in the job's folder restore it, and the accounting database does for tasks without one. It does
//! not decide how the whole job ended.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::driver::{Record, Row, Tasks};
use crate::end::{EndMarker, Run};
use crate::state::{Phase, State};

/// Interval of accounting queries about tasks whose ends are unknown. The database may be late.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// Number of successive queries that leave a task's end unknown. After that many, such tasks are not queried
/// again.
const ASK_TIMES: u32 = 3;

/// What was seen of an array.
#[derive(Debug, Default)]
pub(crate) struct ArrayCounts {
    ended: HashMap<u32, ArrayTaskEnd>,
    /// The highest number of done tasks that was reported.
    most_done: usize,
    asked: u32,
    asked_at: Option<Instant>,
}

/// How one of its tasks ended.
#[derive(Clone, Copy, Debug, Default)]
struct ArrayTaskEnd {
    /// According to Slurm.
    slurms: Option<SlurmOutcome>,
    /// According to its wrapper.
    marked: Option<MarkerOutcome>,
    /// The accounting database did not know the end either: see `ASK_TIMES`.
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
        match (self.marked, self.slurms) {
            (Some(MarkerOutcome::Good), Some(SlurmOutcome::OutOfMemory)) => true,
            (Some(MarkerOutcome::Good), _) => false,
            (Some(MarkerOutcome::Stopped), slurms) => slurms != Some(SlurmOutcome::Cancelled),
            (Some(MarkerOutcome::Bad), _) => true,
            (None, slurms) => matches!(slurms, Some(SlurmOutcome::Bad | SlurmOutcome::OutOfMemory)),
        }
    }
}

impl ArrayCounts {
    /// Adds the controller's rows of tasks that ended, and removes tasks that were requeued.
    pub(crate) fn add_rows(&mut self, rows: &[Row]) {
        for row in rows {
            for task in tasks(&row.tasks) {
                match how(row.state) {
                    Some(how) => self.ended.entry(task).or_default().slurms = Some(how),
                    None => drop(self.ended.remove(&task)),
                }
            }
        }
    }

    /// Returns the tasks that are neither pending nor running, and whose markers have not been read.
    pub(crate) fn unread(&self, all: &[u32], rows: &[Row]) -> HashSet<u32> {
        let alive = alive(rows);
        let is_marked = |task: &u32| self.ended.get(task).is_some_and(|ended| ended.marked.is_some());
        all.iter().copied().filter(|task| !alive.contains(task) && !is_marked(task)).collect()
    }

    /// Adds markers. The last one of each task counts.
    pub(crate) fn mark(&mut self, ends: &BTreeMap<Run, EndMarker>) {
        for (run, end) in ends {
            if let Some(task) = run.task {
                self.ended.entry(task).or_default().marked = Some(marked(end));
            }
        }
    }

    /// Returns true if the accounting database must be queried: some tasks have left the queue, and no other
    /// source knows how they ended.
    pub(crate) fn needs_accounting(&self, all: &[u32], rows: &[Row]) -> bool {
        let is_due = self.asked_at.is_none_or(|at| at.elapsed() >= ASK_EVERY);
        is_due && self.unknown_tasks(all, rows).next().is_some()
    }

    /// Adds the array's accounting records.
    pub(crate) fn add_records(&mut self, all: &[u32], rows: &[Row], records: &[Record]) {
        let mut untold: HashSet<u32> = self.unknown_tasks(all, rows).collect();
        for record in records {
            let Some(how) = record.state.and_then(how) else { continue };
            for task in tasks(&record.tasks).into_iter().filter(|task| untold.remove(task)) {
                self.ended.entry(task).or_default().slurms = Some(how);
            }
        }
        self.asked = if untold.is_empty() { 0 } else { self.asked + 1 };
        self.asked_at = Some(Instant::now());
        if self.asked >= ASK_TIMES {
            for task in untold {
                self.ended.entry(task).or_default().unknown = true;
            }
            self.asked = 0;
        }
    }

    /// Returns how many of all tasks are pending, if a row of pending tasks does not list them. These are all
    /// tasks that nothing else mentions.
    pub(crate) fn left_of(&self, total: usize, rows: &[Row]) -> Option<usize> {
        if !rows.iter().any(is_nameless) {
            return None;
        }
        let mut named: HashSet<u32> = rows.iter().flat_map(|row| tasks(&row.tasks)).collect();
        named.extend(self.ended.keys());
        let waiting =
            rows.iter().filter(|row| row.state.phase() == Phase::Waiting).map(|row| tasks(&row.tasks).len());
        Some(total.saturating_sub(named.len()) + waiting.sum::<usize>())
    }

    /// Returns the tasks that are neither pending nor running and whose ends are unknown. Empty if the
    /// pending tasks are not listed.
    fn unknown_tasks(&self, all: &[u32], rows: &[Row]) -> impl Iterator<Item = u32> {
        let alive = alive(rows);
        let all = if rows.iter().any(is_nameless) { &[] } else { all };
        let is_told =
            |ended: &ArrayTaskEnd| ended.slurms.is_some() || ended.marked.is_some() || ended.unknown;
        let is_untold = move |task: &u32| !alive.contains(task) && !self.ended.get(task).is_some_and(is_told);
        all.iter().copied().filter(is_untold)
    }

    /// Returns how many tasks have failed.
    pub(crate) fn failed(&self) -> usize {
        self.ended.values().filter(|ended| ended.is_bad()).count()
    }

    /// Returns the number of done tasks to report. It never decreases: after a crash, a controller can show
    /// an ended task as running again.
    pub(crate) fn done(&mut self, done: usize) -> usize {
        self.most_done = self.most_done.max(done);
        self.most_done
    }
}

/// Returns true for pending tasks without a list: slurmrestd truncates long expressions.
fn is_nameless(row: &Row) -> bool {
    row.tasks == Tasks::Single && row.state.phase() == Phase::Waiting
}

fn tasks(tasks: &Tasks) -> Vec<u32> {
    match tasks {
        Tasks::Single => Vec::new(),
        Tasks::One(task) => vec![*task],
        Tasks::Many(tasks) => tasks.clone(),
    }
}

fn alive(rows: &[Row]) -> HashSet<u32> {
    rows.iter().filter(|row| !row.state.has_ended()).flat_map(|row| tasks(&row.tasks)).collect()
}

fn how(state: State) -> Option<SlurmOutcome> {
    match state {
        State::Completed => Some(SlurmOutcome::Good),
        State::Cancelled => Some(SlurmOutcome::Cancelled),
        State::OutOfMemory => Some(SlurmOutcome::OutOfMemory),
        state => state.has_ended().then_some(SlurmOutcome::Bad),
    }
}

fn marked(end: &EndMarker) -> MarkerOutcome {
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
    use crate::backend::Slurm;
    use crate::fake::{Fake, row};
    use crate::folder::PLAN;
    use crate::plan::Plan;

    fn task(task: u32, state: State) -> Row {
        Row { tasks: Tasks::One(task), ..row(7, "tb-a", state) }
    }

    /// Slurm's state still counts if it knows more than the marker, such as out of memory.
    #[test]
    fn end_marker_overrides_element_state() {
        let ends = |all: &[(&str, &str)]| {
            let read =
                |(run, text): &(&str, &str)| (Run::parse(run).unwrap(), EndMarker::parse(text).unwrap());
            all.iter().map(read).collect::<BTreeMap<_, _>>()
        };
        let mut tally = ArrayCounts::default();
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
        tally.add_rows(&rows);
        assert_eq!(tally.failed(), 3);
        let stopped = "code=143\ntold=TERM\n";
        tally.mark(&ends(&[("0.0", "code=0\n"), ("1.0", "code=2\n"), ("2.0", stopped), ("4.0", stopped)]));
        assert_eq!(tally.failed(), 3, "1, 3 and 4: {tally:?}");
        // It is requeued, and its last run counts.
        tally.add_rows(&[task(1, State::Pending)]);
        assert_eq!(tally.failed(), 2);
        assert_eq!(tally.unread(&all, &rows), HashSet::from([1, 3]));
        tally.mark(&ends(&[("1.0", "code=2\n"), ("1.1", "code=0\n")]));
        assert_eq!(tally.failed(), 2);
        // The script did not notice.
        tally.add_rows(&[task(6, State::OutOfMemory)]);
        tally.mark(&ends(&[("6.0", "code=0\n")]));
        assert_eq!(tally.failed(), 3);
    }

    /// Tasks of unknown state are queried in the accounting a few times, and then counted as done.
    #[test]
    fn unknown_elements_are_queried_repeatedly() {
        let mut tally = ArrayCounts::default();
        let all = [0, 1, 2];
        assert!(tally.needs_accounting(&all, &[]));
        assert!(
            !tally.needs_accounting(
                &all,
                &[Row { tasks: Tasks::Many(all.to_vec()), ..task(0, State::Pending) }]
            )
        );
        let records = crate::driver::accounting_text::records(
            "7_0|FAILED|3:0|1795339653|1795339654|1795339655|1|UNLIMITED||00:00:00|1|10M|vm|tb-a\n",
        );
        for _ in 0..ASK_TIMES {
            assert!(tally.unknown_tasks(&all, &[]).next().is_some());
            tally.add_records(&all, &[], &records);
            assert_eq!(tally.failed(), 1);
        }
        assert!(!tally.needs_accounting(&all, &[]));
        assert_eq!(tally.unknown_tasks(&all, &[]).count(), 0, "nobody will say");
        assert_eq!((tally.done(2), tally.done(1)), (2, 2));
    }

    /// Polls an array of five tasks while the controller forgets one after the other.
    #[tokio::test(start_paused = true)]
    async fn forgotten_elements_count_as_failed() {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::default();
        let mut slurm = Slurm::with(Box::new(fake.clone()), dir.path());
        slurm.believe_in_accounting();
        let folder = slurm.folder("tb-a");
        folder.make(None).unwrap();
        folder.write_json(PLAN, &Plan { array: Some("0-4".to_owned()), ..Plan::default() }).unwrap();
        let shows = |rows: &[(u32, State)]| {
            fake.knows().rows = rows.iter().map(|(number, state)| task(*number, *state)).collect();
        };
        let looked = async |slurm: &Slurm| {
            let seen =
                slurm.poll_jobs(&Subject::watched(&[JobHandle::new("lab/7/tb-a")])).await.remove(0).unwrap();
            (seen.message.unwrap_or_default(), seen.progress.unwrap().done)
        };
        let (failed, ran) = (State::Failed, State::Running);
        shows(&[(0, failed), (1, failed), (2, ran), (3, ran), (4, ran)]);
        assert_eq!(looked(&slurm).await, ("job 7: 2 of 5 done, 2 of them failed, 3 running".to_owned(), 2.0));
        shows(&[(2, ran), (3, ran), (4, ran)]);
        let both = ("job 7: 2 of 5 done, 2 of them failed, 3 running".to_owned(), 2.0);
        assert_eq!(looked(&slurm).await, both);
        assert!(fake.knows().asked_about.is_empty(), "it was seen");

        // Another process, which has seen none of them. One task has left a marker, the other none.
        let mut slurm = Slurm::with(Box::new(fake.clone()), dir.path());
        slurm.believe_in_accounting();
        std::fs::write(folder.file("ends/0.0"), "code=3\n").unwrap();
        assert!(looked(&slurm).await.0.contains("2 of 5 done, 1 of them failed"));
        let recorded =
            "7_1|NODE_FAIL|0:0|1795339653|1795339654|1795339655|1|UNLIMITED||00:00:00|1|10M|vm|tb-a\n";
        fake.knows().records = Some(crate::driver::accounting_text::records(recorded));
        fake.knows().asked_about.clear();
        for _ in 0..3 {
            tokio::time::advance(ASK_EVERY).await;
            assert_eq!(looked(&slurm).await, both);
        }
        assert_eq!(fake.knows().asked_about, [7], "once is enough");

        // After a crash, the controller shows an ended task as running.
        shows(&[(1, ran), (2, ran), (3, ran), (4, ran)]);
        let (message, done) = looked(&slurm).await;
        assert_eq!((message.contains("1 of 5 done, 1 of them failed"), done), (true, 2.0), "{message}");
    }
}
